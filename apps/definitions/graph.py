"""The graph of a DAG: nodes by position, each edge once, parents before children. Pure, iterative, linear in edges."""

import difflib
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from chronoweb.runtime.errors import InvalidInput, InvalidInputs

MOST_NODES = 20_000
MOST_EDGES = 2_000_000
_SHOWN = 20  # nodes of a cycle's path, and ids of a list
_MOST_ERRORS = 100


class Graph(NamedTuple):
    """parents: of each node its parents' positions, each once, in the order given. order: parents before children."""

    parents: list[list[int]]
    order: list[int]

    @property
    def edges(self) -> int:
        return sum(map(len, self.parents))


def build(ids: Sequence[str], depends_on: Sequence[Sequence[Any]]) -> Graph:
    """The graph of nodes that name their parents; an edge given twice is one.

    Raises InvalidInputs: duplicate ids, unknown parents, self edges, and one cycle with its path. Pointers are relative
    to the list of nodes ("/3/depends_on/0").
    """
    positions = {name: position for position, name in enumerate(ids)}
    errors = _size_errors(len(ids), sum(map(len, depends_on)))
    if len(positions) < len(ids):
        errors += _duplicates(ids)
    parents: list[list[int]] = []
    for position, names in enumerate(depends_on):
        found = dict.fromkeys(map(positions.get, names))
        if None in found or position in found:
            errors += _wrong_parents(ids, position, names, positions)
        parents.append([parent for parent in found if parent is not None and parent != position])
        if len(errors) >= _MOST_ERRORS:
            break
    if errors:
        raise InvalidInputs(errors)
    order = _order(parents)
    if len(order) < len(ids):
        raise InvalidInputs([_cycle_error(ids, depends_on, parents, order)])
    return Graph(parents, order)


def ancestors(graph: Graph) -> list[int]:
    """Of each node the set of the nodes above it, as bits: node n is there when bit n is set."""
    above = [0] * len(graph.parents)
    for node in graph.order:
        bits = 0
        for parent in graph.parents[node]:
            bits |= above[parent] | (1 << parent)
        above[node] = bits
    return above


def unknown(name: Any, known: Sequence[str]) -> str:
    """What could have been meant: close names first, then some of them all."""
    close = difflib.get_close_matches(str(name), known[:2000], n=3)
    shown = ", ".join(known[:_SHOWN]) + (f" … ({len(known)} in all)" if len(known) > _SHOWN else "")
    return f"perhaps {' or '.join(close)}; known: {shown}" if close else shown


def _size_errors(nodes: int, edges: int) -> list[InvalidInput]:
    if not nodes:
        return [InvalidInput("", [], "is empty: a DAG has at least one node", f"1 to {MOST_NODES} nodes")]
    if nodes > MOST_NODES:
        return [InvalidInput("", None, f"has {nodes} nodes", f"1 to {MOST_NODES} nodes")]
    if edges > MOST_EDGES:
        return [InvalidInput("", None, f"has {edges} edges", f"at most {MOST_EDGES} edges")]
    return []


def _duplicates(ids: Sequence[str]) -> list[InvalidInput]:
    first: dict[str, int] = {}
    return [
        InvalidInput(f"/{position}/id", name, f"is the id of node {first[name]} already", "an id of its own")
        for position, name in enumerate(ids)
        if first.setdefault(name, position) != position
    ]


def _wrong_parents(
    ids: Sequence[str], position: int, names: Sequence[Any], positions: dict[str, int]
) -> list[InvalidInput]:
    errors = []
    for place, name in enumerate(names):
        at = f"/{position}/depends_on/{place}"
        if name not in positions:
            errors.append(InvalidInput(at, name, "is no node of this DAG", unknown(name, ids)))
        elif positions[name] == position:
            errors.append(InvalidInput(at, name, f"is the node itself: {name} → {name}", "another node's id"))
    return errors


def _order(parents: Sequence[Sequence[int]]) -> list[int]:
    """Kahn's order; what lies on a cycle, or below one, is missing from it."""
    children: list[list[int]] = [[] for _ in parents]
    for child, above in enumerate(parents):
        for parent in above:
            children[parent].append(child)
    waiting = [len(above) for above in parents]
    ready = deque(node for node, count in enumerate(waiting) if not count)
    order = []
    while ready:
        node = ready.popleft()
        order.append(node)
        for child in children[node]:
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return order


def _cycle_error(
    ids: Sequence[str], depends_on: Sequence[Sequence[Any]], parents: Sequence[Sequence[int]], order: Sequence[int]
) -> InvalidInput:
    cycle = _cycle(parents, order)
    names = [ids[node] for node in cycle]
    shown = [*names, names[0]]
    if len(names) > _SHOWN:
        shown = [*names[: _SHOWN - 2], f"… ({len(names) - _SHOWN + 1} more) …", names[-1], names[0]]
    path = " → ".join(shown)
    first, last = cycle[0], cycle[-1]
    at = f"/{first}/depends_on/{list(depends_on[first]).index(ids[last])}"
    return InvalidInput(at, ids[last], f"closes a cycle: {path}", "no path that leads back to where it began")


def _cycle(parents: Sequence[Sequence[int]], order: Sequence[int]) -> list[int]:
    """One cycle, each node a parent of the next, from its first node in the document on.

    Every node that is left has a parent that is left, so going from parent to parent must come back.
    """
    sorted_out = set(order)
    node = next(position for position in range(len(parents)) if position not in sorted_out)
    seen: dict[int, int] = {}
    walk: list[int] = []
    while node not in seen:
        seen[node] = len(walk)
        walk.append(node)
        node = next(parent for parent in parents[node] if parent not in sorted_out)
    cycle = walk[seen[node] :][::-1]
    start = cycle.index(min(cycle))
    return cycle[start:] + cycle[:start]
