"""Which logs a node has: one of each of its executions, of items and of earlier generations, too."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from apps.console.dags import words
from apps.executions.dags.models import RunNode
from apps.executions.dags.plan import NodeKind
from apps.executions.dags.selectors import ExecutionLine
from apps.executions.dags.states import NodeState
from apps.executions.states import Status

MOST = 500


@dataclass(frozen=True)
class NodeLog:
    """The log of one execution. chosen: it is shown until the reader chooses another."""

    id: UUID
    label: str
    chosen: bool


def of(node: RunNode, executions: Sequence[ExecutionLine]) -> list[NodeLog]:
    """executions: of the last generation first. Nobody prints while a person's answer is waited for."""
    if NodeKind(node.kind) is NodeKind.APPROVAL or not executions:
        return []
    first = _first(node, executions)
    return [NodeLog(row.id, _label(row, of_several=node.generation > 1), row is first) for row in executions]


def _first(node: RunNode, executions: Sequence[ExecutionLine]) -> ExecutionLine:
    """Of the items of the last generation: one that failed if the node did, one that runs, or the first."""
    newest = [row for row in executions if row.generation == executions[0].generation]
    wanted = (Status.DEAD_LETTER,) if node.state == NodeState.FAILED else (Status.RUNNING, Status.RETRYING)
    return next((row for row in newest if row.status in wanted), newest[0])


def _label(row: ExecutionLine, *, of_several: bool) -> str:
    parts = [f"generation {row.generation}"] if of_several else []
    parts += [f"item {row.item}"] if row.item is not None else []
    return " · ".join([*parts, words.label(Status(row.status).word)])
