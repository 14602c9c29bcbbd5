"""A run's page: its graph, and what its socket and its poll send. The same boxes everywhere."""

from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qs
from uuid import UUID

from apps.console import hub
from apps.console.dags import words
from apps.console.dags.drawing import Drawing, draw
from apps.console.dags.run_state import RunSource, RunUpdate
from apps.console.sockets import LiveConsumer
from apps.executions.dags import selectors
from apps.executions.dags.models import DagRun, TaskDependency
from apps.executions.dags.rows import NO_ITEM

_MOST_OPENED = 50


@dataclass(frozen=True)
class Folding:
    """What the URL says of folding: `fold=on|off`, `open=<first node>` as often as wanted."""

    folded: bool | None = None
    opened: frozenset[int] = frozenset()

    @classmethod
    def of(cls, query: str) -> "Folding":
        found = parse_qs(query)
        opened = [text for text in found.get("open", []) if text.isascii() and text.isdigit() and len(text) < 7]
        folded = {"on": True, "off": False}.get(found.get("fold", [""])[0])
        return cls(folded, frozenset(map(int, opened[:_MOST_OPENED])))


def drawing_of(source: RunSource, folding: Folding) -> Drawing:
    """Where the boxes of a run's graph stand."""
    return draw(source.run.nodes, source.edges, folded=folding.folded, opened=folding.opened)


def conditions_of(run: DagRun) -> dict[tuple[int, int], str]:
    """In words, for the edges that have a condition; one query."""
    rows = TaskDependency.objects.filter(
        run_id=run.id, scheduled_at=run.scheduled_at, item=NO_ITEM, condition__isnull=False
    )
    found = rows.values_list("parent", "child", "condition")
    return {(parent, child): words.condition(condition) for parent, child, condition in found if condition}


def snapshot(source: RunSource, folding: Folding) -> dict[str, Any]:
    """All that the page shows, as a message. Raises NotFound."""
    return {"type": "snapshot", **message(drawing_of(source, folding), source.everything())}


def _drawn(source: RunSource, folding: Folding) -> tuple[Drawing, dict[str, Any]]:
    drawing = drawing_of(source, folding)
    return drawing, {"type": "snapshot", **message(drawing, source.everything())}


def message(drawing: Drawing, update: RunUpdate, only: set[int] | None = None) -> dict[str, Any]:
    """Boxes of an update (all, or some), with its head."""
    boxes = drawing.boxes(update.views, update.outcomes, only)
    return {"version": update.run_version, "head": update.head, "boxes": [box.message() for box in boxes]}


class RunConsumer(LiveConsumer[RunUpdate]):
    """One run's socket: `snapshot` and `boxes`, both {"version", "head", "boxes": [Box.message()]}."""

    def _source(self) -> RunSource:
        return RunSource(self.principal, self.scope["url_route"]["kwargs"]["run_id"])

    def check(self) -> None:
        selectors.run(self.principal, self.scope["url_route"]["kwargs"]["run_id"])

    def joined(self) -> Any:
        identity: UUID = self.scope["url_route"]["kwargs"]["run_id"]
        tenant = self.principal.tenant_id
        return hub.joined(("run", tenant, identity), tenant, self._source)

    async def snapshot(self, hub: hub.Hub[RunUpdate]) -> dict[str, Any]:
        source = hub.source
        assert isinstance(source, RunSource)
        self._folding = Folding.of(self.query)
        # In the hub's thread, so that no reading changes it meanwhile.
        self._drawing, message = await hub.shared(self._folding, partial(_drawn, source, self._folding))
        self._box_of = self._drawing.box_of
        return message

    def message(self, update: RunUpdate) -> dict[str, Any] | None:
        if self._folding not in update.made:
            changed = {self._box_of[node] for node in update.changed}
            told = changed or update.head is not None
            sent = {"type": "boxes", **message(self._drawing, update, changed)} if told else None
            update.made[self._folding] = sent
        return update.made[self._folding]
