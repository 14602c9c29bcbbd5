"""Which nodes decided how long a run took: from its last end back along the parent that each one waited for. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple


class Span(NamedTuple):
    """When a node was released and when it became final; None: not, or not yet."""

    released_at: datetime | None
    finished_at: datetime | None

    @property
    def seconds(self) -> float | None:
        """How long it took; None of a node that did not run, or runs still."""
        if self.released_at is None or self.finished_at is None:
            return None
        return max(0.0, (self.finished_at - self.released_at).total_seconds())


def critical_path(spans: Mapping[int, Span], edges: Sequence[tuple[int, int]]) -> list[int]:
    """Nodes in the order in which they ran; of nodes that ran alone. Shortening any of them shortens the run.

    edges: (parent, child).
    """
    ended = {node: span.finished_at for node, span in spans.items() if span.finished_at and span.released_at}
    if not ended:
        return []
    parents: dict[int, list[int]] = {}
    for parent, child in edges:
        if parent in ended:
            parents.setdefault(child, []).append(parent)
    path = [max(ended, key=lambda node: (ended[node], node))]
    while before := parents.get(path[-1]):
        path.append(max(before, key=lambda node: (ended[node], node)))
    return path[::-1]
