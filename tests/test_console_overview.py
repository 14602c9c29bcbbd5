"""A tenant's first page: figures that are right, estimates that say so, and what it costs."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console import fragments
from apps.console.fragments import PiecesSource
from apps.console.overview import verdict
from apps.console.overview.charts import BARS_HEIGHT, bars, sparkline
from apps.console.overview.page import OverviewPage, figures
from apps.console.templatetags.figures import short
from apps.definitions import load
from apps.definitions.models import Task
from apps.dispatcher.hot_tier import HotTier
from apps.executions import freezing, ids, overview, usage
from apps.executions.models import CircuitBreaker, Execution, Worker
from apps.executions.overview import Pulse, Span
from apps.executions.quotas import Use
from apps.executions.rows import Preloaded
from apps.executions.states import ExecutionClass, Hold, Status
from apps.explain import backlog
from apps.explain.backlog import Backlog
from apps.explain.queue import Queue
from apps.explain.turn import Standing
from apps.tenants.audit import record
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SystemClock
from tests.console_dags import Dags, make_member
from tests.console_ledger import HOSTILE, Ledger, make_tenant, now
from tests.console_letters import letters
from tests.explain_causes import WORKER

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
MS = timedelta(milliseconds=1)


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def ledger(tenant: Tenant) -> Ledger:
    return Ledger(tenant)


@pytest.fixture
def who(tenant: Tenant) -> Principal:
    return Principal.in_tenant(tenant, role=Role.OPERATOR, actor="user:ada")


def see(tenant: Tenant, path: str = "", role: Role = Role.OPERATOR) -> str:
    client = Client()
    client.force_login(make_member(tenant, role))
    answer = client.get(f"/t/{tenant.slug}/{path}")
    assert answer.status_code == 200
    return answer.content.decode()


def done(ledger: Ledger, *, late: float, ago: float, **fields: Any) -> None:
    due = timedelta(seconds=-ago)
    row = ledger.add(Status.COMPLETED, due=due, **fields)
    began = row.run_at + late * MS
    type(row).objects.with_id(row.id).update(started_at=began, finished_at=began + MS)


def test_lateness_rate_and_what_waits_are_of_the_tenants_own(ledger: Ledger, who: Principal) -> None:
    at = ledger.at = now()
    for late in range(1, 100):
        done(ledger, late=late, ago=20)
    done(ledger, late=5000, ago=20)
    ledger.add(Status.SCHEDULED, due=timedelta(seconds=-3))
    ledger.add(Status.RETRYING, due=timedelta(seconds=-3), class_index=2, run_at=now() + timedelta(minutes=1))
    ledger.add(Status.PRELOADED, due=timedelta(seconds=-3), class_index=2)
    ledger.add(Status.SCHEDULED, due=timedelta(seconds=30))
    Ledger(make_tenant()).add(Status.SCHEDULED)
    pulse = overview.pulse(who, now=at)
    assert (pulse.begun, pulse.on_time, pulse.full) == (100, 99, False)
    assert pulse.late == (50, 95, 99)
    assert pulse.per_second == pytest.approx(100 / 60)
    assert pulse.waiting == {ExecutionClass.CRITICAL: 0, ExecutionClass.STANDARD: 1, ExecutionClass.BULK: 1}
    assert pulse.spans[-1] == overview.Span(100, 99)
    assert pulse.spans[0] == overview.Span()
    assert figures(who, pulse, backlog.read(who, now=now())).share == "99.00"
    ledger.add(Status.DEAD_LETTER, due=timedelta(seconds=-3))
    ledger.add(Status.SKIPPED, due=timedelta(seconds=-3))
    shown = figures(who, overview.pulse(who, now=at), backlog.read(who, now=at))
    assert shown.succeeded == "99.00", "100 of 101"


def test_a_full_sample_says_of_how_little_it_is(
    ledger: Ledger, who: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "SAMPLE", 10)
    at = ledger.at = now()
    for n in range(20):
        done(ledger, late=2, ago=n + 1)
    pulse = overview.pulse(who, now=at)
    assert (pulse.sampled, pulse.full, pulse.begun) == (10, True, 10)
    assert 9 < pulse.span < 13
    shown = figures(who, pulse, at_rest(who))
    assert shown.of == "of the last 10"
    assert shown.since.startswith(", due since")
    assert shown.rate.startswith("≈ ")
    pace = replace(at_rest(who), met=Standing(who.tenant_id, now(), queue=Queue(pace={1: 300.0, 2: 33.0}), workers=[]))
    assert figures(who, pulse, pace).rate == "≈ 333", "who sends it knows better"


def test_of_a_backlog_those_are_looked_at_that_began_last(
    ledger: Ledger, who: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "SAMPLE", 10)
    for n in range(15):
        done(ledger, late=2000 + n, ago=200 - n)
    waiting = [ledger.add(Status.PRELOADED, due=timedelta(seconds=n - 100)) for n in range(30)]
    blind = overview.pulse(who, now=now())
    assert (blind.sampled, blind.begun) == (10, 0)
    pulse = overview.pulse(who, now=now(), frontier=waiting[0].id)
    assert (pulse.sampled, pulse.begun, pulse.full) == (20, 10, True)
    assert pulse.late is not None
    assert pulse.late[0] >= 2000


def at_rest(who: Principal, **changes: Any) -> Backlog:
    """Nothing waits, all daemons live."""
    met = Standing(who.tenant_id, now(), workers=[WORKER])
    return replace(Backlog(dict.fromkeys(ExecutionClass, 0), {}, 0, at_least=False, oldest=None, met=met), **changes)


def test_what_waits_is_counted_where_it_waits(
    ledger: Ledger, who: Principal, redis_client: redis.Redis, redis_prefix: str, settings: Any
) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, redis_prefix=redis_prefix)
    hot_tier, due = HotTier(redis_client, redis_prefix), now() - timedelta(seconds=20)
    ledger.add(Status.SCHEDULED, wake_at=due)
    ledger.add(Status.SCHEDULED, wake_at=now() + timedelta(seconds=60), run_at=now() + timedelta(seconds=60))
    ledger.add(Status.SCHEDULED, class_index=2, wake_at=due, hold=Hold.QUOTA)
    for hold in (Hold.CIRCUIT, Hold.CIRCUIT, Hold.PAUSED):
        ledger.add(Status.SCHEDULED, hold=hold)
    loaded = [ledger.add(Status.PRELOADED) for _ in range(3)]
    hot_tier.add(Preloaded(row.id.bytes, -30_000, 0, who.tenant_id.bytes, 0) for row in loaded)
    Ledger(make_tenant()).add(Status.SCHEDULED, wake_at=due)
    found = backlog.read(who, now=now())
    assert found.at_least, "the hot tier has not been filled: it may hold less than it should"
    hot_tier.mark(range(ids.SHARDS))
    found = backlog.read(who, now=now())
    assert found.queued == {ExecutionClass.CRITICAL: 3, ExecutionClass.STANDARD: 1, ExecutionClass.BULK: 1}
    assert found.held == {Hold.CIRCUIT: 2, Hold.PAUSED: 1}
    assert (found.unloaded, found.total, found.at_least) == (2, 8, False)
    assert found.oldest is not None
    assert timedelta(seconds=29) < found.oldest < timedelta(minutes=2)
    assert (found.met.led, found.preloader) == (frozenset(), False)
    seen = {ExecutionClass.CRITICAL: 9, ExecutionClass.STANDARD: 9, ExecutionClass.BULK: 0}
    assert found.at_least_as(seen) == found
    away = replace(found, met=replace(found.met, queue=Queue(complete=False)))
    assert away.at_least_as(seen).total == 9 + 9 + 1 + 3


def test_days_are_counted_while_they_are_small(ledger: Ledger, who: Principal) -> None:
    noon = now().replace(hour=12, minute=0)
    for _ in range(3):
        ledger.add(Status.COMPLETED, due=noon - now())
    ledger.add(Status.SKIPPED, due=noon - now())
    found = overview.day(who, now=noon)
    assert found == overview.Day({Status.COMPLETED: 3, Status.SKIPPED: 1})
    assert overview.day(who, now=datetime(2031, 1, 1, tzinfo=UTC)) == overview.Day({})


def test_large_days_are_estimated_and_what_is_known_stays_exact(
    ledger: Ledger, who: Principal, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = now().replace(hour=12, minute=0)
    row = ledger.add(Status.COMPLETED, due=noon - now())
    ledger.add(Status.DEAD_LETTER, due=noon - now())
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT string_agg(quote_ident(attname), ',') FROM pg_attribute WHERE attnum > 0"
            " AND attrelid = 'executions'::regclass AND NOT attisdropped"
            " AND attname NOT IN ('id', 'idempotency_key')"
        )
        [columns] = cursor.fetchone()
        cursor.execute(
            f"INSERT INTO executions (id, idempotency_key, {columns})"
            " SELECT encode(substring(uuid_send(id) FOR 8) || decode(lpad(to_hex(n), 16, '0'), 'hex'), 'hex')::uuid, n,"
            f" {columns} FROM executions, generate_series(1, 8000) n WHERE id = %s",
            [row.id],
        )
    monkeypatch.setattr(overview, "MOST_PAGES", 64)
    before = noon - timedelta(minutes=9, seconds=30)
    assert sum(overview.planned(who, now=before).nominal.values()) == 0
    Execution.objects.filter(tenant=tenant, status=Status.COMPLETED).update(status=Status.SCHEDULED)
    planned = overview.planned(who, now=before)
    assert planned.estimated
    assert set(planned.nominal) == {9}
    assert planned.nominal[9] == pytest.approx(8001, rel=0.5)
    Execution.objects.filter(tenant=tenant, status=Status.SCHEDULED).update(status=Status.COMPLETED)
    found = overview.day(who, now=noon)
    assert found.estimated == {Status.COMPLETED}
    assert found.counts[Status.DEAD_LETTER] == 1
    assert found.counts[Status.COMPLETED] == pytest.approx(8001, rel=0.5)
    html = see(tenant)
    if now().date() == noon.date():
        assert re.search(r'title="about [\d,]+">≈ ', html)


def test_the_next_hour_adds_the_ledger_and_the_schedules(ledger: Ledger, who: Principal, tenant: Tenant) -> None:
    at = ledger.at = now().replace(second=0, microsecond=0)
    row = ledger.add(Status.SCHEDULED, due=timedelta(minutes=5, seconds=1))
    soon = ledger.version("every-minute").task_id
    Task.objects.filter(id=soon).update(next_fire_at=at + timedelta(minutes=50), jitter_ms=120_000)
    paused = ledger.version("paused").task_id
    Task.objects.filter(id=paused).update(next_fire_at=at, paused_at=at)
    Task.objects.filter(id=ledger.version("later").task_id).update(next_fire_at=at + timedelta(hours=2))
    Task.objects.filter(id=Ledger(make_tenant()).version("theirs").task_id).update(next_fire_at=at)
    found = load.next_hour(who, now=at + timedelta(seconds=30))
    assert row.state is Status.SCHEDULED
    assert found.nominal == [0] * 5 + [1] + [0] * 44 + [1] * 10
    assert found.shifted == [0] * 5 + [1] + [0] * 46 + [1] * 8
    assert not found.at_least
    hours = [now()]
    shown = re.search(r"<b>(\d+)</b> in the hour", see(tenant))
    hours.append(now())
    assert shown is not None
    # A minute may have begun meanwhile, whose occurrence is another.
    assert int(shown[1]) in {sum(load.next_hour(who, now=hour).shifted) for hour in hours}
    ledger.at = at
    ledger.add(Status.PRELOADED, due=timedelta(seconds=10))
    assert load.next_hour(who, now=at + timedelta(seconds=30)).nominal == found.nominal, "what waits is no plan"
    assert load.next_hour(who, now=at + timedelta(seconds=5)).nominal[0] == 1


def test_more_schedules_than_are_looked_at_are_said(
    ledger: Ledger, who: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "MOST_TASKS", 3)
    for n in range(5):
        ledger.version(f"task-{n}")
    Task.objects.filter(tenant=ledger.tenant).update(next_fire_at=now() + timedelta(minutes=59))
    found = load.next_hour(who, now=now())
    assert found.at_least
    assert sum(found.nominal) <= 8


def test_every_figure_leads_to_what_is_behind_it(ledger: Ledger, tenant: Tenant) -> None:
    rows = ledger.one_of_each()
    letters(ledger, 2)
    Worker.objects.create(
        host="h", process_id=1, slots=16, class_slots=[4, 8, 4], class_used=[1, 8, 0], started_at=now(),
        heartbeat_at=now(), lease_expires_at=now() + timedelta(minutes=1),
    )  # fmt: skip
    html = see(tenant)
    base = f"/t/{tenant.slug}"
    for address in ("executions/", "executions/?state=completed", "workers/", "dead-letters/", "dead-letters/?task="):
        assert f'href="{base}/{address}' in html
    assert f"{base}/executions/{rows[Status.RUNNING].id}/" in html
    assert "9 of 16 in use" in html
    assert "ValueError" in html
    client = Client()
    client.force_login(make_member(tenant))
    for target in set(re.findall(rf'href="({base}/[^"#]*)"', html)) - {
        f"{base}/executions/{r.id}/" for r in rows.values()
    }:
        assert client.get(target.replace("&amp;", "&")).status_code == 200, target


def test_an_empty_tenant_is_taught_the_first_step(tenant: Tenant) -> None:
    html = see(tenant)
    assert "curl -X POST http://testserver/api/v1/tasks" in html
    assert "Nothing is planned for the next hour" in html
    assert "nothing waits for a person" in html
    assert "manage.py worker" in html


def test_whether_all_is_well_is_said_and_which_circuit_keeps_work_back(ledger: Ledger, tenant: Tenant) -> None:
    assert "No worker is live" in see(tenant)
    spans = [Span()] * 20 + [Span(5, 4800.0), Span(3, 8.0), Span(4, 9.0), Span()]
    waiting = dict.fromkeys(ExecutionClass, 0)
    pulse = Pulse(12, 60, False, 12, 8, (8.0, 4800.0, 4800.0), 1.0, waiting, spans, 12, 0)
    assert verdict.tardy(pulse) == "4 of 12 began over 1 s late, none of the latest 7"
    until = now() + timedelta(minutes=5)
    CircuitBreaker.objects.create(tenant=tenant, key="webhook:a:1", quarantine_until=until, changed_at=now())
    who = Dags(tenant).who
    found = verdict.of(who, pulse, at_rest(who), workers=2, now=now())
    assert found.text == "Well: the latest 7 that were due all began within a second."
    assert '<bdi class="mono">webhook:a:1</bdi></a> kept failing' in see(tenant)


def test_the_first_sentence_and_the_causes_are_of_what_waits(tenant: Tenant, who: Principal) -> None:
    waiting = dict.fromkeys(ExecutionClass, 0)
    pulse = Pulse(12, 60, False, 12, 12, (8.0, 9.0, 9.0), 1.0, waiting, [Span(12, 9.0)], 12, 0)

    def said(now_met: Standing | None = None, **changes: Any) -> verdict.Verdict:
        rest = at_rest(who, **changes)
        return verdict.of(who, pulse, replace(rest, met=now_met or rest.met), workers=2, now=now())

    def causes(found: verdict.Verdict) -> list[tuple[str, str]]:
        return [(cause.reason.text, cause.address.removeprefix(f"/t/{tenant.slug}/")) for cause in found.causes]

    assert said().text.startswith("Well: the latest 12")
    behind: dict[str, Any] = {"queued": waiting | {ExecutionClass.BULK: 18_400}, "oldest": timedelta(seconds=41)}
    found = said(**behind)
    assert found.text == "Behind: 18,400 are due and have not begun, the oldest for 41.0 s."
    assert causes(found) == []
    met = at_rest(who).met
    rate = replace(met, queue=Queue(over_rate=1000))
    assert causes(said(rate, **behind)) == [
        ("rate limit: 1,000/s, 18,400 wait, the last starts in about 18 s", "settings/limits")
    ]
    full = said(replace(met, workers=[replace(WORKER, free=(0, 0, 0))]), **behind, unloaded=400)
    assert causes(full) == [
        ("no free slot: all 2 for bulk work are in use, 18,400 wait", "workers/"),
        ("400 wait for the preloader", "scheduler/"),
    ]
    assert said(queued=behind["queued"], oldest=timedelta(milliseconds=5)).text.startswith("Well"), "it is just due"
    held = said(held={Hold.CIRCUIT: 1200, Hold.NO_WORKER: 1})
    assert held.text == "Well: nothing that may begin waits. 1,201 are held."
    assert causes(held) == [
        ("1,200 wait for a circuit", "executions/?why=circuit"),
        ("1 waits for a worker that carries their labels", "executions/?why=no_worker"),
    ]
    assert said(replace(met, workers=None)).text.startswith("Redis does not answer")
    assert said(replace(met, workers=[]), **behind).text.startswith("No worker is live"), "the ledger knows later"
    assert said(replace(met, led=frozenset()), **behind).text.startswith("No dispatcher leads")
    assert said(replace(met, led=frozenset(range(9))), **behind).text.startswith("7 of 16 shards have no dispatcher")
    assert said(preloader=False).text.startswith("No preloader leads")
    Tenant.objects.filter(id=tenant.id).update(executions_per_hour=5)
    usage.add(postgres.raw(connection), {(tenant.id.bytes, int(Use.EXECUTIONS)): 5})
    over = said(**behind)
    assert over.text == "Over a quota: 18,400 wait. quota: 5 of 5 executions this hour"
    assert causes(over) == [("quota: 5 of 5 executions this hour", "settings/limits")]
    freezing.freeze(tenant=tenant, reason="a dispute", actor="user:ada")
    assert said(**behind).text.endswith("until it is thawed. a dispute")


def test_names_are_text(ledger: Ledger, tenant: Tenant) -> None:
    letters(ledger, 2, task=HOSTILE, kind=HOSTILE, error={"type": HOSTILE, "message": HOSTILE})
    html = see(tenant)
    assert "&lt;img" in html
    assert "<img" not in html
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=", html)


def test_it_costs_the_same_however_much_there_is(ledger: Ledger, tenant: Tenant) -> None:
    client = Client()
    client.force_login(make_member(tenant))

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            assert client.get(f"/t/{tenant.slug}/").status_code == 200
        return len(queries)

    ledger.one_of_each()
    few = cost()
    for n in range(15):
        ledger.add(Status.COMPLETED, task=f"t{n}")
        letters(ledger, 1, task=f"l{n}", kind=f"k{n}")
    Task.objects.filter(tenant=tenant).update(next_fire_at=now())
    assert cost() <= few <= 19, "three of them for the first steps, which are soon put away"


def test_who_is_no_member_sees_nothing(tenant: Tenant) -> None:
    assert Client().get(f"/t/{tenant.slug}/")["Location"].startswith("/login/")
    client = Client()
    client.force_login(make_member(make_tenant()))
    assert client.get(f"/t/{tenant.slug}/").status_code == 404


def test_what_the_page_polls_is_what_it_shows(ledger: Ledger, tenant: Tenant) -> None:
    ledger.add(Status.COMPLETED)
    told = json.loads(see(tenant, "state"))
    assert set(told["pieces"]) == {"now", "hour", "today", "letters", "dags", "rows"}
    assert told["pieces"]["today"] in see(tenant)


def test_charts_begin_at_zero_and_keep_gaps() -> None:
    assert sparkline([0, 10]) == ["0.0,30.0 120.0,2.0"]
    assert len(sparkline([1, 2, None, 3, 4, None, None, 5])) == 3
    assert sparkline([]) == sparkline([None]) == []
    drawn = bars([0, 10, 40], 40)
    assert [bar.height for bar in drawn] == [0, BARS_HEIGHT / 4, BARS_HEIGHT]
    assert [bar.peak for bar in drawn] == [False, False, True]
    assert [short(n) for n in (0, 48_120, 186_400, 1_860_000)] == ["0", "48,120", "186 k", "1.86 M"]


class AheadClock(SystemClock):
    """Time that a test lets pass."""

    ahead = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self.ahead


def test_what_the_page_counts_itself_is_not_sent_again(ledger: Ledger, who: Principal) -> None:
    ledger.add(Status.RUNNING)
    ledger.add(Status.SCHEDULED, due=timedelta(seconds=40))
    clock = AheadClock()
    source = PiecesSource(OverviewPage(who, clock=clock))
    first = source.update(set(), looking=True)
    assert first is not None
    assert (first.version, len(first.pieces)) == (1, 6)
    clock.ahead = timedelta(seconds=2)
    assert source.update(set(), looking=False) is None
    ledger.add(Status.COMPLETED)
    second = source.update(set(), looking=True)
    assert second is not None
    assert (second.version, set(second.pieces)) == (2, {"rows"})
    assert set(source.everything().pieces) == set(first.pieces)


def test_what_takes_long_to_read_is_read_less_often(who: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    page, time = OverviewPage(who), SimpleNamespace(now=0.0)
    monkeypatch.setattr(fragments, "time", SimpleNamespace(monotonic=lambda: time.now))
    reads: list[float] = []

    def reading(now: datetime) -> dict[str, Any]:
        reads.append(time.now)
        time.now += 0.04
        return {"rows": []}

    for _ in range(60):
        page.piece("rows", 1.0, reading)
        time.now += 0.1
    assert reads == [0.0, pytest.approx(4.1, abs=0.2)], "a hundredth of the time"


def test_first_steps_are_ticked_off_and_put_away_for_good(tenant: Tenant, ledger: Ledger) -> None:
    """They are for those who may take them, while the tenant is young."""
    client = Client()
    client.force_login(make_member(tenant))
    letters(ledger, 1)

    def shown() -> str:
        html = client.get(f"/t/{tenant.slug}/").content.decode()
        return html.partition("data-first")[2].partition("</section>")[0]

    first = shown()
    assert "Break it" not in first, "it is quickstart's"
    assert first.count("<li>") == 3
    assert "/dead-letters/0" in first, "it leads to the very letter"
    record(tenant_id=tenant.id, actor="quickstart", action="task.create", target_type="task", target_id=1)
    assert shown().count("data-done") == 0, "the demo's own tasks are not the newcomer's"
    record(tenant_id=tenant.id, actor="user:ada", action="task.create", target_type="task", target_id=1)
    assert shown().count("data-done") == 1
    assert "data-first" not in see(tenant, role=Role.VIEWER)
    assert client.post(f"/t/{tenant.slug}/first-steps/put-away").status_code == 200
    assert shown() == ""
    assert "data-first" in see(tenant), "another browser has its own memory"
    Tenant.objects.update(created_at=now() - timedelta(days=15))
    assert "data-first" not in see(tenant)
