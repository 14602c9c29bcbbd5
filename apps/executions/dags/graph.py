"""The whole graph of one run in memory, for what persons do to it: what is below, what is decided anew. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from apps.executions.dags.rules import Counts
from apps.executions.dags.states import FINAL, EdgeOutcome, NodeState


class Reopened(NamedTuple):
    """What clearing some nodes changes.

    nodes: their counts, and whether they are only counted anew. edges: those that have brought nothing any more.
    again: final nodes that are not cleared, out of which edges into these nodes have to bring something anew.
    """

    nodes: dict[int, tuple[Counts, bool]]
    edges: list[tuple[int, int]]
    again: list[int]


@dataclass(frozen=True)
class Graph:
    """states: of each node. edges: (parent, child) → what it has brought."""

    states: Mapping[int, NodeState]
    edges: Mapping[tuple[int, int], EdgeOutcome | None]

    def with_below(self, nodes: Iterable[int]) -> set[int]:
        """These nodes and everything that comes after them."""
        children: dict[int, list[int]] = {}
        for parent, child in self.edges:
            children.setdefault(parent, []).append(child)
        found, waiting = set(nodes), list(nodes)
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        return found

    def reopened(self, cleared: set[int]) -> Reopened:
        """Decide `cleared` anew. Children outside of them that have not been decided yet wait for them again.

        Every edge into a cleared node is open again, for what it has brought may be of an older generation of its
        parent: one that is final is asked once more, for one that is not the node waits.
        """
        edges = [
            (parent, child)
            for parent, child in self.edges
            if child in cleared or (parent in cleared and self.states[child] is NodeState.PENDING)
        ]
        open_now = set(edges)
        counted = cleared | {child for _, child in edges}
        counts = dict.fromkeys(counted, Counts())
        again: set[int] = set()
        for (parent, child), outcome in self.edges.items():
            if child not in counted:
                continue
            if outcome is None or (parent, child) in open_now:
                counts[child] = counts[child]._replace(open=counts[child].open + 1)
                if parent not in cleared and self.states[parent] in FINAL:
                    again.add(parent)
            else:
                counts[child] = counts[child]._replace(open=counts[child].open + 1).plus(outcome)
        nodes = {node: (found, node not in cleared) for node, found in counts.items()}
        return Reopened(nodes, edges, sorted(again))
