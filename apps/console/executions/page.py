"""The rows of one page of the list: what is due next, above what is or was due; latest first."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from apps.console import listing, rows
from apps.console.executions.asked import Asked
from apps.console.listing import SHOWN, UPCOMING, Index
from apps.console.row_html import Row
from apps.executions import ids, selectors
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.principal import Principal

_NOT_YET = frozenset({Status.SCHEDULED, Status.PRELOADED})
_TICK = timedelta(milliseconds=1)
AHEAD_SECONDS = 0.02
"""For the nearest of what is ahead, of which there is little for the most part."""


@dataclass(frozen=True)
class Page:
    """index: of everything, where the strip of states is of everything. older: the last id; None: there is no more, or
    nobody has looked farther: then further is where the search stopped, which reached back to searched_to.
    """

    rows: list[Row]
    index: Index | None
    older: UUID | None
    executions: Sequence[Execution]
    further: UUID | None = None

    @property
    def searched_to(self) -> datetime | None:
        return None if self.further is None else ids.scheduled_at(self.further)


def read(principal: Principal, asked: Asked, *, now: datetime) -> Page:
    """At most twelve queries, however many rows, where nothing rare is sought."""
    index, stopped = None, None
    if asked.is_of_states:
        index = listing.read_index(principal, now=now, before=asked.before)
    if asked.is_open and index is not None:
        shown = index.latest_first[: SHOWN + 1]
    else:
        shown, stopped = _found(principal, asked, now)
    # What moved on since it was found, and is another's now, is left out.
    executions = [one for one in listing.read(principal, shown[:SHOWN]) if asked.finds(one, now)]
    older = shown[SHOWN - 1] if len(shown) > SHOWN else None
    further = None if older else stopped
    return Page(rows.present_all(principal, executions, now=now), index, older, executions, further)


def _found(principal: Principal, asked: Asked, now: datetime) -> tuple[list[UUID], UUID | None]:
    """Ids of up to SHOWN + 1, latest first, and where the search stopped. Of what is ahead only the nearest, so that it
    does not hide the present.
    """
    wanted, edge = asked.wanted(now), now + _TICK
    until = wanted.until or now + listing.AHEAD
    past = replace(wanted, until=min(edge, until))
    found = selectors.some_ids(principal, past, now=now, behind=asked.before, limit=SHOWN + 1)
    if asked.before is not None or until <= edge or wanted.worker_id is not None:  # a worker has what is due
        return found.rows, found.stopped
    coming = replace(wanted, since=max(edge, wanted.since or edge), until=until)
    most = max(UPCOMING, SHOWN - len(found.rows)) if _only_ahead(asked) else UPCOMING
    ahead = selectors.some_ids(principal, coming, now=now, descending=False, limit=most, seconds=AHEAD_SECONDS)
    return [*reversed(ahead.rows), *found.rows][: SHOWN + 1], found.stopped


def _only_ahead(asked: Asked) -> bool:
    """Whether what is not due yet is what is looked for."""
    return bool(asked.states and asked.states <= _NOT_YET) or asked.why is not None or asked.due == "ahead"
