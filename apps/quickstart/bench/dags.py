"""Runs of DAGs of a shape: from the trigger to the last node's end, by the database's clock."""

from dataclasses import asdict, dataclass
from statistics import quantiles
from time import monotonic
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import ids
from apps.executions.dags.plan import DagPlan, FailurePolicy, NodeKind, PlannedEdge, PlannedNode, TriggerRule
from apps.executions.dags.runs import start_run
from apps.executions.states import Overlap
from apps.quickstart.bench.scenarios import Bench, running
from apps.quickstart.bench.shapes import SHAPES
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.clock import SYSTEM_CLOCK


@dataclass(frozen=True)
class DagFigures:
    """Times in ms from a run's due time to its end."""

    scenario: str
    shape: str
    width: int
    runs: int
    nodes: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    total_seconds: float
    trigger_seconds: float
    executions_per_second: float
    not_succeeded: int
    ran_twice: int

    def document(self) -> dict[str, object]:
        return {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(self).items()}


def dag(bench: Bench, *, shape: str, width: int, runs: int, every_ms: float) -> DagFigures:
    """Trigger `runs` runs, one each `every_ms`, and wait for their end."""
    plan = _plan(bench, shape, width)
    with running(bench, preloader=True):
        _run_one(bench, plan)  # the first one loads what is loaded once
        began = monotonic()
        started = []
        spent = 0.0
        for number in range(runs):
            SYSTEM_CLOCK.sleep(max(0.0, began + number * every_ms / 1000 - monotonic()))
            mark = monotonic()
            started.append(_start(plan))
            spent += monotonic() - mark
        _wait(bench, started, seconds=60 + runs * len(plan.nodes) / 200)
        return _figures(bench, shape, width, plan, started, spent)


def _plan(bench: Bench, shape: str, width: int) -> DagPlan:
    count, edges = SHAPES[shape](width)
    task = bench.task
    nodes = tuple(
        PlannedNode(
            index=n,
            node_id=f"n{n}",
            task_id=task.id,
            version_id=task.version_id,
            trigger_rule=TriggerRule.ALL_SUCCESS,
            priority=5,
            max_attempts=3,
            queue_seconds=None,
            kind=NodeKind.TASK,
            map_over=None,
            approval=None,
        )
        for n in range(count)
    )
    return DagPlan(
        dag_id=ids.new_uuid7(int(SYSTEM_CLOCK.time() * 1000)),
        version_id=1,
        tenant_id=task.tenant_id,
        nodes=nodes,
        edges=tuple(PlannedEdge(parent, child, None) for parent, child in edges),
        failure_policy=FailurePolicy.SKIP_DOWNSTREAM,
        run_timeout_seconds=None,
        max_active_runs=None,
        overlap=Overlap.ALLOW_ALL,
    )


def _start(plan: DagPlan) -> UUID:
    with transaction.atomic():
        run = start_run(postgres.raw(django_connection), plan, actor="bench")
        transaction.on_commit(wakeup.preloader.wake)
    return run


def _run_one(bench: Bench, plan: DagPlan) -> None:
    _wait(bench, [_start(plan)], seconds=120)


def _wait(bench: Bench, runs: list[UUID], *, seconds: float) -> None:
    deadline = monotonic() + seconds
    while monotonic() < deadline:
        row = bench.connection.execute(
            "SELECT count(*) FROM dag_runs WHERE id = ANY(%s) AND finished_at IS NULL", (runs,)
        ).fetchone()
        if row == (0,):
            return
        SYSTEM_CLOCK.sleep(0.1)


_TIMES = """
SELECT (extract(epoch FROM finished_at - greatest(run_at, created_at)) * 1000)::float8, status
FROM dag_runs WHERE id = ANY(%s)
"""
_SPAN = """
SELECT extract(epoch FROM max(finished_at) - min(created_at))::float8 FROM dag_runs WHERE id = ANY(%s)
"""
_TWICE = """
SELECT count(*) FROM (
    SELECT 1 FROM executions e JOIN attempts a ON a.scheduled_at = e.scheduled_at AND a.execution_id = e.id
    WHERE e.dag_run_id = ANY(%s) AND a.outcome = 0
    GROUP BY e.dag_run_id, e.dag_node HAVING count(*) > 1) twice
"""


def _figures(
    bench: Bench, shape: str, width: int, plan: DagPlan, runs: list[UUID], trigger_seconds: float
) -> DagFigures:
    rows = bench.connection.execute(_TIMES, (runs,)).fetchall()
    times = sorted(time for time, _ in rows if time is not None)
    cuts = quantiles(times, n=100, method="inclusive") if len(times) > 1 else [*times] * 99
    span = bench.connection.execute(_SPAN, (runs,)).fetchone()
    twice = bench.connection.execute(_TWICE, (runs,)).fetchone()
    assert span is not None
    assert twice is not None
    total = span[0] or 0.0
    return DagFigures(
        scenario="dag",
        shape=shape,
        width=width,
        runs=len(runs),
        nodes=len(plan.nodes),
        p50_ms=cuts[49],
        p99_ms=cuts[98],
        max_ms=times[-1] if times else 0.0,
        total_seconds=total,
        trigger_seconds=trigger_seconds,
        executions_per_second=len(plan.nodes) * len(runs) / total if total else 0.0,
        not_succeeded=sum(status != 1 for _, status in rows),
        ran_twice=twice[0],
    )
