"""Where the boxes of a graph stand: layers from left to right, found by igraph, kept for graphs seen lately. Pure.

Coordinates are pixels of a drawing at its natural size; a box is WIDTH × HEIGHT.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import igraph

WIDTH, HEIGHT = 112, 40
COLUMN, ROW = 176, 56
MARGIN = 16
_MOST_BENDS = 10_000
"""Beyond this many bends, the longest edges go straight: each column that an edge passes costs time."""
_SWEEPS = 60
Point = tuple[float, float]


@dataclass(frozen=True)
class Layout:
    """boxes: the upper left corner of each. paths: of each edge, as the `d` of an SVG path."""

    boxes: tuple[Point, ...]
    paths: tuple[str, ...]
    width: float
    height: float


@lru_cache(maxsize=64)
def place(count: int, edges: tuple[tuple[int, int], ...]) -> Layout:
    """The layout of boxes 0 … count − 1; edges (parent, child) without cycles."""
    if count == 0:
        return Layout((), (), 2 * MARGIN, 2 * MARGIN)
    layers = layers_of(count, edges)
    routed = _routed(edges, layers)
    graph = igraph.Graph(n=count, edges=[edges[at] for at in routed], directed=True)
    found = graph.layout_sugiyama(layers=layers, hgap=1, vgap=1, maxiter=_SWEEPS)
    ys = [y for y, _ in found.coords] + [y for bends in found.edge_routing for y, _ in bends]
    least = min(ys)

    def corner(across: float, layer: float) -> Point:
        return MARGIN + layer * COLUMN, round(MARGIN + (across - least) * ROW, 1)

    boxes = tuple(corner(across, layer) for across, layer in found.coords)
    bends = {at: [corner(*bend) for bend in found.edge_routing[n]] for n, at in enumerate(routed)}
    paths = tuple(_path(boxes[parent], bends.get(at, []), boxes[child]) for at, (parent, child) in enumerate(edges))
    return Layout(
        boxes=boxes,
        paths=paths,
        width=max(x for x, _ in boxes) + WIDTH + MARGIN,
        height=(max(ys) - least) * ROW + HEIGHT + 2 * MARGIN,
    )


def layers_of(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The column of each box: one behind the last of its parents."""
    children: list[list[int]] = [[] for _ in range(count)]
    waits_for = [0] * count
    for parent, child in edges:
        children[parent].append(child)
        waits_for[child] += 1
    layers = [0] * count
    ready = [box for box in range(count) if not waits_for[box]]
    for parent in ready:
        for child in children[parent]:
            layers[child] = max(layers[child], layers[parent] + 1)
            waits_for[child] -= 1
            if not waits_for[child]:
                ready.append(child)
    return layers


def _routed(edges: Sequence[tuple[int, int]], layers: Sequence[int]) -> list[int]:
    """Which edges the layout bends round boxes: short ones first, while it can afford them."""
    spans = sorted((layers[child] - layers[parent] - 1, at) for at, (parent, child) in enumerate(edges))
    kept, bends = [], 0
    for span, at in spans:
        bends += span
        if bends > _MOST_BENDS:
            break
        kept.append(at)
    return kept


def _path(start: Point, bends: Sequence[Point], end: Point) -> str:
    """From the right of one box to the left of another, level where it passes a column."""
    middle = HEIGHT / 2
    x, y = start[0] + WIDTH, start[1] + middle
    parts = [f"M{x:g} {y:g}"]
    for left, top in [*bends, end]:
        half, at = (left - x) / 2, top + middle
        parts.append(f"C{x + half:g} {y:g} {left - half:g} {at:g} {left:g} {at:g}")
        x, y = left, at
        if (left, top) != end:
            x = left + WIDTH
            parts.append(f"H{x:g}")
    return "".join(parts)
