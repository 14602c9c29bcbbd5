"""Reading runs for people and programs: always a tenant's."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery

from apps.executions import ids
from apps.executions.dags.critical_path import Span, critical_path
from apps.executions.dags.models import QUEUED, DagRun, RunNode, TaskDependency
from apps.executions.dags.rows import NO_ITEM
from apps.executions.dags.start import LEAD
from apps.executions.dags.states import RunStatus
from apps.executions.models import DagVersion, Execution
from apps.executions.store.statements import named_sql
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import NotFound

_ACTIVE_SHOWN = 3
_NEWEST_RUNS = 60


def runs(principal: Principal) -> QuerySet[DagRun]:
    """The tenant's runs."""
    return _numbered(principal)


def of_words(rows: QuerySet[DagRun], words: Collection[str]) -> QuerySet[DagRun]:
    """Those of `rows` whose DagRun.word is one of these."""
    waits = Q(queued_since__isnull=False)
    known = [status for status in RunStatus if status.word in words]
    return rows.filter(Q(status__in=known) & ~waits | (waits if QUEUED in words else Q(pk__in=())))


def run(principal: Principal, run_id: UUID) -> DagRun:
    """One run. Raises NotFound, for ids of other tenants too."""
    scheduled = ids.scheduled_at(run_id)
    found = None
    if scheduled is not None:
        found = _numbered(principal).filter(id=run_id, scheduled_at=scheduled).first()
    if found is None:
        raise NotFound(f"no run with id {run_id} in tenant {principal.tenant_slug}")
    return found


def waits_for(row: DagRun, *, now: datetime) -> str | None:
    """Why a run has not begun; None if it has, or is being stopped."""
    if row.queued_since is None:
        return None
    if row.run_at > now + LEAD:
        return "run_at: not before " + row.run_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return "max_active_runs: as many runs of its DAG as may are active, or were asked for before it"


class Queue(NamedTuple):
    """Where a run that waits stands: its place among those of its DAG that wait, from 1; how many wait; how many have
    begun and not ended, and the first of these.
    """

    place: int
    waiting: int
    active: int
    first: Sequence[UUID]


def queue_of(row: DagRun) -> Queue | None:
    """None for a run that has begun, is being stopped, or is for later. One query."""
    if row.word != QUEUED:
        return None
    parameters: dict[str, Any] = {
        "run": row.id,
        "dag": row.dag_id,
        "tenant": row.tenant_id,
        "lead": LEAD,
        "shown": _ACTIVE_SHOWN,
    }
    with connection.cursor() as cursor:
        cursor.execute(named_sql("place_in_queue"), parameters)
        found = cursor.fetchone()
    return None if found is None else Queue(*found)


def _numbered(principal: Principal) -> QuerySet[DagRun]:
    """Runs with the number of the DAG's version that each was made from, as `dag_version`."""
    number = DagVersion.objects.filter(id=OuterRef("dag_version_id")).values("number")
    return scoped(DagRun.objects.annotate(dag_version=Subquery(number)), principal)


@dataclass(frozen=True, slots=True)
class RunGraph:
    """A run's nodes in the plan's order, its edges, the executions of nodes by id, and the critical path."""

    nodes: Sequence[RunNode]
    edges: Sequence[TaskDependency]
    executions: dict[UUID, Execution]
    path: Sequence[RunNode]


def graph(found: DagRun) -> RunGraph:
    """All of a run."""
    where = {"run_id": found.id, "scheduled_at": found.scheduled_at}
    nodes = list(RunNode.objects.filter(**where).order_by("node"))
    edges = list(TaskDependency.objects.filter(**where, item=NO_ITEM).order_by("parent", "child"))
    executions = Execution.objects.filter(dag_run_id=found.id, scheduled_at=found.scheduled_at, dag_item=None)
    current = {node.execution_id for node in nodes}
    by_id = {row.id: row for row in executions.defer("payload", "result") if row.id in current}
    spans = {node.node: span(node) for node in nodes}
    path = critical_path(spans, [(edge.parent, edge.child) for edge in edges])
    by_position = {node.node: node for node in nodes}
    return RunGraph(nodes, edges, by_id, [by_position[position] for position in path])


def span(node: RunNode) -> Span:
    """When a node ran."""
    return Span(node.released_at, node.finished_at)


def node(found: DagRun, node_id: str) -> RunNode:
    """One node of a run. Raises NotFound."""
    row = None
    if "\0" not in node_id:  # PostgreSQL has no text with it
        row = RunNode.objects.filter(run_id=found.id, scheduled_at=found.scheduled_at, node_id=node_id).first()
    if row is None:
        raise NotFound(f"run {found.id} has no node {node_id!r}")
    return row


def executions_of(found: DagRun, row: RunNode, *, limit: int) -> list[Execution]:
    """Executions of a node, of the last generation first, its items in order."""
    rows = Execution.objects.filter(dag_run_id=found.id, scheduled_at=found.scheduled_at, dag_node=row.node)
    return list(rows.select_related("task_version").order_by("-dag_generation", "dag_item")[:limit])


class ExecutionLine(NamedTuple):
    """An execution of a node as menus show it. item: None where the node does not map."""

    id: UUID
    status: int
    generation: int | None
    item: int | None


def execution_lines(found: DagRun, row: RunNode, *, limit: int) -> list[ExecutionLine]:
    """As `executions_of`; one query."""
    rows = Execution.objects.filter(dag_run_id=found.id, scheduled_at=found.scheduled_at, dag_node=row.node)
    lines = rows.values_list("id", "status", "dag_generation", "dag_item")
    return [ExecutionLine(*line) for line in lines.order_by("-dag_generation", "dag_item")[:limit]]


class RunLine(NamedTuple):
    """A run as lists show it."""

    id: UUID
    dag_id: UUID
    status: int
    version: int
    run_at: datetime
    created_at: datetime
    finished_at: datetime | None
    queued_since: datetime | None
    ending: int | None

    @property
    def word(self) -> str:
        """As DagRun.word."""
        return QUEUED if self.queued_since is not None and self.ending is None else RunStatus(self.status).word


def latest_dags(principal: Principal, *, since: datetime, most: int) -> list[UUID]:
    """The DAGs of the tenant's newest runs since then, the one that ran last first; one query of at most 60 rows."""
    newest = scoped(DagRun.objects.all(), principal).filter(scheduled_at__gte=since).order_by("-id")
    return list(dict.fromkeys(newest.values_list("dag_id", flat=True)[:_NEWEST_RUNS]))[:most]


def latest_runs(principal: Principal, dag_ids: Sequence[UUID], *, each: int, since: datetime) -> list[RunLine]:
    """The last `each` runs of each of these DAGs since then, latest first; one query, however many DAGs."""
    parameters: dict[str, Any] = {"dags": list(dag_ids), "tenant": principal.tenant_id, "each": each, "since": since}
    with connection.cursor() as cursor:
        cursor.execute(named_sql("latest_runs"), parameters)
        return [RunLine(*row) for row in cursor.fetchall()]


def lines(principal: Principal, run_ids: Collection[UUID]) -> list[RunLine]:
    """Those of these ids that are runs of the tenant."""
    instants = [at for identity in run_ids if (at := ids.scheduled_at(identity))]
    if not instants:
        return []
    rows = scoped(DagRun.objects.all(), principal).filter(
        id__in=run_ids, scheduled_at__gte=min(instants), scheduled_at__lte=max(instants)
    )
    return [RunLine(*row) for row in rows.values_list(*RunLine._fields)]
