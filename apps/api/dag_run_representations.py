"""How the API shows runs of DAGs."""

from datetime import datetime
from typing import Any

from apps.api.representations import moment
from apps.executions.dags import selectors
from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.dags.selectors import RunGraph
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus
from apps.executions.models import Execution
from apps.executions.states import Origin
from chronoweb.runtime.clock import SYSTEM_CLOCK


def run(row: DagRun) -> dict[str, Any]:
    """ending: as what it will end, while it is being stopped."""
    return {
        "id": str(row.id),
        "dag_id": str(row.dag_id),
        "dag_version": getattr(row, "dag_version", None),
        "status": row.word,
        "ending": None if row.ending is None else RunStatus(row.ending).word,
        "paused_at": moment(row.paused_at),
        "queued_since": moment(row.queued_since),
        "waits_for": selectors.waits_for(row, now=SYSTEM_CLOCK.now()),
        "failure_policy": FailurePolicy(row.failure_policy).word,
        "origin": Origin(row.origin).word,
        "started_by": row.actor,
        "parameters": row.parameters,
        "nodes_total": row.nodes,
        "nodes_open": row.open_nodes,
        "nominal_at": moment(row.nominal_at),
        "scheduled_at": moment(row.scheduled_at),
        "run_at": moment(row.run_at),
        "created_at": moment(row.created_at),
        "deadline_at": moment(row.deadline_at),
        "finished_at": moment(row.finished_at),
        "duration_seconds": _seconds(max(row.run_at, row.created_at), row.finished_at),
        "idempotency_key": row.idempotency_key,
        "version": row.version,
    }


def run_detail(row: DagRun, graph: RunGraph) -> dict[str, Any]:
    """With its nodes, its edges and its critical path."""
    names = {node.node: node.node_id for node in graph.nodes}
    seconds = [selectors.span(node).seconds or 0.0 for node in graph.path]
    return {
        **run(row),
        "nodes": [
            one_node(node, None if node.execution_id is None else graph.executions.get(node.execution_id))
            for node in graph.nodes
        ],
        "edges": [_edge(edge, names) for edge in graph.edges],
        "critical_path": {
            "seconds": round(sum(seconds), 6),
            "nodes": [{"id": node.node_id, "seconds": took} for node, took in zip(graph.path, seconds, strict=True)],
        },
    }


def one_node(row: RunNode, execution: Execution | None) -> dict[str, Any]:
    """execution: that of its generation; a mapped node has items instead. parents: what the edges into it brought."""
    return {
        "id": row.node_id,
        "kind": NodeKind(row.kind).word,
        "state": NodeState(row.state).word,
        "trigger_rule": TriggerRule(row.rule).word,
        "task_id": str(row.task_id),
        "generation": row.generation,
        "parents": {
            "open": row.open,
            "succeeded": row.succeeded,
            "failed": row.failed,
            "skipped": row.skipped,
            "errors": row.errors,
        },
        "execution_id": None if row.execution_id is None else str(row.execution_id),
        "execution_status": None if execution is None else execution.state.word,
        "attempt": None if execution is None else execution.attempt,
        "items": _items(row),
        "map_over": row.map_over,
        "approval": row.approval,
        "released_at": moment(row.released_at),
        "started_at": None if execution is None else moment(execution.started_at),
        "finished_at": moment(row.finished_at),
        "deadline_at": moment(row.deadline_at),
        "duration_seconds": selectors.span(row).seconds,
        "error": row.error or (None if execution is None else execution.error),
    }


def _items(row: RunNode) -> dict[str, int] | None:
    if row.items is None:
        return None
    return {
        "total": row.items,
        "open": row.items_open,
        "succeeded": row.items_succeeded,
        "failed": row.items_failed,
        "skipped": row.items_skipped,
    }


def _edge(row: TaskDependency, names: dict[int, str]) -> dict[str, Any]:
    return {
        "parent": names[row.parent],
        "child": names[row.child],
        "condition": row.condition,
        "outcome": None if row.outcome is None else EdgeOutcome(row.outcome).word,
        "error": row.error,
    }


def _seconds(begin: datetime, end: datetime | None) -> float | None:
    return None if end is None else max(0.0, (end - begin).total_seconds())
