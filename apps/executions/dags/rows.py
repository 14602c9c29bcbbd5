"""Runs, nodes and edges as the decision about them needs them: records in memory, changed there, written at the end."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.dags.rules import Counts
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus

Key = tuple[bytes, int]
"""(run, node)."""

NO_ITEM = -1
"""`item` of an edge between two nodes; the others are items of a mapped node."""


@dataclass(slots=True)
class Run:
    """A run that this transaction has locked. ending: as what it will end, once it has been stopped."""

    id: bytes
    tenant_id: bytes
    status: RunStatus
    ending: RunStatus | None
    policy: FailurePolicy
    paused: bool
    queued: bool = False
    """It has not begun yet: as many runs of its DAG as may are active, or its time has not come."""


@dataclass(slots=True)
class Node:
    """A node of a locked run. counts: of the edges into it; item_counts: of its items, once it has been sized."""

    run: bytes
    node: int
    kind: NodeKind
    rule: TriggerRule
    state: NodeState
    generation: int
    counts: Counts
    items: int | None = None
    item_counts: Counts = field(default_factory=Counts)
    map_over: str | None = None
    execution: bytes | None = None
    """Set when it is released."""
    released: bool = False
    finished: bool = False
    error: dict[str, Any] | None = None

    @property
    def key(self) -> Key:
        return self.run, self.node


class Edge(NamedTuple):
    """An edge that has brought nothing yet."""

    run: bytes
    parent: int
    child: int
    condition: dict[str, Any] | None


class EdgeWrite(NamedTuple):
    """What an edge, or an item, has brought."""

    run: bytes
    parent: int
    child: int
    item: int
    outcome: EdgeOutcome
    error: dict[str, Any] | None = None


class Settled(NamedTuple):
    """An execution of a run that rests."""

    id: bytes
    run: bytes
    node: int
    item: int | None
    generation: int
    status: int
