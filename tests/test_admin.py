"""The admin: every page loads, run data is read only and never counted, keys are shown once."""

import re
import secrets
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.definitions.models import Backfill, Dag, Task
from apps.executions import ids
from apps.executions.dead_letters import DeadLetterFilter, start_replay
from apps.executions.models import (
    CircuitBreaker,
    DagRun,
    DeadLetter,
    Execution,
    Finding,
    Lease,
    Replay,
    StandingHold,
    TaskVersion,
    TenantUsage,
    Worker,
)
from apps.executions.quotas import Use
from apps.executions.states import Hold, Status
from apps.tenants import channels, keys, secret_store
from apps.tenants.admin_lists import WhenFilter
from apps.tenants.models import ApiKey, AuditEntry, Membership, Role, SignIn, Tenant
from tests.console_dags import Dags, make_member
from tests.console_ledger import HOSTILE, PASSWORD, Ledger, make_person, make_tenant, now
from tests.console_letters import letters
from tests.factories import make_principal, make_task

pytestmark = pytest.mark.django_db

OURS = [
    model for model in admin.site._registry if model._meta.app_label in ("tenants", "definitions", "executions", "auth")
]
READ_ONLY = [model for model in OURS if model._meta.app_label in ("definitions", "executions") and model is not Dag]


def unhashed(**more: Any) -> User:
    """Somebody who never logs in by password, whose hashing takes long."""
    return User.objects.create(username="p" + secrets.token_hex(5), **more)


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(unhashed(is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def rows() -> Ledger:
    """Something in every table that the admin shows."""
    ledger = Ledger(make_tenant())
    ledger.one_of_each()
    ledger.add(Status.COMPLETED, task=HOSTILE)
    person = make_member(ledger.tenant)
    keys.issue(tenant=ledger.tenant, name="old key")
    Group.objects.create(name="g")
    secret_store.create(principal=make_principal(ledger.tenant), name="T", given={"value": "v"})
    mail = {"kind": "email", "name": "us", "given": {"to": ["a@example.com"]}}
    channels.create(principal=make_principal(ledger.tenant), **mail)
    SignIn.objects.create(tenant=ledger.tenant, user=person, refresh_id="r", expires_at=now())
    dags = Dags(ledger.tenant)
    dags.start(dags.make("shop", [{"id": "a", "handler": "demo.noop"}]))
    start_replay(principal=make_principal(ledger.tenant), wanted=DeadLetterFilter())
    instant = now()
    Worker.objects.create(
        host="h", process_id=1, slots=1, started_at=instant, heartbeat_at=instant, lease_expires_at=instant
    )
    Lease.objects.create(role="preloader", holder=ledger.tenant.id, epoch=1, expires_at=instant, acquired_at=instant)
    CircuitBreaker.objects.create(
        tenant_id=ledger.tenant.id, key="webhook:<img src=x>", last_error="<img src=x>", changed_at=instant
    )
    Finding.objects.create(first_at=instant, last_at=instant, kind="leaked", detail="<img src=x>", count=2)
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


def test_lists_and_rows_load(root: Client, rows: Ledger) -> None:
    for model in OURS:
        pages = [url(model, "changelist")]
        newest = model._default_manager.order_by("-pk").first()
        assert newest is not None, f"rows has no {model.__name__}"
        for path in [*pages, url(model, "change", newest.pk)]:
            answer = root.get(path)
            assert answer.status_code == 200, path
            assert "<img src=x" not in answer.content.decode(), path


def test_run_data_cannot_be_written(root: Client, rows: Ledger) -> None:
    for model in READ_ONLY:
        newest = model._default_manager.order_by("-pk").first()
        assert newest is not None
        assert root.get(url(model, "add")).status_code == 403, model
        assert root.post(url(model, "change", newest.pk), {}).status_code == 403, model
        assert root.post(url(model, "delete", newest.pk), {"post": "yes"}).status_code == 403, model


def test_the_ledger_is_never_counted_and_one_day_is_read_for_an_id(root: Client, rows: Ledger) -> None:
    row = Execution.objects.get(tenant=rows.tenant, status=Status.RETRYING)
    with CaptureQueriesContext(connection) as queries:
        assert str(row.id) in root.get(url(Execution, "changelist")).content.decode()
        root.get(url(Execution, "changelist"), {"status__exact": "9", "due": "week"})
        root.get(url(Execution, "changelist"), {"q": str(row.id)})
        root.get(url(Execution, "changelist"), {"_facets": "True"})
        root.get(url(Execution, "change", row.id))
    ledger = [q["sql"] for q in queries if '"executions"' in q["sql"]]
    assert ledger
    assert not [sql for sql in ledger if "COUNT(" in sql.upper()]
    assert all('"executions"."scheduled_at"' in sql.split("WHERE", 1)[1] for sql in ledger)


def test_no_list_counts_for_its_filters(root: Client, rows: Ledger) -> None:
    """`_facets` would count a whole table, once for each choice of each filter."""
    with CaptureQueriesContext(connection) as queries:
        for model in (AuditEntry, Tenant, User):
            assert root.get(url(model, "changelist"), {"_facets": "True"}).status_code == 200
    assert not [q["sql"] for q in queries if " FILTER (" in q["sql"]]
    assert {admin.site._registry[model].show_facets for model in OURS} == {admin.ShowFacets.NEVER}


def test_history_is_what_the_audit_log_has(root: Client, rows: Ledger) -> None:
    task = Task.objects.filter(tenant=rows.tenant).latest("id")
    press(root, Task, "pause", task.pk)
    html = root.get(url(Task, "history", task.pk), follow=True).content.decode()
    assert "task.pause" in html
    assert "task.resume" not in html


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
    person = unhashed()
    root.post(url(Membership, "add"), {"tenant": str(tenant.pk), "user": str(person.pk), "role": "viewer"})
    membership = Membership.objects.get(tenant=tenant)
    root.post(url(Membership, "delete", membership.pk), {"post": "yes"})
    assert root.post(url(Tenant, "delete", tenant.pk), {"post": "yes"}).status_code == 403
    acts = list(AuditEntry.objects.filter(tenant=tenant).order_by("id").values_list("action", flat=True))
    assert acts == ["tenant.create", "membership.create", "membership.delete"]


def test_accounts_and_groups_leave_a_trace(root: Client) -> None:
    """Made, changed, given a password, deleted: by whom, what stood before; a password's text or hash nowhere."""
    tenant, word = make_tenant(), "a-word-nobody-knows-7"
    new = {"username": "joan", "password1": word, "password2": word, "usable_password": "true"}
    root.post(url(User, "add"), new)
    joan = User.objects.get(username="joan")
    Membership.objects.create(tenant=tenant, user=joan, role=Role.OWNER)
    SignIn.objects.create(tenant=tenant, user=joan, refresh_id="r", expires_at=now())  # no reason to keep the account
    may = Permission.objects.get(codename="view_execution")
    root.post(url(Group, "add"), {"name": "support", "permissions": [str(may.pk)]})
    group = Group.objects.get(name="support")
    root.post(
        url(User, "change", joan.pk), {"username": "joan", "is_active": "on", "is_staff": "on", "groups": group.pk}
    )
    secret = {"password1": word + "8", "password2": word + "8", "usable_password": "true"}
    root.post(reverse("admin:auth_user_password_change", args=[joan.pk]), secret)
    root.post(url(User, "changelist"), {"action": "delete_selected", "_selected_action": [joan.pk], "post": "yes"})
    root.post(url(Group, "delete", group.pk), {"post": "yes"})
    assert not User.objects.filter(pk=joan.pk).exists()
    entries = list(AuditEntry.objects.order_by("id"))
    assert [(entry.action, entry.tenant) for entry in entries] == [
        ("user.create", None),
        ("group.create", None),
        ("user.change", None),
        ("user.change", None),
        ("user.delete", None),
        ("membership.delete", tenant),
        ("group.delete", None),
    ]
    assert entries[2].detail["after"] == {"groups": ["support"], "is_staff": True}
    assert entries[2].detail["before"] == {"groups": [], "is_staff": False}
    assert entries[3].detail == {"fields": ["password"]}
    assert not [entry for entry in entries if word in str(entry.detail) or "pbkdf2" in str(entry.detail)]


def test_ones_own_password_leaves_a_trace() -> None:
    person = make_person(None, is_staff=True)
    client = Client()
    client.force_login(person)
    word = "a-word-nobody-knows-7"
    given = {"old_password": PASSWORD, "new_password1": word, "new_password2": word}
    assert client.post(reverse("admin:password_change"), given).status_code == 302
    assert AuditEntry.objects.get().detail == {"fields": ["password"]}


def test_only_superusers_give_powers() -> None:
    """Who may change accounts makes nobody mightier, and does not touch those who may do everything."""
    helper, boss, other = unhashed(is_staff=True), unhashed(is_superuser=True), unhashed()
    rights = ("view_user", "change_user", "delete_user", "add_user", "change_group", "view_group")
    helper.user_permissions.set(Permission.objects.filter(codename__in=rights))
    client = Client()
    client.force_login(helper)
    group = Group.objects.create(name="g")
    mighty = {"is_active": "on", "is_staff": "on", "is_superuser": "on", "groups": [group.pk], "first_name": "Now"}
    for person in (helper, other):
        assert client.post(url(User, "change", person.pk), {"username": person.username, **mighty}).status_code == 302
        person.refresh_from_db()
        assert (person.first_name, person.is_superuser, list(person.groups.all())) == ("Now", False, [])
    assert client.post(url(User, "change", boss.pk), {"username": "mine"}).status_code == 403
    assert client.post(reverse("admin:auth_user_password_change", args=[boss.pk]), {}).status_code == 403
    chosen = {"action": "delete_selected", "_selected_action": [boss.pk], "post": "yes"}
    assert client.post(url(User, "changelist"), chosen).status_code == 403
    client.post(url(Group, "change", group.pk), {"name": "g", "permissions": [Permission.objects.all()[0].pk]})
    assert not group.permissions.exists()
    assert User.objects.filter(pk=boss.pk, username=boss.username).exists()


def test_pause_and_resume_go_through_the_services(root: Client) -> None:
    ledger = Ledger(make_tenant())
    task_id = ledger.version("job").task_id
    root.post(url(Task, "changelist"), {"action": "pause", "_selected_action": [str(task_id)]})
    assert Task.objects.get(pk=task_id).paused_at is not None
    assert StandingHold.objects.filter(target_id=task_id).exists()
    root.post(url(Task, "changelist"), {"action": "resume", "_selected_action": [str(task_id)]})
    assert Task.objects.get(pk=task_id).paused_at is None
    assert not StandingHold.objects.filter(target_id=task_id).exists()


def press(root: Client, model: type, act: str, *identities: object, **query: str) -> str:
    """An act of the list on chosen rows; the page that says what came of it."""
    path = url(model, "changelist")
    chosen = {"action": act, "_selected_action": [str(identity) for identity in identities]}
    return root.post(path, chosen, query_params=query, follow=True).content.decode()


def test_acts_go_through_the_services_and_are_audited(root: Client) -> None:
    ledger = Ledger(make_tenant())
    dags = Dags(ledger.tenant)
    run = dags.start(dags.make("shop", [{"id": "a", "handler": "demo.noop"}]))
    waits, done = ledger.add(Status.SCHEDULED), ledger.add(Status.COMPLETED)
    dead = letters(ledger, 2)
    circuit = CircuitBreaker.objects.create(tenant=ledger.tenant, key="k", changed_at=now(), opened_at=now())
    task = make_task(make_principal(ledger.tenant), name="by hand")
    AuditEntry.objects.all().delete()
    assert "1 cancelled." in press(root, Execution, "cancel", waits.pk)
    html = press(root, Execution, "retry", done.pk, waits.pk)
    assert "2 retried." in html
    html = press(root, Execution, "cancel", done.pk)
    assert "0 cancelled." in html
    assert "is completed: it cannot be cancelled" in html
    assert "2 replayed." in press(root, DeadLetter, "replay", *[row.pk for row in dead])
    assert not DeadLetter.objects.filter(tenant=ledger.tenant).exists()
    assert "1 closed." in press(root, CircuitBreaker, "close", circuit.pk)
    assert "1 started." in press(root, Task, "run_now", task.pk)
    press(root, DagRun, "pause", run)
    assert "1 cancelled." in press(root, DagRun, "cancel", run)
    entries = list(AuditEntry.objects.filter(tenant=ledger.tenant).order_by("id"))
    assert [entry.action for entry in entries] == [
        *("execution.cancel", "execution.retry", "execution.retry", "execution.replay", "execution.replay"),
        *("circuit.reset", "task.trigger", "dag_run.pause", "dag_run.cancel"),
    ]
    assert {entry.via for entry in entries} == {"admin"}
    assert Execution.objects.with_id(waits.pk).get().state is Status.CANCELLED


def test_replays_are_stopped(root: Client) -> None:
    ledger = Ledger(make_tenant())
    letters(ledger, 1)
    made = start_replay(principal=make_principal(ledger.tenant), wanted=DeadLetterFilter())
    assert "1 stopped." in press(root, Replay, "stop", made.id)
    made.refresh_from_db()
    assert made.state == "stopped"


def test_acts_need_their_permission_and_a_bound(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(make_tenant())
    rows = [ledger.add(Status.SCHEDULED) for _ in range(3)]
    viewer = Client()
    person = unhashed(is_staff=True)
    person.user_permissions.add(Permission.objects.get(codename="view_execution"))
    viewer.force_login(person)
    assert viewer.get(url(Execution, "changelist")).status_code == 200
    press(viewer, Execution, "cancel", *[row.pk for row in rows])
    monkeypatch.setattr("apps.tenants.admin_acts.MOST", 2)
    assert "Nothing was done" in press(root, Execution, "cancel", *[row.pk for row in rows])
    assert not Execution.objects.filter(tenant=ledger.tenant, status=Status.CANCELLED).exists()


def test_lists_cost_the_same_however_long_they_are(root: Client) -> None:
    def costs() -> dict[str, int]:
        found = {}
        for model in OURS:
            with CaptureQueriesContext(connection) as queries:
                page = root.get(url(model, "changelist"))
                assert page.status_code == 200
                assert "9999999999" not in page.content.decode(), model
            assert not [q for q in queries if "COUNT(" in q["sql"].upper()] or model in (User, Group), model
            found[model.__name__] = len(queries)
        return found

    first, second = (Ledger(make_tenant()) for _ in range(2))
    fill(first)
    alone = costs()
    fill(second)
    assert costs() == alone


def fill(ledger: Ledger) -> None:
    ledger.one_of_each()
    make_member(ledger.tenant)
    principal = make_principal(ledger.tenant)
    keys.issue(tenant=ledger.tenant, name="key")
    make_task(principal)
    dags = Dags(ledger.tenant)
    dags.start(dags.make("shop", [{"id": "a", "handler": "demo.noop"}]))
    start_replay(principal=principal, wanted=DeadLetterFilter())
    CircuitBreaker.objects.create(tenant=ledger.tenant, key="k", changed_at=now())


def test_days_and_hours_bound_what_is_read(root: Client) -> None:
    ledger = Ledger(make_tenant())
    ledger.add(Status.COMPLETED, task="of-today")
    old = ids.from_ms(ids.to_ms(now()) - 86_400_000)
    with CaptureQueriesContext(connection) as queries:
        html = root.get(url(Execution, "changelist"), {"due": f"{old:%Y-%m-%d}"}).content.decode()
    assert "of-today" not in html
    assert f"due={old:%Y-%m-%d}T07" in html
    ledger_queries = [q["sql"] for q in queries if 'FROM "executions"' in q["sql"]]
    assert ledger_queries
    assert not [sql for sql in ledger_queries if "MIN(" in sql or "DISTINCT" in sql]
    instant = now()
    assert WhenFilter.bounds("2026-11-30T09", instant) == (
        instant.replace(year=2026, month=11, day=30, hour=9, minute=0, second=0, microsecond=0),
        instant.replace(year=2026, month=11, day=30, hour=10, minute=0, second=0, microsecond=0),
    )
    assert WhenFilter.bounds("hour", instant) == (instant - timedelta(hours=1), instant)
    for nothing in ("", "yesterday", "9999-12-31T24", "2026-13-01"):
        assert WhenFilter.bounds(nothing, instant) is None


def test_what_a_page_does_not_show_is_estimated(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        AuditEntry.objects.create(actor=f"user:{number}", action="a", target_type="t", target_id="1")
    path = url(AuditEntry, "changelist")
    assert "3 rows" in root.get(path).content.decode()
    monkeypatch.setattr("apps.tenants.read_only_admin.StrictAdmin.list_per_page", 2)
    html = root.get(path).content.decode()
    assert re.search(r"≈ \d+ rows", html)
    assert "p=2" in html


def test_what_has_no_page_is_shown_where_it_belongs(root: Client) -> None:
    """Holds and use on a tenant's page, events on an execution's, nodes on a run's; wide holds on the first page."""
    ledger = Ledger(make_tenant())
    made, dags = ledger.one_of_each(), Dags(ledger.tenant)
    run = dags.start(dags.make("shop", [{"id": "a-node-of-the-shop", "handler": "demo.noop"}]))
    StandingHold.objects.create(
        target_id=ledger.tenant.pk, reason=Hold.FROZEN, note=HOSTILE, actor="user:ada", since=now()
    )
    TenantUsage.objects.create(tenant_id=ledger.tenant.pk, kind=Use.EXECUTIONS, window_start=now(), used=1234)
    ledger.pause("job", "auditors are in")
    pages = {
        url(Tenant, "change", ledger.tenant.pk): ("frozen", "user:ada", "1,234"),
        url(Execution, "change", made[Status.CANCELLED].pk): ("superseded by version 2",),
        url(DagRun, "change", run): ("a-node-of-the-shop",),
        url(Task, "change", ledger.version("job").task_id): ("auditors are in",),
        reverse("admin:index"): ("frozen", ledger.tenant.slug, "user:ada"),
    }
    for path, words in pages.items():
        html = root.get(path).content.decode()
        assert "<img src=x" not in html
        assert not [word for word in words if word not in html], path


def test_a_tenant_is_chosen_by_its_slug(root: Client) -> None:
    first, second = Ledger(make_tenant()), Ledger(make_tenant())
    mine, other = first.add(Status.RUNNING, task="mine"), second.add(Status.RUNNING, task="others")
    html = root.get(url(Execution, "changelist"), {"tenant": first.tenant.slug}).content.decode()
    assert str(mine.pk) in html
    assert str(other.pk) not in html
    assert f"/t/{first.tenant.slug}/executions/{mine.pk}/" in html
    assert str(mine.pk) not in root.get(url(Execution, "changelist"), {"tenant": "nobody"}).content.decode()
    assert UUID(str(mine.pk))


def test_staff_without_permissions_may_do_nothing(rows: Ledger) -> None:
    client = Client()
    client.force_login(unhashed(is_staff=True))
    for model in OURS:
        assert client.get(url(model, "changelist")).status_code == 403


def test_who_may_only_look_sees_no_button(rows: Ledger) -> None:
    client, looker = Client(), unhashed(is_staff=True)
    looker.user_permissions.set(Permission.objects.filter(codename__startswith="view_"))
    client.force_login(looker)
    for model in OURS:
        page = client.get(url(model, "changelist")).content.decode()
        newest = model._default_manager.order_by("-pk").first()
        assert newest is not None
        one = client.get(url(model, "change", newest.pk))
        assert one.status_code == 200, model
        for button in ('name="action"', url(model, "add"), 'name="_save"', f"/{newest.pk}/delete/", "/password/"):
            assert button not in page, (model, button)
            assert button not in one.content.decode(), (model, button)


def test_what_headers_hold_is_covered(root: Client) -> None:
    tenant = make_tenant()
    word = "a-credential-of-somebody"
    handler = {"type": "webhook", "url": f"https://hooks.example.com/?token={word}", "headers": {"Authorization": word}}
    task = make_task(make_principal(tenant), name="hook", handler=handler)
    for model, key in ((Task, task.pk), (TaskVersion, task.version_id)):
        page = root.get(url(model, "change", key)).content.decode()
        assert "hooks.example.com" in page
        assert word not in page


NIL = "00000000-0000-0000-0000-000000000000"
HOSTILE_IDS = ("0", "9" * 30, "%00", "a%00b", "%ff", "_5F", "%EF%BC%91", "a" * 2000, NIL)


def test_no_id_brings_a_page_down(root: Client) -> None:
    for model in admin.site._registry:
        for identity in HOSTILE_IDS:
            for page in ("change", "delete", "history"):
                path = f"{url(model, 'changelist')}{identity}/{page}/"
                found = root.get(path).status_code
                assert found == 404 or (found == 403 and page == "delete"), f"{path} {found}"
            assert root.post(f"{url(model, 'changelist')}{identity}/change/").status_code in (403, 404)


def test_no_query_brings_a_list_down(root: Client) -> None:
    queries = (
        "id=%00",
        "q=%00",
        "q=" + "9" * 30,
        "o=zz",
        "p=-1",
        "p=zz",
        "tenant__id__exact=x",
        "_to_field=%00",
        "o=-9.x&all=1",
    )
    for model, pages in admin.site._registry.items():
        for query in (*queries, "tenant=%F0", "due=x", "when=9999-99-99"):
            assert root.get(f"{url(model, 'changelist')}?{query}").status_code in (200, 302, 400, 404), (model, query)
        for act in ("delete_selected", *(pages.actions or ())):
            chosen = {"action": act, "_selected_action": ["\0", "x", "9" * 30]}
            assert root.post(url(model, "changelist"), chosen).status_code in (200, 302, 400, 403, 404), (model, act)
            chosen = {"action": act, "_selected_action": ["x"]}
            assert root.post(url(model, "changelist"), chosen).status_code in (200, 302, 400, 403, 404), (model, act)


@pytest.mark.parametrize("scopes", ["5", '{"a": 1}', '["tasks", 5]', "nonsense"])
def test_a_key_with_scopes_that_are_none_is_refused(root: Client, rows: Ledger, scopes: str) -> None:
    given = {"tenant": rows.tenant.id, "name": "a", "role": "viewer", "scopes": scopes}
    page = root.post(url(ApiKey, "add"), given)
    assert page.status_code == 200
    assert "scopes" in page.content.decode()
    assert not ApiKey.objects.filter(tenant=rows.tenant, name="a").exists()
