"""Executions in the console: what a question finds, who may act on what it finds, what a page of one tells."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console import rows
from apps.console.executions import acts, page, timeline
from apps.console.executions.asked import Asked
from apps.executions import searching, selectors, services
from apps.executions.models import Attempt, Execution, StandingHold, Worker
from apps.executions.states import Hold, Origin, Outcome, Status
from apps.tenants.models import AuditEntry, Role, Tenant
from chronoweb.runtime.config import Config, problems
from chronoweb.runtime.errors import InvalidInput
from tests.console_dags import make_member
from tests.console_ledger import HOSTILE, TOKEN, Ledger, change, make_tenant, now
from tests.factories import make_principal, worker_row

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


class Desk:
    """A tenant's executions, and somebody who looks at them."""

    def __init__(self, role: Role = Role.OPERATOR, tenant: Tenant | None = None) -> None:
        self.tenant = tenant or make_tenant()
        self.ledger = Ledger(self.tenant)
        self.client = Client()
        self.client.force_login(make_member(self.tenant, role))

    def url(self, path: str = "") -> str:
        return f"/t/{self.tenant.slug}/executions/{path}"

    def see(self, path: str = "") -> str:
        answer = self.client.get(self.url(path))
        assert answer.status_code == 200, answer
        return answer.content.decode()

    def found(self, query: str) -> list[str]:
        return re.findall(r'<tr id="x-([0-9a-f-]+)"', self.see(query))

    def act(self, path: str, status: int = 200, **given: Any) -> Any:
        answer = self.client.post(self.url(path), given)
        assert answer.status_code == status, answer.content
        return answer.json() if status != 404 else None

    def count(self, act: str, query: str = "") -> dict[str, Any]:
        return self.client.get(self.url(f"count/{act}{query}")).json()

    def audited(self, action: str) -> int:
        return AuditEntry.objects.filter(tenant=self.tenant, action=action).count()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def state(row: Execution) -> Status:
    return Execution.objects.with_id(row.id).get().state


# ---- what a question finds ------------------------------------------------------------------------------------------


def there_was(worker_id: int, **fields: Any) -> None:
    Worker.objects.filter(pk=worker_id).delete()
    worker_row(id=worker_id, **fields)


def different_ones(ledger: Ledger) -> dict[str, Execution]:
    """Name → an execution that one of QUESTIONS finds, and no other of these."""
    error = {"type": "KeyError", "message": "x"}
    run = uuid4()
    return {
        "plain": ledger.add(Status.COMPLETED, task="plain"),
        "named": ledger.add(Status.COMPLETED, task="Sales-Merge of 100%_"),
        "critical": ledger.add(Status.COMPLETED, task="plain", class_index=0),
        "again": ledger.add(Status.RETRYING, task="again"),
        "again, held": ledger.add(Status.RETRYING, task="again", hold=Hold.FROZEN),
        "failed": ledger.add(Status.DEAD_LETTER, task="plain", error=error),
        "running": ledger.add(Status.RUNNING, task="plain"),
        "worker": ledger.add(Status.COMPLETED, task="plain", worker_id=901),
        "held": ledger.add(Status.SCHEDULED, task="held", hold=Hold.PAUSED),
        "was held": ledger.add(Status.CANCELLED, task="plain", hold=Hold.PAUSED),
        "of a run": ledger.add(Status.COMPLETED, task="plain", dag_run_id=run, dag_node=0, dag_generation=1),
        "old": ledger.add(Status.COMPLETED, task="plain", due=timedelta(days=-3)),
        "ahead": ledger.add(Status.SCHEDULED, task="plain", due=timedelta(minutes=20)),
    }


def test_each_question_finds_its_own_and_the_live_rows_agree(desk: Desk) -> None:
    made = different_ones(desk.ledger)
    there_was(7)
    there_was(901, state="stopped")
    Ledger(make_tenant()).add(Status.RUNNING, task="sales-merge")
    recent = made["plain"].scheduled_at - MINUTE
    questions = {
        "?q=SALES-m": {"named"},
        "?q=100%25_": {"named"},
        f"?task={made['held'].task_id}": {"held"},
        f"?run={made['of a run'].dag_run_id}": {"of a run"},
        "?class=critical": {"critical"},
        "?error=KeyError": {"failed"},
        "?worker=worker-901": {"worker"},
        "?worker=902": set(),
        "?state=retrying": {"again", "again, held"},
        "?why=paused": {"held"},
        "?state=running&state=dead_letter": {"running", "failed"},
        "?due=ahead": {"ahead"},
        "?due=1h": set(made) - {"old", "ahead"},
        f"?until={recent.isoformat().replace('+', '%2B')}": {"old"},
        f"?since={recent:%Y-%m-%dT%H:%M:%S}&q=plain&state=completed&worker=7": {"plain", "critical", "of a run"},
    }
    names = {str(row.id): name for name, row in made.items()}
    for query, wanted in questions.items():
        assert {names[identity] for identity in desk.found(query)} == wanted, query
        asked = Asked.of(QueryDict(query[1:]))
        rows = Execution.objects.select_related("task_version").filter(tenant=desk.tenant)
        assert {names[str(row.id)] for row in rows if asked.finds(row, now())} == wanted, query
        assert Asked.of(QueryDict(asked.query()[1:])) == asked


def test_what_is_rare_is_sought_so_long_and_the_page_says_how_far(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of one row each, of which a page has the time for one."""
    made = [desk.ledger.add(Status.COMPLETED, task="t", due=-n * MINUTE, worker_id=n // 6 + 1) for n in range(1, 9)]
    wanted = [str(row.id) for row in made if row.worker_id == 2]
    there_was(2)
    monkeypatch.setattr(searching, "SIZES", (1,))
    monkeypatch.setattr(searching, "LEAST", 1)
    monkeypatch.setattr(searching, "PAGE_SECONDS", 0)
    seen, query, pages = [], "?worker=2", 0
    while query:
        html = desk.see(query)
        seen += re.findall(r'<tr id="x-([0-9a-f-]+)"', html)
        further = re.search(r'href="(\?[^"]*before=[^"]+)">Search further back', html)
        assert ("Searched back to <time" in html) == bool(further)
        query, pages = further.group(1).replace("&amp;", "&") if further else "", pages + 1
    assert seen == wanted
    assert pages > len(made)
    assert desk.count("retry", "?worker=2")["count"] == len(wanted), "acts have more time, and mean all"
    monkeypatch.setattr(selectors, "config", lambda: Config(web_statement_seconds=1e-9))
    answer = desk.client.get(desk.url("count/retry?worker=2"), headers={"accept": "application/json"})
    assert answer.status_code == 503
    assert "name a shorter time" in answer.json()["problem"]


@pytest.mark.parametrize("size", [1, 3])
def test_pieces_of_a_search_find_what_the_whole_would(desk: Desk, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(searching, "SIZES", (size,))
    monkeypatch.setattr(searching, "LEAST", size)
    monkeypatch.setattr(searching, "PAGE_SECONDS", 60)
    monkeypatch.setattr(page, "AHEAD_SECONDS", 60)
    test_each_question_finds_its_own_and_the_live_rows_agree(desk)


def test_a_worker_is_sought_where_it_lived(desk: Desk) -> None:
    """One that ended a week ago had nothing of today, and one of another tenant's nothing of this one's."""
    row = desk.ledger.add(Status.COMPLETED, task="t", worker_id=903, due=timedelta(days=-7))
    others = desk.ledger.add(Status.COMPLETED, task="t", worker_id=904)
    there_was(903, state="lost", heartbeat_at=now() - timedelta(days=7))
    there_was(904, tenant_id=uuid4())
    assert desk.found("?worker=903") == [str(row.id)]
    assert desk.found("?worker=904") == desk.found(f"?worker={2**62}") == []
    Worker.objects.filter(pk=904).update(tenant_id=desk.tenant.id)
    assert desk.found("?worker=904") == [str(others.id)]


def test_what_is_no_question_shows_all_and_acts_on_nothing(desk: Desk) -> None:
    row = desk.ledger.add(Status.SCHEDULED)
    for wrong in ("state=x", "class=x", "due=x", "since=x", "since=9999-01-01", "worker=-1", "worker=" + "9" * 40):
        assert desk.client.get(desk.url(f"?{wrong}"))["Location"] == desk.url(), wrong
        assert desk.client.get(desk.url(f"state?{wrong}")).status_code == 404
        assert desk.client.get(desk.url(f"count/cancel?{wrong}")).status_code == 400
        desk.act(f"act/cancel?{wrong}", 422, counted_at=now().isoformat())
    for wrong in ("run=x", "task=x", "why=none", "before=x", "q=" + "x" * 201, "error=%00"):
        with pytest.raises(InvalidInput):
            Asked.of(QueryDict(wrong))
    desk.act("act/cancel", 422)
    desk.act("act/cancel", 422, counted_at=now().isoformat(), id="x")
    desk.act("act/discard", 404, counted_at=now().isoformat())
    assert state(row) is Status.SCHEDULED


def test_an_id_in_the_search_is_opened(desk: Desk) -> None:
    row = desk.ledger.add(Status.COMPLETED)
    assert desk.client.get(desk.url(f"?q={row.id}"))["Location"] == desk.url(f"{row.id}/")


def test_a_question_goes_on_behind_its_last_row(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "SHOWN", 3)
    made = [desk.ledger.add(Status.COMPLETED, task=f"t{n % 2}", due=-n * MINUTE) for n in range(10)]
    wanted = [str(row.id) for row in made if row.task_version.name == "t0"]
    seen, query = [], "?q=t0"
    while query:
        seen += desk.found(query)
        older = re.search(r'href="(\?[^"]*before=[^"]+)"', desk.see(query))
        query = older.group(1).replace("&amp;", "&") if older else ""
    assert seen == wanted


# ---- acts -----------------------------------------------------------------------------------------------------------


def test_many_are_cancelled_as_they_were_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over pages, by filter; what came later is not meant, and what had ended by then is no fault."""
    monkeypatch.setattr(acts, "ROUND", 4)
    before = now() - MINUTE
    rows = [desk.ledger.add(Status.SCHEDULED, task="bulk", due=n * MINUTE, created_at=before) for n in range(9)]
    running = desk.ledger.add(Status.RUNNING, task="bulk")
    others = [desk.ledger.add(Status.SCHEDULED, task="else"), desk.ledger.add(Status.COMPLETED, task="bulk")]
    told = desk.count("cancel", "?q=bulk")
    assert (told["count"], told["more"]) == (10, False)
    late = desk.ledger.add(Status.SCHEDULED, task="bulk", created_at=now() + timedelta(seconds=5))
    change(rows[0], status=Status.COMPLETED)
    form = {"counted_at": told["counted_at"], "key": "a-click"}
    answers = [desk.act("act/cancel?q=bulk", **form)]
    while answers[-1]["again"]:
        answers.append(desk.act("act/cancel?q=bulk", **form, behind=answers[-1]["behind"]))
    assert [answer["done"] for answer in answers] == [4, 4, 1]
    assert {state(row) for row in rows[1:]} == {Status.CANCELLED}
    assert Execution.objects.with_id(running.id).get().cancel_requested_at is not None
    assert [state(row) for row in (*others, late)] == [Status.SCHEDULED, Status.COMPLETED, Status.SCHEDULED]
    assert desk.audited("execution.cancel") == 9
    assert desk.act("act/cancel?q=bulk", **form) == answers[0]


def test_what_is_refused_is_listed_and_hinders_nothing(desk: Desk) -> None:
    good = [desk.ledger.add(Status.COMPLETED, task="good") for _ in range(2)]
    gone = desk.ledger.add(Status.COMPLETED, task="gone")
    running = desk.ledger.add(Status.RUNNING, task="good")
    foreign = Ledger(make_tenant()).add(Status.COMPLETED)
    StandingHold.objects.create(target_id=gone.task_id, reason=Hold.DELETED, actor="user:test", since=now())
    chosen = [str(row.id) for row in (*good, gone, running, foreign)]
    answer = desk.act("act/retry", id=chosen, key="k")
    assert answer["done"] == 2
    assert {one["id"]: one["task"] for one in answer["refused"]} == {
        str(gone.id): "gone",
        str(running.id): "good",
        str(foreign.id): "",
    }
    assert Execution.objects.filter(tenant=desk.tenant, origin=Origin.RERUN).count() == 2
    assert desk.act("act/retry", id=chosen, key="k") == answer
    assert Execution.objects.filter(tenant=desk.tenant, origin=Origin.RERUN).count() == 2
    assert desk.count("retry", "?state=running")["count"] == 0


def test_a_click_is_one_act(desk: Desk) -> None:
    done = desk.ledger.add(Status.COMPLETED)
    first = desk.act(f"{done.id}/act/retry", key="one")
    assert desk.act(f"{done.id}/act/retry", key="one") == first
    made = Execution.objects.get(tenant=desk.tenant, origin=Origin.RERUN)
    assert first["go"] == desk.url(f"{made.id}/")
    assert desk.audited("execution.retry") == 1
    desk.act(f"{made.id}/act/cancel", key="two")
    assert state(made) is Status.CANCELLED
    desk.act(f"{done.id}/act/cancel", 409, key="three")
    desk.act(f"{done.id}/act/delete", 404)
    for path in (f"{made.id}/", f"{done.id}/"):
        assert str(done.id) in desk.see(path)
    assert "was run again as" in desk.see(f"{done.id}/")
    assert "runs again" in desk.see(f"{made.id}/")


def test_viewers_see_everything_and_no_act(desk: Desk) -> None:
    viewer = Desk(Role.VIEWER, desk.tenant)
    row = desk.ledger.add(Status.SCHEDULED)
    for path in ("", f"{row.id}/"):
        html = viewer.see(path)
        assert not re.search(r"data-pick(-all)?[=>]", html)
        assert not re.search(r"data-(act|bulk|opens)=", html)
        assert re.search(r"data-(act|bulk|opens)=", desk.see(path))
    viewer.act(f"{row.id}/act/cancel", 403)
    viewer.act("act/cancel", 403, id=str(row.id))
    stranger = Desk()
    stranger.act(f"{row.id}/act/cancel", 404)
    assert stranger.act("act/cancel", id=str(row.id))["done"] == 0
    assert state(row) is Status.SCHEDULED


# ---- one ------------------------------------------------------------------------------------------------------------


def test_every_cause_has_its_figures_and_leads_to_where_it_ends(desk: Desk) -> None:
    row = desk.ledger.add(Status.SCHEDULED, task="month-close", hold=Hold.PAUSED)
    desk.ledger.pause("month-close", "month-end close")
    html = desk.see(f"{row.id}/")
    why = html[html.index("Why it is not running") : html.index("Attempts")]
    assert "its task is paused: month-end close" in why
    assert "by user:test" in why
    assert f'href="/t/{desk.tenant.slug}/tasks/{row.task_id}/"' in why
    assert f'href="/t/{desk.tenant.slug}/workers/"' in why
    assert "Nobody can tell when this ends: task paused" in why
    for done in (desk.ledger.add(Status.COMPLETED), desk.ledger.add(Status.RUNNING)):
        assert "Why it is not running" not in desk.see(f"{done.id}/")


def test_nothing_of_an_execution_is_markup(desk: Desk) -> None:
    error = {"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    row = desk.ledger.add(
        Status.DEAD_LETTER, task=HOSTILE, error=error, payload={HOSTILE: HOSTILE}, traceparent=HOSTILE
    )
    desk.ledger.event(row, target=Status.SCHEDULED, reason=HOSTILE)
    Execution.objects.with_id(row.id).update(idempotency_key=HOSTILE)
    held = desk.ledger.add(Status.SCHEDULED, task=HOSTILE, hold=Hold.PAUSED)
    desk.ledger.pause(HOSTILE, HOSTILE)
    for path in (f"{row.id}/", f"{held.id}/", "?q=%3Cimg+src%3D1%3E&error=%22%3E%3Cimg%3E", f"?task={row.task_id}"):
        html = desk.see(path)
        assert "<img" not in html
        assert "&lt;img" in html


def test_its_trace_leads_to_where_traces_are_looked_at(desk: Desk, settings: Any) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    row = desk.ledger.add(Status.COMPLETED, traceparent=f"00-{trace}-00f067aa0ba902b7-01")
    assert f'<dd class="mono">{trace}</dd>' in desk.see(f"{row.id}/")
    url = "https://tracing.example.com/trace/{trace_id}?from=chronoweb"
    settings.CHRONOWEB = replace(settings.CHRONOWEB, trace_url=url)
    assert f'href="{url.format(trace_id=trace)}"' in desk.see(f"{row.id}/")
    settings.CHRONOWEB = replace(settings.CHRONOWEB, trace_url="javascript:alert({trace_id})")
    assert any("CHRONOWEB_TRACE_URL" in problem for problem in problems(settings.CHRONOWEB))


def test_what_waits_to_be_tried_again_is_late_from_when_it_may_be() -> None:
    begun, second = now(), timedelta(seconds=1)
    held = Execution(status=Status.SCHEDULED, run_at=begun + second, created_at=begun, started_at=begun, attempt=1)
    assert rows.lateness(held, begun) is None
    assert rows.lateness(held, begun + 3 * second) == 2 * second


def test_attempts_lie_on_one_axis() -> None:
    begin = now()

    def attempt(number: int, due: float, began: float | None, ended: float, outcome: Outcome) -> Attempt:
        at = {"due_at": due, "finished_at": ended} | ({} if began is None else {"started_at": began})
        where: dict[str, Any] = {name: begin + timedelta(seconds=seconds) for name, seconds in at.items()}
        return Attempt(**where, attempt=number, token=TOKEN + number, worker_id=7, outcome=outcome)

    tries = [attempt(1, 0, 10, 30, Outcome.FAILED), attempt(2, 50, None, 60, Outcome.RELEASED)]
    later = Execution(status=Status.RETRYING, run_at=begin + timedelta(seconds=100), created_at=begin, attempt=1)
    found = timeline.of(later, tries, now=begin + timedelta(seconds=70))
    assert [[(part.kind, part.x, part.width) for part in lane.parts] for lane in found.lanes] == [
        [("wait", 0, 100), ("run", 100, 200), ("backoff", 300, 200)],
        [("wait", 500, 100), ("backoff", 600, 400)],
        [("run", 997, 3)],
    ]
    assert [(lane.label, lane.late, lane.took) for lane in found.lanes] == [
        ("failed", "10.0 s", "20.0 s"),
        ("released", "10.0 s", "–"),
        ("retrying", "–", "–"),
    ]
    done = Execution(status=Status.COMPLETED, run_at=begin, created_at=begin)
    assert timeline.of(done, [], now=begin).lanes == []
    many = [attempt(n, n, n, n + 0.5, Outcome.FAILED) for n in range(timeline.MOST_LANES + 3)]
    assert timeline.of(done, many, now=begin).left_out == 3


def test_the_number_of_queries_does_not_grow(desk: Desk) -> None:
    def count(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            desk.see(path)
        return len(queries)

    dead = desk.ledger.add(Status.DEAD_LETTER, task="a", error={"type": "KeyError", "message": "x"})
    held = desk.ledger.add(Status.SCHEDULED, task="a", hold=Hold.PAUSED)
    paths = ("?q=a&class=standard", "?error=KeyError", "?state=scheduled&why=paused", f"{dead.id}/", f"{held.id}/")
    few = [count(path) for path in paths]
    for n in range(12):
        one = desk.ledger.add(Status.DEAD_LETTER, task=f"a{n}", error={"type": "KeyError", "message": "x"})
        desk.ledger.add(Status.SCHEDULED, task="a", hold=Hold.PAUSED)
        desk.ledger.event(dead, target=Status.SCHEDULED, reason=f"{one.id}")
    many = [count(path) for path in paths]
    assert [new for old, new in zip(few, many, strict=True) if new > old] == []
    assert max(many[:3]) <= 20
    assert max(many[3:]) <= 18


def test_the_service_and_the_page_agree_on_who_is_retried(desk: Desk) -> None:
    """A retry that the API made is told of, too."""
    row = desk.ledger.add(Status.CANCELLED)
    made = services.retry(principal=make_principal(desk.tenant), execution_id=row.id)
    assert isinstance(made, UUID)
    assert str(made) in desk.see(f"{row.id}/")


def test_forms_are_counted_in_this_age_and_have_no_nul() -> None:
    desk = Desk()
    desk.act("act/cancel?due=35d", 422, counted_at="0001-01-01T00:00:00+00:00")
    desk.act("act/cancel", 422, id=str(uuid4()), key="a\0")
