"""From nodes that have become final to what follows from it: which run, which end without running. Pure.

The runs are locked by the caller, so what is read stays true; all is decided in memory and written at the end, each
table once. How many statements it takes does not depend on how many children there are: what is below is read level by
level, twice as deep each time, and mostly one level is enough.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from apps.executions.dags import conditions
from apps.executions.dags.plan import FailurePolicy, NodeKind
from apps.executions.dags.rows import NO_ITEM, Edge, EdgeWrite, Key, Node, Run
from apps.executions.dags.rules import Counts, decide, outcome_of, state_of_items
from apps.executions.dags.states import FINAL, EdgeOutcome, NodeState
from chronoweb.runtime.errors import ChronowebError

logger = logging.getLogger(__name__)

MOST_ITEMS = 10_000


class Source(Protocol):
    """Where runs are read from."""

    def edges_below(self, keys: Iterable[Key], depth: int) -> tuple[list[Edge], list[Node]]:
        """The open edges out of these nodes and of what is up to `depth` levels below them, and where they lead."""

    def results(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """The results of these nodes."""

    def listed(self, node: Node) -> Any:
        """What a mapped node maps over. Raises ChronowebError."""


@dataclass
class Propagation:
    """One transaction's work on some locked runs of one day."""

    runs: Mapping[bytes, Run]
    source: Source
    nodes: dict[Key, Node] = field(default_factory=dict)
    edges: list[EdgeWrite] = field(default_factory=list)
    released: list[Node] = field(default_factory=list)
    stopped: set[bytes] = field(default_factory=set)
    """Runs of which a failure stops everything."""
    _frontier: list[Node] = field(default_factory=list)
    _known: dict[Key, list[Edge]] = field(default_factory=dict)
    _below: dict[Key, Node] = field(default_factory=dict)
    _depth: int = 0

    def end(self, node: Node, state: NodeState, error: dict[str, Any] | None = None) -> None:
        """A node has become final."""
        node.state, node.finished, node.error = state, True, error
        self.nodes[node.key] = node
        self._frontier.append(node)
        if state is NodeState.FAILED and self.runs[node.run].policy is FailurePolicy.FAIL_ALL:
            self.stopped.add(node.run)

    def again(self, node: Node) -> None:
        """A node that is final already has open edges into nodes that are decided anew."""
        self.nodes[node.key] = node
        self._frontier.append(node)

    def item_ended(self, node: Node, item: int, outcome: EdgeOutcome) -> None:
        """An item of a mapped node has become final; the last one ends the node."""
        self.nodes[node.key] = node
        node.item_counts = node.item_counts.plus(outcome)
        self.edges.append(EdgeWrite(node.run, node.node, node.node, item, outcome))
        if node.item_counts.open == 0:
            self.end(node, state_of_items(node.item_counts))

    def consider(self, node: Node) -> None:
        """Decide about a pending node into which no edge is open."""
        self.nodes[node.key] = node
        run = self.runs[node.run]
        if run.paused or run.queued or run.ending is not None:
            return
        state = decide(node.rule, node.counts, run.policy)
        if state is NodeState.ACTIVE:
            self._release(node)
        else:
            self.end(node, state, node.error)

    def finish(self) -> None:
        """Follow everything that has ended to where something runs, or nothing is left."""
        while self._frontier:
            ended, self._frontier = self._frontier, []
            self._follow(ended)
        for node in [node for node in self.released if node.run in self.stopped]:
            self.released.remove(node)
            node.state, node.released, node.finished, node.items = NodeState.CANCELLED, False, True, None
            node.item_counts = Counts()

    @property
    def closed(self) -> dict[bytes, int]:
        """How many nodes of each run have become final."""
        counts: dict[bytes, int] = {}
        for node in self.nodes.values():
            if node.finished:
                counts[node.run] = counts.get(node.run, 0) + 1
        return counts

    def _release(self, node: Node) -> None:
        if node.kind is NodeKind.MAPPED:
            try:
                items = self._items(node)
            except ChronowebError as error:
                self.end(node, NodeState.FAILED, {"type": type(error).__name__, "message": str(error)})
                return
            if not items:
                node.items, node.item_counts = 0, Counts()
                self.end(node, NodeState.SKIPPED)
                return
            node.items, node.item_counts = items, Counts(open=items)
        node.state, node.released, node.error = NodeState.ACTIVE, True, None
        self.released.append(node)

    def _items(self, node: Node) -> int:
        value = self.source.listed(node)
        if not isinstance(value, list):
            raise NotAList(f"{node.map_over} is no list but {type(value).__name__}: nothing to map over")
        if len(value) > MOST_ITEMS:
            raise NotAList(f"{node.map_over} has {len(value)} items; at most {MOST_ITEMS} are mapped over")
        return len(value)

    def _follow(self, ended: list[Node]) -> None:
        edges = self._edges(ended)
        states = {node.key: node.state for node in ended}
        results = self._results(edges, states)
        ready: dict[Key, Node] = {}
        for edge in edges:
            child = self._child(edge)
            outcome, error = self._judge(edge, states[edge.run, edge.parent], results)
            self.edges.append(EdgeWrite(edge.run, edge.parent, edge.child, NO_ITEM, outcome, error))
            child.counts = child.counts.plus(outcome)
            child.error = error or child.error
            if child.counts.open == 0 and child.state is NodeState.PENDING:
                ready[child.key] = child
        for _, child in sorted(ready.items()):
            self.consider(child)

    def _edges(self, ended: list[Node]) -> list[Edge]:
        missing = [node.key for node in ended if node.key not in self._known]
        if missing:
            found, children = self.source.edges_below(missing, self._depth)
            self._below.update((node.key, node) for node in children if node.key not in self._below)
            self._depth = 2 * self._depth or 1
            fresh: dict[Key, list[Edge]] = {key: [] for key in missing}
            for edge in found:
                fresh.setdefault((edge.run, edge.parent), []).append(edge)
            # What was read before may have been followed since: only that is no news.
            self._known = {**fresh, **self._known}
        return [edge for node in ended for edge in self._known[node.key]]

    def _child(self, edge: Edge) -> Node:
        key = edge.run, edge.child
        if key not in self.nodes:
            self.nodes[key] = self._below[key]
        return self.nodes[key]

    def _results(self, edges: list[Edge], states: Mapping[Key, NodeState]) -> dict[Key, Any]:
        asked = {(e.run, e.parent) for e in edges if e.condition and states[e.run, e.parent] not in _UNASKED}
        return self.source.results(sorted(asked)) if asked else {}

    def _judge(
        self, edge: Edge, state: NodeState, results: Mapping[Key, Any]
    ) -> tuple[EdgeOutcome, dict[str, Any] | None]:
        outcome = outcome_of(state)
        if outcome is not EdgeOutcome.SUCCESS or edge.condition is None:
            return outcome, None
        try:
            held = conditions.holds(edge.condition, results.get((edge.run, edge.parent)))
        except conditions.ConditionError as error:
            said = {"type": "ConditionError", "message": str(error)}
            return EdgeOutcome.ERROR, {**said, "expression": error.expression, "value": error.value}
        except Exception as error:
            # Whatever a condition does, it must not end the worker that judges it, and then the next one.
            logger.exception("a condition could not be judged", extra={"action": "dag.condition_failed"})
            message = f"{conditions.expression(edge.condition)}: {type(error).__name__}: {error}"
            return EdgeOutcome.ERROR, {"type": "ConditionError", "message": message}
        return (EdgeOutcome.SUCCESS if held else EdgeOutcome.SKIPPED), None


_UNASKED = FINAL - {NodeState.SUCCEEDED}


class NotAList(ChronowebError):
    """What a mapped node maps over cannot be mapped over."""
