"""Executions of runs that have come to rest: their nodes become final, and what follows is released or ended.

Called in the transaction that ends the executions, whoever ends them, and by the watchdog for what was missed. Telling
it twice does no harm: a node that is final, an item that is counted and an older generation are passed over.

Lock order: executions by (scheduled_at, id), then runs by id, then what belongs to the runs. New executions are nobody
else's, and those of a stopped run are asked with SKIP LOCKED.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from apps.executions import ids
from apps.executions.dags import references
from apps.executions.dags.plan import FailurePolicy, NodeKind
from apps.executions.dags.propagation import Propagation
from apps.executions.dags.rows import Key, Node, Run, Settled
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus
from apps.executions.rows import Claimed
from apps.executions.states import Status
from apps.executions.store.dags import RunStore

_ACTOR = "dag"
_STOPPED = "failure policy fail_all: another node of its run has failed"


@dataclass
class Outcome:
    """What a settlement did: (tenant, id) of executions that it made or changed, and of runs; runs that ended."""

    changed: list[tuple[bytes, bytes]] = field(default_factory=list)
    ended: list[bytes] = field(default_factory=list)
    started: list[bytes] = field(default_factory=list)
    """Runs that have left the queue."""
    made: list[tuple[bytes, bytes]] = field(default_factory=list)
    """(run, execution) of what was released."""
    begun: list[Claimed] = field(default_factory=list)
    """What of it the worker has begun that asked."""
    released: int = 0
    """Whether the preloader has something to do."""


def settle(connection: psycopg.Connection, identities: Sequence[bytes]) -> Outcome:
    """Let the runs of those `identities` that rest hear of it; others are passed over. Needs a transaction."""
    outcome = Outcome()
    left = list(identities)
    while left:
        stopped: list[bytes] = []
        for day, positions in ids.by_day(left):
            stopped += _settle_day(RunStore(connection, day), [left[p] for p in positions], outcome)
        left = stopped
    return outcome


def _settle_day(store: RunStore, identities: list[bytes], outcome: Outcome) -> list[bytes]:
    resting, runs = store.enter(identities)
    if not resting:
        return []
    resting = _without_retried(store, runs, resting, outcome)
    work = Propagation(runs, _Reader(store))
    _enter(store, work, resting)
    work.finish()
    return write(store, work, outcome)


def _without_retried(
    store: RunStore, runs: dict[bytes, Run], resting: list[Settled], outcome: Outcome
) -> list[Settled]:
    dead = [
        one
        for one in resting
        if one.status == Status.DEAD_LETTER
        and runs[one.run].policy is FailurePolicy.RETRY
        and runs[one.run].ending is None
    ]
    again = store.give_fresh_budgets(dead) if dead else set()
    outcome.released += len(again)
    return [one for one in resting if one.id not in again]


def _enter(store: RunStore, work: Propagation, resting: list[Settled]) -> None:
    """Hand what rests to the propagation: whole nodes, and items that are not counted yet."""
    nodes = {node.key: node for node in store.nodes(sorted({(one.run, one.node) for one in resting}))}
    current = [
        (one, nodes[one.run, one.node])
        for one in resting
        if nodes[one.run, one.node].generation == one.generation and nodes[one.run, one.node].state is NodeState.ACTIVE
    ]
    items = [(one.run, one.node, one.item) for one, _ in current if one.item is not None]
    uncounted = store.open_items(items) if items else set()
    for one, node in current:
        state = _state_of(Status(one.status), node, work.runs[node.run])
        if one.item is None:
            work.end(node, state, _reason(state, work.runs[node.run]))
        elif (one.run, one.node, one.item) in uncounted:
            work.item_ended(node, one.item, _ITEM[state])


_ITEM = {
    NodeState.SUCCEEDED: EdgeOutcome.SUCCESS,
    NodeState.SKIPPED: EdgeOutcome.SKIPPED,
    NodeState.FAILED: EdgeOutcome.FAILED,
    NodeState.CANCELLED: EdgeOutcome.FAILED,
}


def _state_of(status: Status, node: Node, run: Run) -> NodeState:
    if status is Status.CANCELLED:
        timed_out = run.ending is RunStatus.TIMED_OUT
        # A rejected approval is a cancelled execution: nobody is to replay it.
        rejected = node.kind is NodeKind.APPROVAL and run.ending is None
        return NodeState.FAILED if timed_out or rejected else NodeState.CANCELLED
    return {
        Status.COMPLETED: NodeState.SUCCEEDED,
        Status.SKIPPED: NodeState.SKIPPED,
        Status.DEAD_LETTER: NodeState.FAILED,
    }[status]


def _reason(state: NodeState, run: Run) -> dict[str, str] | None:
    return TIMED_OUT if state is NodeState.FAILED and run.ending is RunStatus.TIMED_OUT else None


TIMED_OUT = {"type": "RunTimeout", "message": "timeout: its run was over its time limit"}


def write(store: RunStore, work: Propagation, outcome: Outcome) -> list[bytes]:
    """Write all that was decided; returns executions that were ended by it, which are to be settled in turn."""
    if work.stopped:
        store.stop(work.stopped, ending=RunStatus.FAILED)
    made, ended = store.write(work.edges, list(work.nodes.values()), work.released, work.closed)
    outcome.ended += ended
    over = _stop(store, work, outcome) if work.stopped else []
    touched = {node.run for node in work.nodes.values()}
    outcome.changed += [(work.runs[run].tenant_id, run) for run in touched]
    runs = [node.run for node in work.released for _ in range(node.items or 1)]
    outcome.changed += [(work.runs[run].tenant_id, one) for run, one in zip(runs, made, strict=True)]
    outcome.made += zip(runs, made, strict=True)
    outcome.released += len(made) + store.is_awaited
    return over


def _stop(store: RunStore, work: Propagation, outcome: Outcome) -> list[bytes]:
    closed = store.end_pending_nodes(work.stopped, state=NodeState.CANCELLED)
    if closed:
        outcome.ended += store.close_nodes(closed)
    asked = store.stop_executions(work.stopped, actor=_ACTOR, reason=_STOPPED)
    outcome.changed += [(tenant, identity) for identity, _, tenant in asked]
    return [identity for identity, status, _ in asked if status == Status.CANCELLED]


class _Reader:
    """The propagation's source: the store, and what mapped nodes map over."""

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self.edges_below = store.edges_below
        self.results = store.results
        self._listed: dict[Key, object] = {}

    def listed(self, node: Node) -> object:
        """Raises ReferenceProblem."""
        assert node.map_over is not None
        reference = references.parse(node.map_over)
        if reference.node is None:
            parameters, nominal = self._store.runs_for_references([node.run])[node.run]
            return reference.value({"run": {"parameters": parameters, "nominal_at": nominal}})
        found = self._store.results_by_name([(node.run, reference.node)])
        scope = {name: {"result": result, "status": state.word} for (_, name), (state, result) in found.items()}
        return reference.value(scope)


reader = _Reader
