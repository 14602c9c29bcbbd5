"""The page that breaks quickstart: who may, what the supervisor lets itself be told, and how recovery is measured."""

import json
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import pytest
from django.conf import settings as django_settings
from django.db import connection
from django.test import Client
from pytest_django import Settings

from apps.executions.models import IdempotencyKey
from apps.executions.states import Status
from apps.quickstart.break_it.breaker import Breaker
from apps.quickstart.break_it.channel import Channel, ask
from apps.quickstart.break_it.ledger import Standing
from apps.quickstart.break_it.notes import MOST_ACCEPTED, MOST_ACTS, Act, Notebook
from apps.quickstart.break_it.recovery import Recovery, recovery
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_dags import make_member
from tests.console_ledger import make_tenant
from tests.factories import worker_row
from tests.waiting import PATIENCE_SECONDS

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


class Fleet:
    """Processes that only say what was done to them."""

    def __init__(self) -> None:
        self.killed: list[str] = []

    def pids(self) -> dict[str, int]:
        return {"web": 11, "worker-1": 12}

    def kill(self, name: str) -> int | None:
        self.killed.append(name)
        return self.pids().get(name)


@contextmanager
def supervised(folder: Path, fleet: Fleet, *, questions: int) -> Iterator[Path]:
    """A supervisor that answers so many questions, in a thread."""
    channel = Channel(folder)
    channel.answer = Breaker(fleet, None)

    def serve() -> None:
        for _ in range(questions):
            channel.serve()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield channel.path
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    finally:
        channel.close()


def test_the_supervisor_kills_what_it_starts_again_and_nothing_else(tmp_path: Path) -> None:
    """Also where the folder lies deeper than addresses of sockets are long."""
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    fleet = Fleet()
    with supervised(deep, fleet, questions=9) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert ask(path, {"act": "look"}, seconds=90)["processes"] == fleet.pids()
        assert ask(path, {"act": "kill", "name": "worker-1"}, seconds=90) == {
            "name": "worker-1",
            "pid": 12,
        }
        assert "does not run" in ask(path, {"act": "kill", "name": "worker-7"}, seconds=90)["problem"]
        for wrong in ({"act": "kill", "name": "web"}, {"act": "kill"}, {"act": "rm"}, {"act": "redis"}, {}):
            assert ask(path, wrong, seconds=90)["problem"]
        assert fleet.killed == ["worker-1", "worker-7"]
        folder = os.open(path.parent, os.O_RDONLY)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as rude:
            rude.connect(f"/proc/self/fd/{folder}/{path.name}")
            rude.send(b"not JSON")
        os.close(folder)
    assert not path.exists()
    with pytest.raises(OSError, match="No such file"):
        ask(path, {"act": "look"}, seconds=1)


def test_notes_keep_the_latest_and_are_for_their_owner(tmp_path: Path) -> None:
    book = Notebook(tmp_path)
    task, ids = uuid4(), [uuid4() for _ in range(MOST_ACCEPTED)]
    book.took(task, ids)
    book.took(task, [task])
    for number in range(MOST_ACTS + 1):
        book.broke(Act(NOW, "worker", f"worker-{number}", number, {task: 7}))
    notes = book.read()
    assert (len(notes.accepted), notes.accepted[-1]) == (MOST_ACCEPTED, task)
    assert (notes.acts[0].name, len(notes.acts)) == (f"worker-{MOST_ACTS}", MOST_ACTS)
    assert notes.acts[0].flying == {task: 7}
    assert stat.S_IMODE((tmp_path / "notes.json").stat().st_mode) == 0o600
    book.took(uuid4(), ids[:1])
    assert book.read().accepted == ids[:1]


ONE = Standing(UUID(int=1), Status.RUNNING, 7, 1, 3, NOW - SECOND, NOW - SECOND, None)


def seen(*standing: Standing, until: datetime | None = None) -> Recovery:
    act = Act(NOW, "worker", "worker-1", 12, {ONE.id: 7})
    return recovery(act, {one.id: one for one in standing}, now=NOW + 5 * SECOND, until=until)


def test_recovery_is_when_the_last_one_that_was_hit_or_delayed_has_begun() -> None:
    assert seen(ONE).goes_on
    again = replace(ONE, token=8, started_at=NOW + 2 * SECOND)
    assert (seen(again).goes_on, seen(again).after, seen(again).begun_anew) == (False, 2 * SECOND, 1)
    ended = replace(ONE, status=Status.COMPLETED)
    assert (seen(ended).goes_on, seen(ended).after, seen(ended).begun_anew) == (False, None, 0)
    late = replace(ONE, id=UUID(int=2), run_at=NOW + SECOND, started_at=NOW + 4 * SECOND)
    assert (seen(ended, late).after, seen(ended, late).latest) == (4 * SECOND, 3 * SECOND)
    assert seen(ended, late, until=NOW).after is None, "the next act's affair"
    waiting = replace(late, status=Status.PRELOADED, started_at=None)
    assert seen(ended, waiting).goes_on


@pytest.fixture
def demo(db: None) -> Tenant:
    return make_tenant(django_settings.DEMO_TENANT)


def status_of(tenant: Tenant, path: str, role: Role, *, posts: bool = False) -> int:
    client = Client()
    client.force_login(make_member(tenant, role))
    address = f"/t/{tenant.slug}/break-it/{path}"
    return (client.post(address) if posts else client.get(address)).status_code


@pytest.mark.urls("tests.break_it_urls")
def test_only_owners_of_the_demo_tenant_and_only_where_a_supervisor_listens(
    demo: Tenant, settings: Settings, tmp_path: Path
) -> None:
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    settings.SERVICES = replace(settings.SERVICES, database_url=database)
    assert status_of(demo, "", Role.OWNER) == 404
    fleet = Fleet()
    with supervised(tmp_path, fleet, questions=3) as path:
        settings.QUICKSTART_CONTROL = str(path)
        assert status_of(demo, "", Role.OPERATOR) == 403
        assert status_of(demo, "state", Role.OPERATOR) == 404
        assert status_of(demo, "act/worker", Role.OPERATOR, posts=True) == 403
        assert status_of(demo, "act/worker", Role.OWNER) == 404
        other = make_tenant()
        assert {status_of(other, "", Role.OWNER), status_of(other, "act/worker", Role.OWNER, posts=True)} == {404}
        assert fleet.killed == []
        assert not AuditEntry.objects.filter(action__startswith="break_it").exists()
        owner = Client(enforce_csrf_checks=True)
        owner.force_login(make_member(demo, Role.OWNER))
        assert owner.post(f"/t/{demo.slug}/break-it/act/worker").status_code == 403
        assert status_of(demo, "", Role.OWNER) == 200
        assert status_of(demo, "act/worker", Role.OWNER, posts=True) == 200
    assert fleet.killed == ["worker-1"]
    entry = AuditEntry.objects.get(action="break_it.worker")
    assert (entry.tenant, entry.target_id, entry.detail) == (demo, "worker", {"in_flight": 0, "pid": 12})
    assert json.loads((path.parent / "notes.json").read_text())["acts"][0]["pid"] == 12


@pytest.mark.urls("tests.break_it_urls")
@pytest.mark.django_db(transaction=True)
def test_a_worker_has_one_name_and_a_click_kills_once(settings: Settings, tmp_path: Path) -> None:
    """The supervisor's worker-1 is called by the ledger's number of it. A click that hit nothing has used no key."""
    demo = make_tenant(django_settings.DEMO_TENANT)
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    settings.SERVICES = replace(settings.SERVICES, database_url=database)
    old, living = (worker_row(process_id=12) for _ in range(2))
    assert old.pk < living.pk
    owner, fleet = Client(), Fleet()
    owner.force_login(make_member(demo, Role.OWNER))
    click = {"key": "a-click"}
    with supervised(tmp_path, fleet, questions=5) as path:
        settings.QUICKSTART_CONTROL = str(path)
        pieces = owner.get(f"/t/{demo.slug}/break-it/state").json()["pieces"]
        assert f">{living}</a>" in pieces["alive"]
        assert "worker-1<" not in pieces["alive"]
        first, again = (owner.post(f"/t/{demo.slug}/break-it/act/worker", click).json() for _ in range(2))
        assert first == again == {"said": f"{living} is hit, with 0 in flight"}
        assert fleet.killed == ["worker-1"]
        assert f"{living}</b> killed" in owner.get(f"/t/{demo.slug}/break-it/state").json()["pieces"]["acts"]
        away = {"key": "another"}
        assert owner.post(f"/t/{demo.slug}/break-it/act/redis", away).status_code == 409
    for _ in range(2):
        assert owner.post(f"/t/{demo.slug}/break-it/act/dispatcher", away | {"key": "third"}).status_code == 409
    assert list(AuditEntry.objects.filter(action="break_it.worker").values_list("target_id", flat=True)) == [
        str(living)
    ]
    assert IdempotencyKey.objects.filter(tenant_id=demo.id).count() == 1


def test_without_quickstart_there_is_no_such_address(demo: Tenant) -> None:
    assert status_of(demo, "", Role.OWNER) == 404
