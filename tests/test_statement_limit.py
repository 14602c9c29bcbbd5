"""No statement of a web request goes on for long: it is cancelled, and who asked is told what to narrow."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.db import OperationalError, connection, transaction
from django.db.backends.signals import connection_created
from django.test import Client

from apps.console import errors
from apps.logs import live
from apps.tenants.models import Role, Tenant
from chronoweb.runtime import postgres, statement_limit
from tests.console_dags import make_member
from tests.factories import make_api

pytestmark = pytest.mark.django_db(transaction=True)
SECONDS = 1.0
"""Of all statements of a test, also of those that need a thousandth of it."""


@pytest.fixture
def limited(settings: Any) -> Iterator[None]:
    """As in a web process."""
    settings.CHRONOWEB = replace(settings.CHRONOWEB, web_statement_seconds=SECONDS)
    connection.close()
    connection_created.connect(statement_limit.limit)
    yield
    connection_created.disconnect(statement_limit.limit)
    connection.close()


@pytest.mark.usefixtures("limited")
def test_pages_and_the_api_say_what_to_narrow_and_the_connection_goes_on() -> None:
    """The statements are slow for a real reason: somebody has locked what they read."""
    api = make_api()
    console = Client()
    console.force_login(make_member(api.tenant, Role.VIEWER))
    path = f"/t/{api.tenant.slug}/dags/"
    connection.ensure_connection()
    server_process = connection.connection.info.backend_pid
    with postgres.connect_like_django("in the way") as other, other.transaction():
        other.execute("LOCK TABLE dags IN ACCESS EXCLUSIVE MODE")
        page = console.get(path)
        fetched = console.get(path, headers={"accept": "application/json"})
        answer = api.get("/dags")
    for found in (page, fetched, answer):
        assert found.status_code == 503
        assert found["Retry-After"] == str(statement_limit.RETRY_SECONDS)
    html = page.content.decode()
    assert errors.SLOW.title in html
    assert "a shorter time" in html
    assert 'http-equiv="refresh"' not in html, "nobody asks again by himself"
    assert "a shorter time" in fetched.json()["problem"]
    problem = answer.json()
    assert (answer["Content-Type"], problem["type"]) == ("application/problem+json", "urn:chronoweb:problem:too-slow")
    assert "a shorter time" in problem["detail"]
    assert console.get(path).status_code == 200
    assert api.get("/dags").status_code == 200
    connection.ensure_connection()
    assert connection.connection.info.backend_pid == server_process


@pytest.mark.usefixtures("limited")
def test_a_transaction_that_is_stopped_writes_nothing_and_short_statements_go_on() -> None:
    api = make_api()
    was = api.tenant.name
    with pytest.raises(OperationalError, match="canceling") as stopped:
        _write_and_sleep(api.tenant)
    assert statement_limit.is_too_slow(stopped.value)
    api.tenant.refresh_from_db()
    assert api.tenant.name == was
    with pytest.raises(psycopg.errors.QueryCanceled):
        postgres.reads(connection).read("SELECT pg_sleep(30)")


@transaction.atomic
def _write_and_sleep(tenant: Tenant) -> None:
    Tenant.objects.filter(id=tenant.id).update(name="another")
    postgres.reads(connection).read("SELECT 1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")


@pytest.mark.usefixtures("limited")
def test_what_is_streamed_takes_as_long_as_it_takes() -> None:
    def slow() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_sleep(%s), 'done'", [2 * SECONDS])
            return cursor.fetchone()[1]

    assert async_to_sync(live.in_thread)(slow) == "done"


@pytest.mark.usefixtures("limited")
def test_a_statement_that_cannot_be_cancelled_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_limit, "CANCEL_SECONDS", 0.2)
    monkeypatch.setattr(statement_limit.LimitedConnection, "cancel_safe", lambda self, **_: None)
    with pytest.raises(OperationalError, match="does not cancel it"), connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)
