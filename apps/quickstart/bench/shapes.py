"""Shapes of DAGs, as (number of nodes, edges)."""

from collections.abc import Callable
from itertools import pairwise

Edges = list[tuple[int, int]]


def _diamond(_: int) -> tuple[int, Edges]:
    return 4, [(0, 1), (0, 2), (1, 3), (2, 3)]


def _fan(width: int) -> tuple[int, Edges]:
    last = width + 1
    return last + 1, [(0, n) for n in range(1, last)] + [(n, last) for n in range(1, last)]


def _chain(length: int) -> tuple[int, Edges]:
    return length, list(pairwise(range(length)))


SHAPES: dict[str, Callable[[int], tuple[int, Edges]]] = {"diamond": _diamond, "fan": _fan, "chain": _chain}
"""By name, for a width: of a fan its middle, of a chain its length."""
