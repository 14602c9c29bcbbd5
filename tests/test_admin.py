"""The admin: every page loads, run data is read only and never counted, keys are shown once."""

import re

import pytest
from django.contrib import admin
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.definitions.models import Backfill, Dag, Task
from apps.executions.models import CircuitBreaker, Execution, Lease, StandingHold, Worker
from apps.executions.states import Status
from apps.tenants import keys
from apps.tenants.models import ApiKey, AuditEntry, Membership, Tenant
from tests.console_ledger import HOSTILE, Ledger, make_person, make_tenant, now
from tests.factories import make_principal, make_task

pytestmark = pytest.mark.django_db

OURS = [
    model for model in admin.site._registry if model._meta.app_label in ("tenants", "definitions", "executions", "auth")
]
READ_ONLY = [model for model in OURS if model._meta.app_label in ("definitions", "executions") and model is not Dag]


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(make_person(None, is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def rows() -> Ledger:
    """Something in every table that the admin shows."""
    ledger = Ledger(make_tenant())
    ledger.one_of_each()
    ledger.add(Status.COMPLETED, task=HOSTILE)
    make_person(ledger.tenant)
    keys.issue(tenant=ledger.tenant, name="old key")
    instant = now()
    Worker.objects.create(
        host="h", process_id=1, slots=1, started_at=instant, heartbeat_at=instant, lease_expires_at=instant
    )
    Lease.objects.create(role="preloader", holder=ledger.tenant.id, epoch=1, expires_at=instant, acquired_at=instant)
    CircuitBreaker.objects.create(
        tenant_id=ledger.tenant.id, key="webhook:<img src=x>", last_error="<img src=x>", changed_at=instant
    )
    task = Task.objects.filter(tenant_id=ledger.tenant.id).first() or make_task(make_principal(ledger.tenant))
    Backfill.objects.create(
        tenant=ledger.tenant,
        task=task,
        schedule={},
        start_at=instant,
        end_at=instant,
        at_once=1,
        total=1,
        created_at=instant,
    )
    AuditEntry.objects.create(
        tenant=ledger.tenant, actor="user:test", action="task.pause", target_type="task", target_id="1"
    )
    return ledger


def url(model: type, page: str, *arguments: object) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_{page}", args=arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", OURS, ids=lambda model: model.__name__)
def test_lists_and_rows_load(root: Client, rows: Ledger, model: type) -> None:
    answer = root.get(url(model, "changelist"))
    assert answer.status_code == 200
    assert "<img src=x" not in answer.content.decode()
    newest = model._default_manager.order_by("-pk").first()  # type: ignore[attr-defined]
    if newest is not None:
        answer = root.get(url(model, "change", newest.pk))
        assert answer.status_code == 200
        assert "<img src=x" not in answer.content.decode()


@pytest.mark.parametrize("model", READ_ONLY, ids=lambda model: model.__name__)
def test_run_data_cannot_be_written(root: Client, rows: Ledger, model: type) -> None:
    newest = model._default_manager.order_by("-pk").first()  # type: ignore[attr-defined]
    assert root.get(url(model, "add")).status_code == 403
    assert root.post(url(model, "change", newest.pk), {}).status_code == 403
    assert root.post(url(model, "delete", newest.pk), {"post": "yes"}).status_code == 403


def test_the_ledger_is_never_counted_and_one_day_is_read_for_an_id(root: Client, rows: Ledger) -> None:
    row = Execution.objects.get(tenant=rows.tenant, status=Status.RETRYING)
    with CaptureQueriesContext(connection) as queries:
        assert str(row.id) in root.get(url(Execution, "changelist")).content.decode()
        root.get(url(Execution, "changelist"), {"status__exact": "9", "due": "week"})
        root.get(url(Execution, "changelist"), {"q": str(row.id)})
        root.get(url(Execution, "change", row.id))
    ledger = [q["sql"] for q in queries if '"executions"' in q["sql"]]
    assert ledger
    assert not [sql for sql in ledger if "COUNT(" in sql.upper()]
    assert all('"executions"."scheduled_at"' in sql.split("WHERE", 1)[1] for sql in ledger)


def test_an_unknown_or_impossible_id_is_no_error(root: Client, rows: Ledger) -> None:
    for identity in ("00000000-0000-0000-0000-000000000000", "nonsense"):
        assert root.get(url(Execution, "change", identity)).status_code == 404
        assert root.get(url(Execution, "changelist"), {"q": identity}).status_code == 200


def test_attempts_stand_on_the_executions_page(root: Client, rows: Ledger) -> None:
    dead = Execution.objects.get(tenant=rows.tenant, status=Status.DEAD_LETTER)
    html = root.get(url(Execution, "change", dead.id)).content.decode()
    assert "failed" in html
    assert f"/t/{rows.tenant.slug}/executions/{dead.id}/" in html


def test_a_key_is_shown_once_and_works_until_revoked(root: Client) -> None:
    tenant = make_tenant()
    form = {"tenant": str(tenant.pk), "name": "ci", "role": "operator", "expires_at_0": "", "expires_at_1": ""}
    answer = root.post(url(ApiKey, "add"), form, follow=True)
    html = answer.content.decode()
    shown = re.findall(r"cw_[\w-]{43}", html)
    assert len(set(shown)) == 1
    text = shown[0]
    principal = keys.principal_of(text, now=now())
    assert principal is not None
    assert principal.tenant_id == tenant.id
    key = ApiKey.objects.get(tenant=tenant)
    for page in (url(ApiKey, "changelist"), url(ApiKey, "change", key.pk)):
        html = root.get(page).content.decode()
        assert text not in html
        assert key.key_hash not in html
        assert key.prefix in html
    root.post(url(ApiKey, "changelist"), {"action": "revoke", "_selected_action": [str(key.pk)]})
    assert keys.principal_of(text, now=now()) is None
    acts = list(AuditEntry.objects.filter(tenant=tenant).order_by("id").values_list("action", flat=True))
    assert acts == ["api_key.create", "api_key.revoke"]


def test_memberships_and_tenants_leave_a_trace(root: Client) -> None:
    form = {"slug": "newcomer", "name": "Newcomer", "tier": "STANDARD", "home_region": "default", "weight": "1"}
    root.post(url(Tenant, "add"), form)
    tenant = Tenant.objects.get(slug="newcomer")
    person = make_person(None)
    root.post(url(Membership, "add"), {"tenant": str(tenant.pk), "user": str(person.pk), "role": "viewer"})
    membership = Membership.objects.get(tenant=tenant)
    root.post(url(Membership, "delete", membership.pk), {"post": "yes"})
    assert root.post(url(Tenant, "delete", tenant.pk), {"post": "yes"}).status_code == 403
    acts = list(AuditEntry.objects.filter(tenant=tenant).order_by("id").values_list("action", flat=True))
    assert acts == ["tenant.create", "membership.create", "membership.delete"]


def test_pause_and_resume_go_through_the_services(root: Client) -> None:
    ledger = Ledger(make_tenant())
    task_id = ledger.version("job").task_id
    root.post(url(Task, "changelist"), {"action": "pause", "_selected_action": [str(task_id)]})
    assert Task.objects.get(pk=task_id).paused_at is not None
    assert StandingHold.objects.filter(target_id=task_id).exists()
    root.post(url(Task, "changelist"), {"action": "resume", "_selected_action": [str(task_id)]})
    assert Task.objects.get(pk=task_id).paused_at is None
    assert not StandingHold.objects.filter(target_id=task_id).exists()


def test_staff_without_permissions_may_do_nothing(rows: Ledger) -> None:
    client = Client()
    client.force_login(make_person(None, is_staff=True))
    for model in OURS:
        assert client.get(url(model, "changelist")).status_code == 403


NIL = "00000000-0000-0000-0000-000000000000"
HOSTILE_IDS = ("0", "9" * 30, "%00", "a%00b", "%ff", "_5F", "%EF%BC%91", "a" * 2000, NIL)


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model.__name__)
def test_no_id_brings_a_page_down(root: Client, model: type) -> None:
    for identity in HOSTILE_IDS:
        for page in ("change", "delete", "history"):
            path = f"{url(model, 'changelist')}{identity}/{page}/"
            found = root.get(path).status_code
            assert found == 404 or (found == 403 and page == "delete"), f"{path} {found}"
        assert root.post(f"{url(model, 'changelist')}{identity}/change/").status_code in (403, 404)


@pytest.mark.parametrize("model", admin.site._registry, ids=lambda model: model.__name__)
def test_no_query_brings_a_list_down(root: Client, model: type) -> None:
    for query in ("id=%00", "q=%00", "q=" + "9" * 30, "o=zz", "p=-1", "p=zz", "tenant__id__exact=x", "_to_field=%00"):
        assert root.get(f"{url(model, 'changelist')}?{query}").status_code in (200, 302, 400, 404), query
    chosen = {"action": "delete_selected", "_selected_action": ["\0", "x", "9" * 30]}
    assert root.post(url(model, "changelist"), chosen).status_code in (200, 302, 400, 403, 404)


@pytest.mark.parametrize("scopes", ["5", '{"a": 1}', '["tasks", 5]', "nonsense"])
def test_a_key_with_scopes_that_are_none_is_refused(root: Client, rows: Ledger, scopes: str) -> None:
    given = {"tenant": rows.tenant.id, "name": "a", "role": "viewer", "scopes": scopes}
    page = root.post(url(ApiKey, "add"), given)
    assert page.status_code == 200
    assert "scopes" in page.content.decode()
    assert not ApiKey.objects.filter(tenant=rows.tenant, name="a").exists()
