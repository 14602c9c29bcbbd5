"""Nodes of a run as a page shows them: a name, a state and one line of evidence, with the version that they are of."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.console import reasons
from apps.console.dags import words
from apps.console.wording import duration
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.dags.plan import NodeKind
from apps.executions.dags.states import NodeState
from apps.executions.models import Execution, Progress, TaskVersion
from apps.executions.states import Hold, Status
from apps.tenants.principal import Principal

Version = tuple[int, int]
"""The node's revision and its execution's version: it grows with each write of either."""
_NAMES_ITS_VERSION = (Hold.CONCURRENCY, Hold.NO_WORKER)


@dataclass(frozen=True)
class NodeView:
    """since: from when the page counts, after `line`; until: to when. share: how far it is, 0 to 1; None: unknown."""

    node: int
    node_id: str
    name: str
    state: str
    version: Version
    line: str
    since: datetime | None = None
    until: datetime | None = None
    share: float | None = None
    execution_id: UUID | None = None


def read(
    principal: Principal, run: DagRun, *, now: datetime, positions: Collection[int] | None = None
) -> list[NodeView]:
    """Nodes of a run, all or these, in the plan's order; at most seven queries, however many nodes."""
    rows = RunNode.objects.filter(run_id=run.id, scheduled_at=run.scheduled_at).order_by("node")
    if positions is not None:
        rows = rows.filter(node__in=positions)
    return present(principal, run, list(rows), now=now)


def present(principal: Principal, run: DagRun, nodes: Sequence[RunNode], *, now: datetime) -> list[NodeView]:
    """These nodes of a run; at most six queries."""
    executions = executions_of(run, nodes)
    waiting = [row for row in executions.values() if row.state in _WAITS or row.state is Status.CANCELLED]
    evidence = reasons.gather(principal, waiting, now=now) if waiting else reasons.Evidence(principal.tenant_id, now)
    running = [row.id for row in executions.values() if row.state is Status.RUNNING]
    said = {row.execution_id: row for row in Progress.objects.filter(execution_id__in=running)} if running else {}
    found = []
    for node in nodes:
        execution = executions.get(node.execution_id) if node.execution_id else None
        version = (node.revision, execution.version if execution else 0)
        about = _about(run, node, execution, evidence, said.get(node.execution_id) if node.execution_id else None)
        state = words.of_node(node.state, execution)
        found.append(
            NodeView(node.node, node.node_id, name_of(node), state, version, execution_id=node.execution_id, **about)
        )
    return found


_WAITS = (Status.SCHEDULED, Status.PRELOADED, Status.DISPATCHED, Status.WAITING, Status.RETRYING)


def executions_of(run: DagRun, nodes: Sequence[RunNode]) -> dict[UUID, Execution]:
    """The executions of these nodes by id, with the versions of those whose reason needs it; two queries."""
    wanted = [node.execution_id for node in nodes if node.execution_id]
    rows = Execution.objects.filter(scheduled_at=run.scheduled_at, id__in=wanted).defer("payload", "result")
    executions = {row.id: row for row in rows} if wanted else {}
    named = [row for row in executions.values() if row.hold in _NAMES_ITS_VERSION or row.hold == Hold.CIRCUIT]
    if named:
        versions = TaskVersion.objects.in_bulk({row.task_version_id for row in named})
        for row in named:
            row.task_version = versions[row.task_version_id]
    return executions


def name_of(node: RunNode) -> str:
    """`score × 64` of a mapped node that has been sized."""
    return node.node_id if not node.items else f"{node.node_id} × {node.items}"


def took(node: RunNode, execution: Execution | None) -> timedelta | None:
    """How long it ran; of a mapped node, from its release on."""
    began = execution.started_at if execution is not None else node.released_at
    return None if began is None or node.finished_at is None else max(timedelta(0), node.finished_at - began)


def _about(
    run: DagRun, node: RunNode, execution: Execution | None, evidence: reasons.Evidence, said: Progress | None
) -> dict[str, Any]:
    state = NodeState(node.state)
    if state is NodeState.PENDING:
        return {"line": _waits(run, node)}
    if state is NodeState.ACTIVE:
        return _active(node, execution, evidence, said)
    if state is NodeState.SUCCEEDED:
        return _succeeded(node, execution)
    if state is NodeState.UPSTREAM_FAILED:
        return {"line": "a parent failed"}
    told = reasons.error_line(node.error or (execution.error if execution else None))
    if not told and node.items and node.items_failed:
        told = f"{node.items_failed} of {node.items} failed"
    if state is NodeState.SKIPPED:
        return {"line": told or ("nothing to map" if node.items == 0 else "not taken")}
    return {"line": told or state.word}


def _waits(run: DagRun, node: RunNode) -> str:
    if node.open:
        waits = f"waits for {node.open} of {len(node.parents)}"
        return waits if len(waits) <= words.WIDEST - 3 else f"waits for {node.open}"
    return "its run is paused" if run.paused_at else "its run waits" if run.queued_since else "ready"


def _active(
    node: RunNode, execution: Execution | None, evidence: reasons.Evidence, said: Progress | None
) -> dict[str, Any]:
    if execution is None:
        items = node.items or 0
        ended = items - node.items_open
        failed = f" · {node.items_failed} failed" if node.items_failed else ""
        return {"line": f"{ended} of {items}{failed}", "since": node.released_at, "share": ended / (items or 1)}
    if execution.state is Status.RUNNING:
        done, total = (said.done, said.total) if said is not None else (None, None)
        share = min(1.0, max(0.0, done / total)) if done is not None and total else None
        line = f"{share:.0%}".replace("%", " %") if share is not None else ""
        return {"line": line, "since": execution.started_at, "share": share}
    if NodeKind(node.kind) is NodeKind.APPROVAL:
        return {"line": "needs approval"}
    reason = reasons.of(execution, evidence)
    if reason is None:
        return {"line": words.label(execution.state.word)}
    if reason.clears_when is not None and reason.lead:
        return {"line": reason.lead, "until": reason.clears_when}
    return {"line": reason.text}


def _succeeded(node: RunNode, execution: Execution | None) -> dict[str, Any]:
    length = took(node, execution)
    parts = [f"{node.items_succeeded} of {node.items}"] if node.items else []
    parts += [duration(length)] if length is not None else []
    parts += [f"worker-{execution.worker_id}"] if execution is not None and execution.worker_id else []
    share = 1.0 if node.items else None
    return {"line": " · ".join(parts) or "done", "share": share}
