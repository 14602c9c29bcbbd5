"""Reading runs for people and programs: always a tenant's."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.models import OuterRef, QuerySet, Subquery

from apps.executions import ids
from apps.executions.dags.critical_path import Span, critical_path
from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.dags.rows import NO_ITEM
from apps.executions.models import DagVersion, Execution
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import NotFound


def runs(principal: Principal) -> QuerySet[DagRun]:
    """The tenant's runs."""
    return _numbered(principal)


def run(principal: Principal, run_id: UUID) -> DagRun:
    """One run. Raises NotFound, for ids of other tenants too."""
    scheduled = ids.scheduled_at(run_id)
    found = None
    if scheduled is not None:
        found = _numbered(principal).filter(id=run_id, scheduled_at=scheduled).first()
    if found is None:
        raise NotFound(f"no run with id {run_id} in tenant {principal.tenant_slug}")
    return found


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
    row = RunNode.objects.filter(run_id=found.id, scheduled_at=found.scheduled_at, node_id=node_id).first()
    if row is None:
        raise NotFound(f"run {found.id} has no node {node_id!r}")
    return row


def executions_of(found: DagRun, row: RunNode, *, limit: int) -> list[Execution]:
    """Executions of a node, of the last generation first, its items in order."""
    rows = Execution.objects.filter(dag_run_id=found.id, scheduled_at=found.scheduled_at, dag_node=row.node)
    return list(rows.select_related("task_version").order_by("-dag_generation", "dag_item")[:limit])
