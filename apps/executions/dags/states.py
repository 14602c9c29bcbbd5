"""Where a run of a DAG, its nodes and its edges are, as data."""

from enum import IntEnum


class RunStatus(IntEnum):
    """Where a run is. Only a person's act (clear, mark, rerun) moves one out of the others back to RUNNING."""

    RUNNING = 0
    SUCCEEDED = 1
    PARTIALLY_COMPLETED = 2  # something failed, and something else succeeded
    FAILED = 3
    TIMED_OUT = 4
    CANCELLED = 5

    @property
    def word(self) -> str:
        return self.name.lower()


class NodeState(IntEnum):
    """Where a node of a run is."""

    PENDING = 0  # waits for its parents, or for its run to be resumed
    ACTIVE = 1  # released: its execution, or its items, tell the rest
    SUCCEEDED = 2
    FAILED = 3
    SKIPPED = 4  # not taken: a condition, a rule, an empty list
    UPSTREAM_FAILED = 5  # cannot run because something before it failed
    CANCELLED = 6

    @property
    def word(self) -> str:
        return self.name.lower()


FINAL = frozenset(NodeState) - {NodeState.PENDING, NodeState.ACTIVE}
"""No retry is left; what comes after is decided on these alone."""

BAD = frozenset({NodeState.FAILED, NodeState.UPSTREAM_FAILED, NodeState.CANCELLED})
"""A run with one of these has not succeeded, and a rerun from what failed begins with these."""


class EdgeOutcome(IntEnum):
    """What came over an edge, written once its parent is final."""

    SUCCESS = 0
    FAILED = 1
    SKIPPED = 2
    ERROR = 3  # its condition could not be judged: the child fails

    @property
    def word(self) -> str:
        return self.name.lower()


def sql_constants() -> dict[str, str]:
    """Names that the named SQL may use in braces."""
    kinds: dict[str, type[IntEnum]] = {"RUN_": RunStatus, "NODE_": NodeState, "EDGE_": EdgeOutcome}
    return {f"{prefix}{member.name}": str(int(member)) for prefix, kind in kinds.items() for member in kind}
