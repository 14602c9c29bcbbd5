"""Graphs too large to read are folded: alike nodes, and the rest of very tall columns, stand in one box; of graphs that
are too large even so, whole columns do. Pure.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from apps.console.dags.layout import layers_of

MANY = 60
"""Graphs of more nodes are folded unless the reader wants otherwise."""
_ALIKE = 5
_TALLEST = 24
Edge = tuple[int, int]


@dataclass(frozen=True)
class Folded:
    """boxes: the nodes of each, in the plan's order. edges: between boxes. inner: the nodes' edges of each of them."""

    boxes: tuple[tuple[int, ...], ...]
    edges: tuple[Edge, ...]
    inner: tuple[tuple[Edge, ...], ...]


def fold(count: int, edges: Sequence[Edge], *, folded: bool, opened: Collection[int] = ()) -> Folded:
    """opened: first nodes of boxes that the reader has opened. Boxes keep the order of their first nodes.

    Only nodes of one column share a box, and edges lead from columns to later ones: so folding makes no cycle.
    """
    box_of = list(range(count))
    if folded:
        for members in _groups(count, edges):
            if members[0] not in opened and all(box_of[node] == node for node in members):
                for node in members:
                    box_of[node] = members[0]
    firsts = sorted(set(box_of))
    index = {first: at for at, first in enumerate(firsts)}
    members_of: list[list[int]] = [[] for _ in firsts]
    for node in range(count):
        members_of[index[box_of[node]]].append(node)
    inner: dict[Edge, list[Edge]] = {}
    for parent, child in edges:
        inner.setdefault((index[box_of[parent]], index[box_of[child]]), []).append((parent, child))
    return Folded(
        boxes=tuple(map(tuple, members_of)),
        edges=tuple(inner),
        inner=tuple(tuple(many) for many in inner.values()),
    )


def _groups(count: int, edges: Sequence[Edge]) -> list[list[int]]:
    """What may stand in one box, whatever the reader has opened; of two with a node in common the first one counts."""
    columns: dict[int, list[int]] = {}
    for node, layer in enumerate(layers_of(count, edges)):
        columns.setdefault(layer, []).append(node)
    few = [*_alike(count, edges), *_tall(count, edges, columns.values())]
    if count - sum(len(members) - 1 for members in few) <= MANY:
        return few
    room = max(1, MANY // len(columns))
    return [*(column for column in columns.values() if len(column) > room), *few]


def _alike(count: int, edges: Sequence[Edge]) -> list[list[int]]:
    """Nodes with the same parents and the same children."""
    parents: list[list[int]] = [[] for _ in range(count)]
    children: list[list[int]] = [[] for _ in range(count)]
    for parent, child in edges:
        parents[child].append(parent)
        children[parent].append(child)
    groups: dict[tuple[frozenset[int], frozenset[int]], list[int]] = {}
    for node in range(count):
        groups.setdefault((frozenset(parents[node]), frozenset(children[node])), []).append(node)
    return [members for members in groups.values() if len(members) >= _ALIKE]


def _tall(count: int, edges: Sequence[Edge], columns: Collection[list[int]]) -> list[list[int]]:
    """What a column has beyond its first nodes."""
    alike = {node for members in _alike(count, edges) for node in members}
    others = [[node for node in column if node not in alike] for column in columns]
    return [column[_TALLEST:] for column in others if len(column) > _TALLEST + 1]
