"""What the palette finds, whose it is and what it costs; what pages say when something is wrong."""

import re
from dataclasses import replace
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console import errors, finding
from apps.executions.states import Status
from apps.tenants.models import Role, Tenant
from tests.console_dags import SALES, Dags, make_member
from tests.console_ledger import HOSTILE, Ledger, make_person, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def client(tenant: Tenant) -> Client:
    made = Client()
    made.force_login(make_member(tenant))
    return made


def find(client: Client, tenant: Tenant, text: str) -> list[dict[str, Any]]:
    answer = client.get(f"/t/{tenant.slug}/find", {"q": text})
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["found"]
    return found


def test_things_are_found_by_part_of_a_name_and_by_id(client: Client, tenant: Tenant) -> None:
    ledger, dags = Ledger(tenant), Dags(tenant)
    row = ledger.add(Status.RETRYING, task="cache-warm")
    dag = dags.make("warm-up", SALES)
    run = dags.start(dag)
    base = f"/t/{tenant.slug}"
    by_name = {one["group"]: one for one in find(client, tenant, "WARM")}
    assert {group: one["href"] for group, one in by_name.items()} == {
        "Tasks": f"{base}/tasks/{row.task_id}/",
        "DAGs": f"{base}/dags/{dag.id}/",
        "Executions": f"{base}/executions/{row.id}/",
    }
    assert by_name["Executions"]["state"] == "retrying"
    for identity, href in (
        (row.id, f"{base}/executions/{row.id}/"),
        (row.task_id, f"{base}/tasks/{row.task_id}/"),
        (dag.id, f"{base}/dags/{dag.id}/"),
        (run, f"{base}/runs/{run}/"),
    ):
        assert [one["href"] for one in find(client, tenant, str(identity))] == [href]
    for nothing in ("", "w", "no-such-thing", "\0\0", "%", HOSTILE, "00000000-0000-0000-0000-000000000000"):
        assert find(client, tenant, nothing) == [], nothing


def test_nothing_of_others_is_found(client: Client, tenant: Tenant) -> None:
    other = make_tenant()
    row = Ledger(other).add(Status.RUNNING, task="payroll")
    dags = Dags(other)
    dag = dags.make("payroll-dag", SALES)
    run = dags.start(dag)
    for text in ("payroll", other.slug, row.id, row.task_id, dag.id, run):
        assert find(client, tenant, str(text)) == [], text
    assert client.get(f"/t/{other.slug}/find", {"q": "payroll"}).status_code == 404


def test_own_tenants_are_found_and_few_of_each(client: Client, tenant: Tenant) -> None:
    ledger = Ledger(tenant)
    for n in range(finding.EACH + 3):
        ledger.add(Status.COMPLETED, task=f"many-{n}")
    with CaptureQueriesContext(connection) as many:
        found = find(client, tenant, "many")
    assert len(found) == 2 * finding.EACH
    with CaptureQueriesContext(connection) as none:
        find(client, tenant, "no-such-thing")
    assert len(none) <= len(many) <= len(none) + 1 <= 9  # without tasks nothing is asked of their runs
    root = Client()
    root.force_login(make_person(None, is_superuser=True))
    beside = make_tenant()
    assert [one["label"] for one in find(root, tenant, beside.slug)] == [beside.slug]


def test_what_is_not_there_is_said_with_a_way_on(client: Client, tenant: Tenant) -> None:
    for path in (f"/t/{tenant.slug}/no-such-page", "/t/no-such-tenant/", "/nowhere"):
        answer = client.get(path)
        assert answer.status_code == 404
        html = answer.content.decode()
        assert "There is nothing at this address" in html
        assert 'href="/"' in html
        assert "unsafe" not in answer["Content-Security-Policy"]


def test_an_old_form_is_refused_in_words(tenant: Tenant) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post("/login/", {"username": "a", "password": "b"})
    assert answer.status_code == 403
    assert "Nothing was done" in answer.content.decode()
    told = strict.post("/login/", {}, headers={"Accept": "application/json"})
    assert "Load it again" in told.json()["problem"]


def test_too_many_tries_say_when(settings: Any, unique: str) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # the slowness is not the subject
    tried = {"username": unique, "password": "x"}
    answers = [Client(REMOTE_ADDR="192.0.2.77").post("/login/", tried) for _ in range(12)]
    refused = answers[-1]
    assert refused.status_code == 429
    assert int(refused["Retry-After"]) > 0
    assert "Not logged in" in refused.content.decode()


def test_a_tenant_of_another_region_says_where(client: Client, tenant: Tenant, settings: Any) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, region="eu", region_urls=("us=https://us.example.com",))
    Tenant.objects.filter(id=tenant.id).update(home_region="us")
    answer = client.get(f"/t/{tenant.slug}/tasks/")
    assert answer.status_code == 421
    assert f'href="https://us.example.com/t/{tenant.slug}/tasks/"' in answer.content.decode()
    told = client.post(f"/t/{tenant.slug}/tasks/act/pause", headers={"Accept": "application/json"})
    assert (told.status_code, "us.example.com" in told.json()["problem"]) == (421, True)


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OperationalError("gone"), 503, "tries again by itself"),
        (PermissionDenied(), 403, "You may not do this here"),
        (RuntimeError("a secret detail"), 500, "chronoweb failed"),
    ],
)
def test_what_fails_has_a_page(
    client: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, words: str
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr(finding, "find", fails)
    client.raise_request_exception = False
    answer = client.get(f"/t/{tenant.slug}/find?q=warm")
    html = answer.content.decode()
    assert answer.status_code == status
    assert words in html
    assert "secret detail" not in html
    assert bool(re.search('id="request-number">[0-9a-f]{16}<', html)) is (status >= 500)
    assert ('http-equiv="refresh"' in html) is (status == 503)


def test_every_error_page_needs_no_database(rf: Any, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        for status in errors.WORDS:
            html = errors.error_page(rf.get("/"), status).content.decode()
            assert errors.WORDS[status].title in html


def test_viewers_are_offered_no_acts(tenant: Tenant) -> None:
    viewer = Client()
    viewer.force_login(make_member(tenant, Role.VIEWER))
    assert "tasks/new" not in viewer.get(f"/t/{tenant.slug}/workers/").content.decode()
