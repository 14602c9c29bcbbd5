"""A graph as it is drawn: boxes with what they say, curves between them. Of a run, or of a version of a DAG."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from apps.console.dags import words
from apps.console.dags.folding import MANY, Edge, Folded, fold
from apps.console.dags.layout import WIDTH, Layout, place
from apps.console.dags.nodes import NodeView, Version

_NAME = 15
_WORST = (
    *("failed", "dead_letter", "running", "retrying", "waiting", "dispatched", "preloaded", "scheduled", "pending"),
    *("upstream_failed", "cancelled", "succeeded", "completed", "skipped", "defined"),
)
"""A box of several nodes has the state of the first of these that one of them has."""
_ENDED = frozenset({"succeeded", "completed", "failed", "skipped", "upstream_failed", "cancelled"})


@dataclass(frozen=True)
class Box:
    """A box as template and socket show it. many: how many nodes stand in it; their first one is `first`, `node_id`."""

    at: int
    first: int
    many: int
    node_id: str
    x: float
    y: float
    name: str
    full_name: str
    state: str
    line: str
    full_line: str
    version: Version
    since: datetime | None
    until: datetime | None
    share: float | None
    edges: list[tuple[int, str]] = field(default_factory=list)

    @property
    def foot(self) -> float | None:
        """How long the line at its foot is."""
        return None if self.share is None else round(self.share * (WIDTH - 4), 1)

    @property
    def said(self) -> str:
        """For those who hear it, and on hover."""
        about = f", {self.full_line}" if self.full_line else ""
        return f"{self.full_name}: {words.label(self.state)}{about}"

    def message(self) -> dict[str, Any]:
        """What the socket sends of it."""
        return {
            "at": self.at,
            "version": list(self.version),
            "state": self.state,
            "name": self.name,
            "line": self.line,
            "said": self.said,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
            "foot": self.foot,
            "edges": self.edges,
        }


@dataclass(frozen=True)
class Drawing:
    """Where a graph's boxes stand; what they say comes from views."""

    folded: Folded
    layout: Layout
    may_fold: bool

    @property
    def is_folded(self) -> bool:
        return any(len(members) > 1 for members in self.folded.boxes)

    @property
    def box_of(self) -> dict[int, int]:
        return {node: at for at, members in enumerate(self.folded.boxes) for node in members}

    def boxes(
        self, views: Mapping[int, NodeView], outcomes: Mapping[Edge, str], only: Collection[int] | None = None
    ) -> list[Box]:
        """All boxes, or these."""
        into: dict[int, list[int]] = {}
        for edge, (_, child) in enumerate(self.folded.edges):
            into.setdefault(child, []).append(edge)
        wanted = range(len(self.folded.boxes)) if only is None else sorted(only)
        return [self._box(at, views, outcomes, into.get(at, [])) for at in wanted]

    def edges(self, outcomes: Mapping[Edge, str], titles: Mapping[Edge, str] | None = None) -> list[dict[str, str]]:
        """Curves, each with what it has brought, and the condition of an edge that has one."""
        titles = titles or {}
        inner = zip(self.layout.paths, self.folded.inner, strict=True)
        return [
            {
                "path": path,
                "state": _brought(many, outcomes),
                "title": titles.get(many[0], "") if many[1:] == () else "",
            }
            for path, many in inner
        ]

    def _box(self, at: int, views: Mapping[int, NodeView], outcomes: Mapping[Edge, str], into: Iterable[int]) -> Box:
        members = [views[node] for node in self.folded.boxes[at]]
        x, y = self.layout.boxes[at]
        edges = [(edge, _brought(self.folded.inner[edge], outcomes)) for edge in into]
        first = members[0]
        if len(members) == 1:
            about = (first.name, first.state, first.line, first.version, first.since, first.until, first.share)
        else:
            about = _together(members)
        name, state, line, version, since, until, share = about
        room = words.WIDEST - 9 if since or until else words.WIDEST - 3
        return Box(
            *(at, first.node, len(members), first.node_id, x, y, words.fitted(name, _NAME), name, state),
            *(words.fitted(line, room), line, version, since, until, share, edges),
        )


def draw(names: int, edges: Sequence[Edge], *, folded: bool | None = None, opened: Collection[int] = ()) -> Drawing:
    """folded: None folds graphs of many nodes."""
    folds = names > MANY if folded is None else folded
    made = fold(names, edges, folded=folds, opened=opened)
    layout = place(len(made.boxes), made.edges)
    may_fold = len(fold(names, edges, folded=True).boxes) < names
    return Drawing(made, layout, may_fold)


def _together(members: Sequence[NodeView]) -> tuple[Any, ...]:
    counts = Counter(view.state for view in members)
    ended = sum(counts[state] for state in _ENDED)
    bad = counts["failed"] + counts["upstream_failed"]
    state = next(state for state in _WORST if counts[state])
    line = f"{bad} failed of {len(members)}" if bad else f"{ended} of {len(members)}"
    version = sum(view.version[0] for view in members), sum(view.version[1] for view in members)
    share = None
    if state == "defined":
        line = f"{len(members)} nodes"
    else:
        share = ended / len(members)
    return f"{members[0].name} + {len(members) - 1}", state, line, version, None, None, share


def _brought(inner: Iterable[Edge], outcomes: Mapping[Edge, str]) -> str:
    """taken, failed, untaken (its condition did not hold, or its parent was skipped), or open."""
    found = {outcomes.get(edge, "open") for edge in inner}
    if "success" in found:
        return "taken"
    if found & {"failed", "error"}:
        return "failed"
    return "open" if "open" in found else "untaken"
