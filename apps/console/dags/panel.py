"""What the page of a run says of one node: what happened, why it waits, evidence, and what may be done to it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.console import reasons
from apps.console.dags import node_logs, nodes, words
from apps.console.dags.node_logs import NodeLog
from apps.console.dags.nodes import NodeView
from apps.console.detail import readable
from apps.console.row_html import Row
from apps.console.rows import present_all
from apps.console.wording import duration, first_line
from apps.executions.dags import selectors
from apps.executions.dags.models import DagRun, RunNode, TaskDependency
from apps.executions.dags.plan import NodeKind, TriggerRule
from apps.executions.dags.rows import NO_ITEM
from apps.executions.dags.states import NodeState
from apps.executions.models import Attempt, Execution
from apps.executions.states import Outcome, Status
from apps.tenants.principal import Principal

_MOST_EXECUTIONS = 20
_MOST_ATTEMPTS = 50
_RESULT_CHARACTERS = 4000


@dataclass(frozen=True)
class Parent:
    """A node right before it, and what the edge brought."""

    node_id: str
    state: str
    brought: str
    condition: str


@dataclass(frozen=True)
class Try:
    """One attempt."""

    number: int
    outcome: str
    state: str
    at: datetime
    took: str
    worker: str
    line: str
    execution: Execution


@dataclass(frozen=True)
class Panel:
    """What `_node_panel.html` shows. rows: executions, those of the last generation first."""

    node: RunNode
    view: NodeView
    label: str
    kind: str
    rule: str
    parents: list[Parent]
    rows: list[Row]
    logs: list[NodeLog]
    tries: list[Try]
    error: str
    error_text: str
    result: str | None
    message: str
    waits_for_answer: bool
    is_final: bool
    may_be_marked: bool


def read(principal: Principal, run: DagRun, node_id: str, *, now: datetime) -> Panel:
    """About eleven queries. Raises NotFound."""
    node = selectors.node(run, node_id)
    [view] = nodes.present(principal, run, [node], now=now)
    executions = selectors.executions_of(run, node, limit=_MOST_EXECUTIONS)
    current = next((row for row in executions if row.id == node.execution_id), None)
    waits = current is not None and current.state is Status.WAITING and NodeKind(node.kind) is NodeKind.APPROVAL
    fault = node.error or (current.error if current is not None else None)
    return Panel(
        node=node,
        view=view,
        label=words.label(view.state),
        kind=NodeKind(node.kind).word,
        rule=words.label(TriggerRule(node.rule).word),
        parents=_parents(run, node),
        rows=present_all(principal, executions, now=now),
        logs=node_logs.of(node, selectors.execution_lines(run, node, limit=node_logs.MOST)),
        tries=_tries(run, executions),
        error=reasons.error_line(fault),
        error_text=_whole(fault),
        result=_result(current),
        message=str((node.approval or {}).get("message") or ""),
        waits_for_answer=waits,
        is_final=node.state not in (NodeState.PENDING, NodeState.ACTIVE),
        may_be_marked=node.state != NodeState.SUCCEEDED,
    )


def _whole(fault: Any) -> str:
    if isinstance(fault, dict) and fault.get("traceback"):
        return str(fault["traceback"])
    return ""


def _result(current: Execution | None) -> str | None:
    if current is None or current.result is None:
        return None
    text = readable(current.result)
    return text if len(text) <= _RESULT_CHARACTERS else text[:_RESULT_CHARACTERS] + "\n…"


def _parents(run: DagRun, node: RunNode) -> list[Parent]:
    where = {"run_id": run.id, "scheduled_at": run.scheduled_at}
    edges = TaskDependency.objects.filter(**where, child=node.node, item=NO_ITEM, parent__in=node.parents)
    brought = {edge.parent: edge for edge in edges}
    above = RunNode.objects.filter(**where, node__in=node.parents).order_by("node")
    return [
        Parent(
            node_id=row.node_id,
            state=words.of_node(row.state, None),
            brought="" if (edge := brought[row.node]).outcome is None else edge.get_outcome_display(),
            condition=words.condition(edge.condition) if edge.condition else "",
        )
        for row in above
    ]


def _tries(run: DagRun, executions: Sequence[Execution]) -> list[Try]:
    by_id = {row.id: row for row in executions}
    found = Attempt.objects.filter(scheduled_at=run.scheduled_at, execution_id__in=by_id).order_by("-finished_at")
    return [
        Try(
            number=row.attempt,
            outcome=Outcome(row.outcome).word.replace("_", " "),
            state="succeeded" if row.outcome == Outcome.SUCCEEDED else "failed",
            at=row.finished_at,
            took=duration(row.finished_at - row.started_at) if row.started_at else "–",
            worker=f"worker-{row.worker_id}" if row.worker_id else "",
            line=first_line(reasons.error_line(row.error)),
            execution=by_id[row.execution_id],
        )
        for row in found[:_MOST_ATTEMPTS]
    ]
