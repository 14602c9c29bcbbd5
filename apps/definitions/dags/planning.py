"""From a DAG's rows to the plan of a run: what the ledger copies, so that later edits do not touch the run."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from apps.definitions.dags import versions
from apps.definitions.models import Dag, DagEdge, DagNode, Task
from apps.definitions.plans import plan_of as task_plan_of
from apps.executions import routes
from apps.executions.concurrency import key_of
from apps.executions.dags.plan import DagPlan, FailurePolicy, NodeKind, PlannedEdge, PlannedNode, TriggerRule
from apps.executions.labels import required_by
from apps.executions.models import TaskVersion
from apps.executions.states import Overlap

ACTOR = "dag"
_ROWS = 2000


class _Terms(NamedTuple):
    """What the ledger keeps beside a version's id."""

    priority: int
    max_attempts: int
    queue_seconds: int | None
    route_id: int
    concurrency_key: str | None


def plan_of(dag: Dag, *, priority: int | None = None) -> DagPlan:
    """The plan of a run that starts now, in a transaction. priority: instead of each node's own, for backfills."""
    rows = list(DagNode.objects.filter(dag=dag).select_related("task").order_by("position"))
    _follow_tasks(dag, rows)
    terms = _own_terms(dag, [row.version_id for row in rows if row.version_id is not None])
    positions = {row.id: position for position, row in enumerate(rows)}
    edges = DagEdge.objects.filter(dag=dag).values_list("parent_id", "child_id", "condition")
    return DagPlan(
        dag_id=dag.id,
        version_id=dag.version_id,
        tenant_id=dag.tenant_id,
        nodes=tuple(_node(position, row, terms, priority) for position, row in enumerate(rows)),
        edges=tuple(PlannedEdge(positions[parent], positions[child], each) for parent, child, each in edges),
        failure_policy=FailurePolicy[dag.failure_policy.upper()],
        run_timeout_seconds=dag.run_timeout_seconds,
        max_active_runs=dag.max_active_runs,
        overlap=Overlap[dag.overlap_policy.upper()],
    )


def _follow_tasks(dag: Dag, rows: Sequence[DagNode]) -> None:
    """Nodes that override a task which was edited since get a new version: the edit with the node's own words."""
    stale = [row for row in rows if row.task is not None and row.version_id and row.based_on != row.task.version_id]
    documents: list[tuple[DagNode, Mapping[str, Any]]] = [
        (row, versions.overriding_document(row.task, row.definition)) for row in stale if row.task is not None
    ]
    versions.make_own_versions(dag.tenant_id, documents, actor=ACTOR)
    for row in stale:
        row.based_on = None if row.task is None else row.task.version_id
    DagNode.objects.bulk_update(stale, ["version_id", "based_on"], batch_size=_ROWS)


def _own_terms(dag: Dag, version_ids: Sequence[int]) -> dict[int, _Terms]:
    route_of = cache(lambda labels: routes.route_of(labels))
    found = TaskVersion.objects.filter(id__in=version_ids).values_list("id", "definition")
    return {
        identity: _Terms(
            definition["priority"],
            definition["retry_policy"]["max_attempts"],
            definition["timeouts"].get("queue_seconds"),
            route_of(tuple(required_by(definition))),
            key_of(definition["concurrency"], definition["parameters"], tenant_id=dag.tenant_id.bytes),
        )
        for identity, definition in found.iterator()
    }


def _task_terms(task: Task) -> _Terms:
    shared = task_plan_of(task)
    names = ("priority", "max_attempts", "queue_seconds", "route_id", "concurrency_key")
    return _Terms(*(shared[name] for name in names))


def _node(position: int, row: DagNode, terms: Mapping[int, _Terms], priority: int | None) -> PlannedNode:
    version_id, task = row.version_id, row.task
    if version_id is None:
        assert task is not None  # a constraint of the table
        version_id = task.version_id
        own = _task_terms(task)
    else:
        own = terms[version_id]
    definition = row.definition
    return PlannedNode(
        index=position,
        node_id=row.key,
        task_id=_task_id(row),
        version_id=version_id,
        trigger_rule=TriggerRule[definition.get("trigger_rule", "all_success").upper()],
        priority=own.priority if priority is None else priority,
        max_attempts=own.max_attempts,
        queue_seconds=own.queue_seconds,
        kind=kind_of(definition),
        map_over=definition.get("map_over"),
        approval=_approval(definition),
        route_id=own.route_id,
        concurrency_key=own.concurrency_key,
    )


def kind_of(definition: Mapping[str, Any]) -> NodeKind:
    """What a stored node is."""
    if "approval" in definition:
        return NodeKind.APPROVAL
    return NodeKind.MAPPED if definition.get("map_over") else NodeKind.TASK


def _task_id(row: DagNode) -> UUID:
    return row.id if row.task_id is None else row.task_id


def _approval(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    given = definition.get("approval")
    return None if given is None else {"message": "", "timeout_seconds": None, "default": None, **given}
