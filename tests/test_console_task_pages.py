"""The console's pages of tasks: whose they are, what they say, what they cost, what their buttons do."""

import re
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.tasks import trend
from apps.console.wording import duration
from apps.definitions import collisions, services
from apps.definitions.models import Task
from apps.executions.models import Execution, TaskVersion
from apps.executions.states import Status
from apps.executions.task_history import ExecutionLine
from apps.tenants.identity import new_uuid
from apps.tenants.models import AuditEntry, Role, Tenant
from apps.tenants.principal import Principal
from tests.console_dags import make_member
from tests.console_ledger import HOSTILE, Ledger, make_tenant, now

pytestmark = pytest.mark.django_db
NOOP = {"type": "python", "name": "demo.noop"}
NIGHTLY = {"type": "cron", "expression": "0 8 * * *", "timezone": "Asia/Seoul"}


@pytest.fixture
def tenant() -> Tenant:
    collisions.forget()
    return make_tenant()


def who(tenant: Tenant) -> Principal:
    return Principal.in_tenant(tenant, role=Role.OPERATOR, actor="user:ada")


def make(tenant: Tenant, name: str, **fields: Any) -> Task:
    return services.create_task(
        principal=who(tenant), data={"name": name, "schedule": {"type": "manual"}, "handler": NOOP, **fields}
    )


def make_many(tenant: Tenant, count: int, name: str = "task-{:05}", **fields: Any) -> None:
    """Rows as create_task leaves them: the first one, and the others after it in one statement."""
    schedule = {"type": "cron", "expression": "* * * * *", "timezone": "UTC"}
    defaults: dict[str, Any] = {"schedule": schedule, "handler": NOOP, "retry_policy": {}, "version_id": 0}
    first = Task.objects.create(tenant=tenant, name=name.format(0), **{**defaults, **fields})
    same = ", ".join(str(one.column) for one in Task._meta.concrete_fields if one.name not in ("id", "name"))
    rest = [name.format(at) for at in range(1, count)]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO tasks (id, name, {same}) SELECT n.id, n.name, {same} FROM ("
            f"SELECT {same} FROM tasks WHERE id = %s) t, unnest(%s::uuid[], %s::text[]) AS n(id, name)",
            [first.id, [new_uuid() for _ in rest], rest],
        )


def client_of(tenant: Tenant, role: Role = Role.OPERATOR, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(make_member(tenant, role))
    return client


def page(tenant: Tenant, path: str, role: Role = Role.OPERATOR) -> str:
    answer = client_of(tenant, role).get(f"/t/{tenant.slug}/{path}")
    assert answer.status_code == 200, path
    return answer.content.decode()


def post(tenant: Tenant, path: str, role: Role = Role.OPERATOR, /, **fields: str) -> Any:
    return client_of(tenant, role).post(f"/t/{tenant.slug}/tasks/{path}", fields)


def names(html: str) -> list[str]:
    return re.findall(r"<a data-open[^>]*><bdi>([^<]*)</bdi>", html)


def test_an_empty_list_teaches_the_next_step(tenant: Tenant) -> None:
    html = page(tenant, "tasks/")
    assert "curl -X POST http://testserver/api/v1/tasks" in html
    assert f"/t/{tenant.slug}/tasks/new" in html
    assert "<table" not in html
    assert f"/t/{tenant.slug}/tasks/new" not in page(tenant, "tasks/", Role.VIEWER)


def test_the_list_says_zone_words_next_time_and_last_runs(tenant: Tenant) -> None:
    """Row 7.2, in the list."""
    ledger = Ledger(tenant)
    ledger.add(Status.COMPLETED, task="report", due=timedelta(minutes=-3))
    ledger.add(Status.DEAD_LETTER, task="report", due=timedelta(minutes=-2))
    ledger.add(Status.SCHEDULED, task="report", due=timedelta(minutes=2))
    Task.objects.filter(tenant=tenant, name="report").update(schedule=NIGHTLY)
    html = page(tenant, "tasks/")
    assert "at 08:00 every day (Asia/Seoul)" in html
    assert re.search(r'<time datetime="[^"]+T23:00:00\+00:00" data-zone="Asia/Seoul"', html)
    assert re.findall(r'class="mark" data-state="(\w+)"', html) == ["completed", "dead_letter"]


def test_one_of_five_thousand_is_found_by_the_middle_of_its_name(tenant: Tenant) -> None:
    """Row 7.4: any part of the name, whatever the case; the paused filter; all of it in the URL, with the count."""
    make_many(tenant, 5000)
    make_many(tenant, 3, "eu-Invoice-import-{}", tags=["finance", "eu"], paused_at=now(), paused_note="month-end\nmore")
    html = page(tenant, "tasks/?q=voice-IMP")
    assert names(html) == [f"eu-Invoice-import-{n}" for n in range(3)]
    assert 'data-count="3"' in html
    assert "paused: month-end" in html
    assert "more</span>" not in html
    assert names(page(tenant, "tasks/?paused=true")) == names(html)
    assert names(page(tenant, "tasks/?tag=eu&tag=finance")) == names(html)
    assert names(page(tenant, "tasks/?tag=eu&tag=us")) == []
    assert "Show all" in page(tenant, "tasks/?q=no-such%00thing")
    assert 'data-count="5000"' in page(tenant, "tasks/?paused=false")


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["a", "b", "c", "d"]),
        ("new", ["d", "a", "b", "c"]),
        ("changed", ["c", "d", "a", "b"]),
        ("urgent", ["c", "a", "b", "d"]),
        ("nonsense", ["a", "b", "c", "d"]),
    ],
)
def test_long_lists_go_on_in_each_order(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch, sort: str, expected: list[str]
) -> None:
    monkeypatch.setattr("apps.console.tasks.listing.SHOWN", 2)
    made = {name: make(tenant, name, priority=1 if name == "c" else 5) for name in ("c", "b", "a", "d")}
    services.pause_task(principal=who(tenant), task_id=made["c"].id)
    html = page(tenant, f"tasks/?sort={sort}")
    assert names(html) == expected[:2]
    older = re.search(r'href="(\?[^"]*after=[^"]+)">More', html)
    assert older is not None
    assert names(page(tenant, f"tasks/{older[1]}".replace("&amp;", "&"))) == expected[2:]


def test_lists_and_pages_cost_the_same_whatever_they_show(tenant: Tenant) -> None:
    client = client_of(tenant)

    def cost(path: str) -> int:
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"/t/{tenant.slug}/{path}").status_code == 200
        return len(asked)

    ledger = Ledger(tenant)
    ledger.add(Status.COMPLETED, task="one")
    task = Task.objects.get(tenant=tenant)
    for path in (paths := ["tasks/", f"tasks/{task.id}/", "tasks/new", f"tasks/{task.id}/edit"]):
        cost(path)
    collisions.forget()
    first = {path: cost(path) for path in paths}
    make_many(tenant, 60, tags=["a", "b"])
    for at in range(30):
        ledger.add(Status.DEAD_LETTER, task="one", due=timedelta(minutes=-at - 1))
    for number in range(2, 14):
        TaskVersion.objects.create(
            task_id=task.id, tenant=tenant, number=number, name="one", definition={}, created_by="x"
        )
    collisions.forget()
    assert {path: cost(path) for path in first} == first
    assert max(first.values()) <= 12


@pytest.mark.drill
def test_pages_are_fast_with_a_hundred_thousand_tasks(tenant: Tenant) -> None:
    """Rendered by the server within 200 ms: half of the requests, however busy the machine is; what 95 of 100 take on a
    calm one is printed.
    """
    make_many(tenant, 100_000, "task-{:06}", tags=["a"])
    make_many(tenant, 50, "rare-{}", tags=["rare"], schedule=NIGHTLY)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE tasks")
    task = Task.objects.get(tenant=tenant, name="task-050000")
    client = client_of(tenant)
    asked = ["", "?sort=changed", "?sort=new", "?q=k-0999", "?q=rare-4", "?tag=rare", "?paused=true", "?paused=false"]

    def median(path: str) -> timedelta:
        taken = []
        for _ in range(20):
            began = perf_counter()
            assert client.get(f"/t/{tenant.slug}/{path}").status_code == 200
            taken.append(timedelta(seconds=perf_counter() - began))
        found, slow = trend.percentile(taken, 0.5), trend.percentile(taken, 0.95)
        print(f"{path.replace(str(task.id), 'ID'):24} p50 {duration(found)}, p95 {duration(slow)}")
        return found

    limit = timedelta(milliseconds=200)
    for path in [*(f"tasks/{query}" for query in asked), f"tasks/{task.id}/", f"tasks/{task.id}/edit"]:
        # Up to three rounds: what else the machine does is not the page's.
        assert any(median(path) < limit for _ in range(3)), path


@pytest.mark.parametrize("path", ["tasks/", "tasks/new", "tasks/{}/", "tasks/{}/edit"])
def test_hostile_names_are_text_and_no_page_has_code_of_its_own(tenant: Tenant, path: str) -> None:
    task = make(
        tenant, HOSTILE[:100].replace("\u202e", ""), description="</textarea><script>x</script>", tags=["<b>", "'\""]
    )
    services.pause_task(principal=who(tenant), task_id=task.id, note="<i>note</i>")
    html = page(tenant, path.format(task.id))
    assert "<img src=x" not in html
    assert "<script>x" not in html
    assert "<i>note" not in html
    assert not re.search(r"<script(?![^>]*\bsrc=)|\sstyle=|\son\w+=\"|<style", html)


def test_a_page_of_a_task_says_how_it_went(tenant: Tenant) -> None:
    ledger = Ledger(tenant)
    fault = {"type": "TimeoutError", "message": "upstream <slow>"}
    for at in range(4):
        ledger.add(Status.COMPLETED, task="job", due=timedelta(minutes=-10 - at))
    for at in range(2):
        ledger.add(Status.DEAD_LETTER, task="job", due=timedelta(minutes=-at - 1), error=fault)
    task = Task.objects.get(tenant=tenant)
    html = page(tenant, f"tasks/{task.id}/")
    assert (
        re.findall(r'<a href="[^"]+" aria-label="[^"]*" data-state="(\w+)"', html)
        == ["completed"] * 4 + ["dead_letter"] * 2
    )
    assert "TimeoutError" in html
    assert "upstream &lt;slow&gt;" in html
    assert "2 attempts of 2 runs · 100 %" in html
    assert "p95 <b>" in html
    assert html.count("<polyline") == 4
    assert len(re.findall(r'<li><time datetime="[^"]+" data-zone="Europe/Paris"', html)) == 10
    assert f"curl -X POST http://testserver/api/v1/tasks/{task.id}/trigger" in html
    assert "type: python" in html


def test_versions_say_how_they_differ(tenant: Tenant) -> None:
    task = make(tenant, "job")
    services.update_task(principal=who(tenant), task_id=task.id, data={"priority": 2, "tags": ["x"]}, partial=True)
    html = page(tenant, f"tasks/{task.id}/")
    assert '<li data-sign="+"><i>+</i>/tags: [&quot;x&quot;]</li>' in html
    assert '<li data-sign="+"><i>+</i>/priority: 2</li>' in html
    assert "user:ada" in html


def test_viewers_see_no_credentials_and_no_buttons(tenant: Tenant) -> None:
    handler = {
        "type": "webhook",
        "url": "https://93.184.216.34/?token=tell-nobody",
        "headers": {"X-Key": "tell-nobody"},
    }
    task = make(tenant, "hook", handler=handler)
    services.update_task(principal=who(tenant), task_id=task.id, data={"priority": 2}, partial=True)
    html = page(tenant, f"tasks/{task.id}/", Role.VIEWER)
    assert "tell-nobody" not in html
    assert "data-act" not in html + page(tenant, "tasks/", Role.VIEWER)
    assert "data-run-now" not in html
    for path in ("new", f"{task.id}/edit"):
        refused = client_of(tenant, Role.VIEWER).get(f"/t/{tenant.slug}/tasks/{path}")
        assert refused.status_code == 403
        assert "needs the role operator" in refused.content.decode()
        assert "tell-nobody" not in refused.content.decode()
    assert "tell-nobody" in page(tenant, f"tasks/{task.id}/")


ACTS = [("pause", "task.pause"), ("resume", "task.resume"), ("run", "task.trigger"), ("delete", "task.delete")]


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize(("act", "action"), ACTS)
def test_every_button_by_every_role(tenant: Tenant, act: str, action: str, role: Role) -> None:
    task = make(tenant, "job")
    if act == "resume":
        services.pause_task(principal=who(tenant), task_id=task.id)
    allowed = role.rank >= Role.OPERATOR.rank
    answer = post(tenant, f"{task.id}/act/{act}", role, note="why", key="k")
    assert answer.status_code == (200 if allowed else 403)
    assert AuditEntry.objects.filter(tenant_id=tenant.id, action=action).count() == allowed
    bulk = act.replace("run", "trigger")
    make(tenant, "other")
    left = Task.objects.filter(tenant=tenant, deleted_at=None).count()
    before = AuditEntry.objects.filter(tenant_id=tenant.id, action=action).count()
    answer = post(tenant, f"act/{bulk}?expected={left}", role, note="why", key="k2")
    assert answer.status_code == (200 if allowed else 403)
    grown = AuditEntry.objects.filter(tenant_id=tenant.id, action=action).count() - before
    assert grown == (0 if not allowed or act == "resume" else left)


def test_acts_want_a_token_of_the_form_and_a_post(tenant: Tenant) -> None:
    task = make(tenant, "job")
    client = client_of(tenant, enforce_csrf_checks=True)
    for path in (f"{task.id}/act/delete", f"{task.id}/save", "save", "check", "act/delete?expected=1"):
        assert client.post(f"/t/{tenant.slug}/tasks/{path}").status_code == 403
        assert client.get(f"/t/{tenant.slug}/tasks/{path}").status_code == 404
    assert Task.objects.get(id=task.id).deleted_at is None


def test_a_double_click_on_a_paused_task_runs_it_once(tenant: Tenant) -> None:
    """Row 7.8: the key is the click's; another click runs again."""
    task = make(tenant, "job")
    services.pause_task(principal=who(tenant), task_id=task.id)
    asked = {"parameters": "{}", "key": "click-1"}
    first, second = (post(tenant, f"{task.id}/act/run", **asked) for _ in range(2))
    assert first.json() == second.json()
    assert Execution.objects.filter(task_id=task.id).count() == 1
    post(tenant, f"{task.id}/act/run", **{**asked, "key": "click-2"})
    assert Execution.objects.filter(task_id=task.id).count() == 2


def test_parameters_that_are_none_are_told_at_their_field(tenant: Tenant) -> None:
    task = make(tenant, "job")
    answer = post(tenant, f"{task.id}/act/run", parameters="{oops")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "parameters"
    answer = post(tenant, f"{task.id}/act/run", parameters="{}", run_at="yesterday")
    assert answer.json()["errors"][0]["field"] == "run_at"


def test_many_are_acted_on_by_filter_with_the_count_that_was_seen(tenant: Tenant) -> None:
    """Row 7.4, its second half: and the other tasks are left alone, a second click too."""
    make_many(tenant, 40, "eu-{}")
    make_many(tenant, 5, "us-{}")
    assert post(tenant, "act/pause?q=eu-&expected=39", note="audit").status_code == 409
    assert not Task.objects.filter(tenant=tenant).exclude(paused_at=None).exists()
    answer = post(tenant, "act/pause?q=eu-&expected=40", note="audit")
    assert answer.json()["said"] == "40 paused"
    assert Task.objects.filter(tenant=tenant, paused_note="audit").count() == 40
    assert post(tenant, "act/resume?paused=true&expected=40").json()["said"] == "40 resumed"
    ids = Task.objects.filter(tenant=tenant, name__in=["us-0", "us-1"]).values_list("id", flat=True)
    chosen = "&".join(f"id={one}" for one in ids)
    for _ in range(2):
        assert post(tenant, f"act/delete?{chosen}&expected=2", key="once").status_code == 200
    assert Task.objects.filter(tenant=tenant, deleted_at=None).count() == 43


def test_a_double_click_on_run_now_of_many_runs_each_once(tenant: Tenant) -> None:
    for name in ("a", "b"):
        make(tenant, name)
    for _ in range(2):
        assert post(tenant, "act/trigger?expected=2", key="click").status_code == 200
    assert Execution.objects.filter(tenant=tenant).count() == 2


def test_what_is_refused_of_many_is_named(tenant: Tenant) -> None:
    make(tenant, "keyed", concurrency={"key": "{{parameters.region}}", "limit": 1}, parameters={"region": "eu"})
    broken = make(
        tenant, "broken", concurrency={"key": "{{parameters.region}}", "limit": 1}, parameters={"region": "eu"}
    )
    Task.objects.filter(id=broken.id).update(parameters={})
    answer = post(tenant, "act/trigger?expected=2")
    assert answer.status_code == 409
    assert "1 started, 1 refused. broken: " in answer.json()["problem"]


def test_percentiles_are_values_that_were_seen() -> None:
    values = [timedelta(seconds=n) for n in range(1, 101)]
    assert [trend.percentile(values, share).total_seconds() for share in (0.5, 0.95, 0.99)] == [50, 95, 99]
    assert trend.percentile(values[:1], 0.99) == values[0]


def test_plots_begin_at_zero_and_show_nothing_of_nothing() -> None:
    def line(at: int, took: int) -> ExecutionLine:
        due = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=at)
        one = new_uuid()
        return ExecutionLine(one, one, Status.COMPLETED, 1, 1, due, due, due, due, due + timedelta(seconds=took))

    found = trend.took([line(0, 0), line(60, 10), line(30, 5)])
    assert found is not None
    heights = [float(y) for y in re.findall(r'class="dot"[^>]* d="M[\d.]+ ([\d.]+)h0"', found.svg)]
    assert heights[0] - heights[2] == pytest.approx((heights[0] - heights[1]) / 2)
    assert trend.took([]) is None
    assert trend.late([line(0, 1)._replace(attempt=2)]) is None
