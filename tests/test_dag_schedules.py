"""DAGs' schedules become runs: once each, on time, as the overlap policy lets them; and nothing stops the others."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import InternalError, connection, transaction

from apps.definitions.dags import making, schedule, standing
from apps.definitions.dags.schedule import Act
from apps.definitions.models import Dag
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.executions.dags.models import DagRun
from apps.executions.dags.states import RunStatus
from apps.executions.models import Execution, Lease
from apps.executions.states import Origin, Status
from apps.preloader.dag_schedules import DagSchedules
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from tests.factories import EACH_MINUTE, make_principal, now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
EPOCH = 7
MINUTE = timedelta(minutes=1)


@pytest.fixture
def principal() -> Principal:
    return make_principal()


@pytest.fixture
def schedules() -> DagSchedules:
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    return DagSchedules(Config(), "preloader")


def make_dag(principal: Principal, *, late: timedelta = timedelta(0), **fields: Any) -> Dag:
    """A strict minutely DAG whose next occurrence was due `late` ago, or a little more."""
    nodes = [{"id": "a", "handler": "demo.noop"}, {"id": "b", "handler": "demo.noop", "depends_on": ["a"]}]
    data = {"name": "d", "nodes": nodes, "schedule": EACH_MINUTE, "strict_timing": True, **fields}
    dag = making.create_dag(principal=principal, data=data)
    due = next_occurrence(Schedule.parse(dag.schedule), after=now() - late - MINUTE)
    Dag.objects.filter(id=dag.id).update(next_fire_at=due)
    dag.refresh_from_db()
    return dag


def hourly() -> dict[str, Any]:
    """Due ten seconds ago, and not again while a test runs."""
    return {"type": "interval", "every_seconds": 3600, "start_at": (now() - timedelta(seconds=10)).isoformat()}


def runs(dag: Dag) -> list[DagRun]:
    return list(DagRun.objects.filter(dag_id=dag.id).order_by("nominal_at"))


def end(dag: Dag) -> None:
    DagRun.objects.filter(dag_id=dag.id).update(status=RunStatus.SUCCEEDED)


def passes(schedules: DagSchedules) -> None:
    while schedules.start_due(EPOCH):
        pass


# ---- decisions ----------------------------------------------------------------------------------------------------


def test_a_run_starts_at_its_time_and_the_next_is_named(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=MINUTE, schedule=hourly())
    due = dag.next_fire_at
    passes(schedules)
    (run,) = runs(dag)
    dag.refresh_from_db()
    assert (run.nominal_at, run.scheduled_at, run.origin, run.dag_version_id) == (
        due,
        due,
        Origin.SCHEDULE,
        dag.version_id,
    )
    assert due is not None
    assert dag.next_fire_at == due + timedelta(hours=1)
    (first,) = Execution.objects.filter(tenant_id=principal.tenant_id)
    assert (first.scheduled_at, first.status) == (due, Status.SCHEDULED)
    passes(schedules)
    assert len(runs(dag)) == 1


def test_an_occurrence_is_one_run_whoever_comes_twice(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=MINUTE, schedule=hourly(), overlap_policy="allow_all")
    due = dag.next_fire_at
    passes(schedules)
    Dag.objects.filter(id=dag.id).update(next_fire_at=due)  # as if the move had been lost
    passes(schedules)
    assert [run.nominal_at for run in runs(dag)] == [due]


def test_nothing_starts_early_under_pause_after_deletion_or_under_a_stale_epoch(
    principal: Principal, schedules: DagSchedules
) -> None:
    dag = make_dag(principal)
    with pytest.raises(LeadershipLost):
        schedules.start_due(EPOCH - 1)
    standing.pause_dag(principal=principal, dag_id=dag.id)
    passes(schedules)
    standing.resume_dag(principal=principal, dag_id=dag.id)
    Dag.objects.filter(id=dag.id).update(next_fire_at=now() + timedelta(seconds=30))
    passes(schedules)
    standing.delete_dag(principal=principal, dag_id=dag.id)
    passes(schedules)
    assert runs(dag) == []


def test_what_was_missed_runs_within_the_catchup_window(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=timedelta(minutes=10), catchup_seconds=180, overlap_policy="allow_all")
    passes(schedules)
    found = runs(dag)
    assert 3 <= len(found) <= 4
    instant = now()
    assert all(run.nominal_at is not None and instant - run.nominal_at < timedelta(seconds=241) for run in found)
    (entry,) = AuditEntry.objects.filter(target_id=str(dag.id), action="dag.skip")
    assert "too long ago" in entry.detail["reason"]


@pytest.mark.parametrize(
    ("policy", "after_first", "after_end"),
    [("skip", 1, 1), ("buffer_one", 1, 2), ("buffer_all", 1, 2), ("allow_all", 4, 4)],
)
def test_overlap(principal: Principal, schedules: DagSchedules, policy: str, after_first: int, after_end: int) -> None:
    dag = make_dag(principal, late=timedelta(minutes=3), overlap_policy=policy)
    passes(schedules)
    assert len(runs(dag)) - after_first in ((0, 1) if policy == "allow_all" else (0,))  # a minute may begin meanwhile
    first = runs(dag)[0].nominal_at
    end(dag)
    passes(schedules)
    found = [run.nominal_at for run in runs(dag)]
    assert len(found) - after_end in ((0, 1) if policy in ("allow_all", "skip") else (0,))
    assert first is not None
    if policy == "buffer_all":  # in order, none left out
        assert found == [first, first + MINUTE]
        end(dag)
        passes(schedules)
        assert [run.nominal_at for run in runs(dag)] == [first, first + MINUTE, first + 2 * MINUTE]
    elif policy == "buffer_one":  # the newest that was due
        assert found[1] is not None
        assert found[1] >= first + 3 * MINUTE


def test_cancel_other_stops_the_run_before(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=MINUTE, overlap_policy="cancel_other")
    passes(schedules)
    found = runs(dag)
    assert [run.status for run in found[:-1]] == [RunStatus.CANCELLED] * (len(found) - 1)
    assert len(found) >= 2
    assert found[-1].status == RunStatus.RUNNING


def test_as_many_as_may_be_active(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=timedelta(minutes=5), overlap_policy="allow_all", max_active_runs=2)
    passes(schedules)
    assert len(runs(dag)) == 2
    dag.refresh_from_db()
    assert dag.waiting_since is not None
    DagRun.objects.filter(id=runs(dag)[0].id).update(status=RunStatus.FAILED)
    passes(schedules)
    assert len(runs(dag)) == 3


def test_what_waited_for_earlier_runs_is_not_late_for_it(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, late=MINUTE, overlap_policy="buffer_all", catchup_seconds=120)
    passes(schedules)
    waiting = Dag.objects.get(id=dag.id).next_fire_at
    # An hour passes: the same occurrence, seen from then.
    hour = timedelta(hours=1)
    Dag.objects.filter(id=dag.id).update(next_fire_at=waiting - hour, waiting_since=now() - hour)  # type: ignore[operator]
    end(dag)
    passes(schedules)
    assert waiting is not None
    assert waiting - hour in [run.nominal_at for run in runs(dag)]


def test_jitter_moves_the_run_and_not_what_it_stands_for(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, strict_timing=False)
    assert dag.jitter_ms != 0
    assert abs(dag.jitter_ms) <= 15_000  # a quarter of the smallest gap
    jitter = timedelta(milliseconds=dag.jitter_ms)
    due = now() - jitter + timedelta(seconds=1.5)
    Dag.objects.filter(id=dag.id).update(next_fire_at=due)
    passes(schedules)
    (run,) = runs(dag)
    assert run.nominal_at is not None
    assert abs(run.run_at - run.nominal_at - jitter) < timedelta(milliseconds=2)
    assert abs(run.nominal_at - due) < timedelta(milliseconds=2)


def test_a_database_that_only_reads_for_a_moment_sets_no_dag_aside(
    principal: Principal, schedules: DagSchedules
) -> None:
    """After a failover: its run would begin a minute late."""
    dag = make_dag(principal, late=MINUTE, schedule=hourly())
    with transaction.atomic():
        connection.cursor().execute("SET LOCAL transaction_read_only = on")
        with pytest.raises(InternalError):
            schedules.start_due(EPOCH)
        transaction.set_rollback(True)
    schedules.start_due(EPOCH)
    assert len(runs(dag)) == 1


def test_a_dag_that_cannot_start_stops_nobody_else(principal: Principal, schedules: DagSchedules) -> None:
    broken = make_dag(principal, name="broken")
    good = make_dag(principal, name="good")
    Dag.objects.filter(id=broken.id).update(parameters_schema={"type": "object", "required": ["x"]})
    passes(schedules)
    assert (len(runs(broken)), len(runs(good))) == (0, 1)


@pytest.mark.parametrize(
    ("active", "policy", "limit", "act"),
    [
        (0, "skip", None, Act.START),
        (1, "skip", None, Act.SKIP),
        (1, "skip", 2, Act.START),
        (2, "skip", 2, Act.SKIP),
        (1, "cancel_other", None, Act.START_AND_CANCEL),
        (9, "allow_all", None, Act.START),
        (9, "allow_all", 9, Act.WAIT),
        (1, "buffer_all", None, Act.WAIT),
        (1, "buffer_one", None, Act.WAIT),
    ],
)
def test_each_decision(active: int, policy: str, limit: int | None, act: Act) -> None:
    instant = datetime.fromisoformat("2026-03-01T00:00:30+00:00")
    dag = Dag(
        schedule=Schedule.parse(EACH_MINUTE).to_json(),
        overlap_policy=policy,
        max_active_runs=limit,
        next_fire_at=instant - timedelta(seconds=30),
    )
    count: Callable[[], int] = lambda: active  # noqa: E731 - a count that is asked for
    assert schedule.decide(dag, now=instant, active=count).act is act
