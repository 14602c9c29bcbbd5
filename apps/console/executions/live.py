"""What the executions page is sent: rows that changed, and the strip of counts above them."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.console import listing, rows, summary
from apps.executions.models import Execution
from apps.executions.states import PENDING, Status
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

LOOK_SECONDS = 2.0
_NEAR = timedelta(seconds=1)
"""Work is dispatched a moment before it is due."""
_MOST_ROWS = 300
"""In one message: more than a page holds (static/console/live.js). The latest come, and what is far ahead last."""


@dataclass(frozen=True)
class Update:
    """rows: messages as rows.message makes them. index: None when only rows changed. found: what the rows are of, so
    that each page can tell which it would show.
    """

    rows: list[dict[str, Any]]
    index: listing.Index | None
    tenant_slug: str
    now: datetime
    found: Mapping[str, Execution] = field(default_factory=dict)
    _summaries: dict[Status | None, str] = field(default_factory=dict)
    _messages: dict[Hashable, dict[str, Any]] = field(default_factory=dict)

    def summary(self, chosen: Status | None) -> str | None:
        """The strip's HTML, made once for all viewers of the same page; None when there is no index."""
        if self.index is not None and chosen not in self._summaries:
            self._summaries[chosen] = summary.render(self.index, tenant_slug=self.tenant_slug, chosen=chosen)
        return self._summaries.get(chosen)

    def message(self, key: Hashable, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The same one for all pages of the same `key`."""
        if key not in self._messages:
            self._messages[key] = make()
        return self._messages[key]


class ExecutionsSource:
    """One tenant's executions. Looking by itself every two seconds also lets due times come near."""

    look_seconds = patience_seconds = LOOK_SECONDS
    minds_gaps = False  # where so much changes, what matters is seen at the next look

    def __init__(self, principal: Principal, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._clock = clock
        self._known: dict[UUID, int] | None = None
        self._said: dict[UUID, str] = {}
        """Why those wait that are due: it changes while their rows do not."""
        self._horizon = b""

    def wants(self, identities: set[UUID]) -> set[UUID]:
        return identities

    def update(self, changed: set[UUID], *, looking: bool) -> Update | None:
        now = self._clock.now()
        index, waiting = None, set[UUID]()
        if looking:
            index = listing.read_index(self._principal, now=now)
            changed = changed | self._unseen(index)
            waiting = {e.id for e in index.newest[: listing.SHOWN] if Status(e.status) in PENDING} - changed
        if index is not None and index.horizon is not None:
            self._horizon = index.horizon
        # What is due later than all that is shown comes near soon enough; until then no page adds it.
        edge = max(self._horizon, listing.first_id(now + _NEAR).bytes)
        wanted = sorted(changed | waiting, key=lambda one: (one.bytes <= edge, one.bytes), reverse=True)[:_MOST_ROWS]
        executions = listing.read(self._principal, wanted)
        presented = rows.present_all(self._principal, executions, now=now)
        slug = self._principal.tenant_slug
        told = [row for row in presented if row.id in changed or self._says_other(row)]
        messages = [rows.message(row, slug, insert=row.id.bytes <= edge) for row in told]
        if self._known is not None:
            self._known |= {row.id: row.version for row in presented if row.id.bytes <= edge}
        if looking:
            self._said = {row.id: row.reason.text for row in presented if row.id in waiting and row.reason is not None}
        found = {str(row.id): row for row in executions}
        return Update(messages, index, slug, now, found) if messages or index else None

    def _says_other(self, row: rows.Row) -> bool:
        return row.reason is not None and self._said.get(row.id) != row.reason.text

    def _unseen(self, index: listing.Index) -> set[UUID]:
        """What the index shows in another version than was seen before; nothing at the first look."""
        entries = [*index.upcoming, *index.newest]
        known, self._known = self._known, {entry.id: entry.version for entry in entries}
        if known is None:
            return set()
        return {entry.id for entry in entries[: 3 * listing.SHOWN] if known.get(entry.id) != entry.version}
