"""A search through executions that ends: at a full page, at the end of what there is, or when its time is spent.

It goes along the ids, which is the order of time, window by window, each longer than the one before, so that a page
that is soon full opens few partitions. A window is looked at in pieces of so many rows that the next one still fits
into the time that is left, whatever the filters find. Who asked is told how far it went, and can go on from there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from time import monotonic
from typing import Any, Generic, TypeVar
from uuid import UUID

from apps.executions import candidates, ids, pages
from apps.executions.candidates import ALL, OF_TASKS, Source
from apps.executions.pages import Piece, Stretch

PAGE_SECONDS = 0.08
"""What the search of a page may take: the rest of the page wants some of its 200 ms, too."""
SIZES = (2_000, 10_000, 40_000)
"""Rows that one statement looks at."""
LEAST = 200
_FIRST_WINDOW = timedelta(days=1)
_GROWTH, _GROWTH_OF_FEW = 3, 40
_FEW_TASKS = 50
_TICK = timedelta(milliseconds=1)
_AFTER_A_WORKER = timedelta(hours=1)
"""What a worker had was due while it lived: so long after it was last heard of, by any clock, nothing is its."""

T = TypeVar("T")
Window = tuple[datetime, datetime]


@dataclass(frozen=True)
class Found(Generic[T]):
    """stopped: the id behind which the search would go on, its time being spent; None: the page is full, or all has
    been looked at.
    """

    rows: list[T]
    stopped: UUID | None = None

    @property
    def searched_to(self) -> datetime | None:
        """The scheduled_at that a search has come to which stopped."""
        return None if self.stopped is None else ids.scheduled_at(self.stopped)


Reader = Callable[..., Piece[T]]
"""What reads a stretch: pages.page or pages.page_of_ids."""


@dataclass(frozen=True)
class Search:
    """given: values of filters by their names (pages.FILTERS, and `active` and `dead`, which are sources alone).

    since, until: of scheduled_at. now: where a descending search without `behind` has its first window. behind: the
    last id of the page before.
    """

    tenant_id: UUID
    given: Mapping[str, Any]
    since: datetime
    until: datetime
    now: datetime
    behind: UUID | None
    descending: bool
    source: Source = ALL

    def run(self, read: Reader[T], *, limit: int | None, seconds: float | None) -> Found[T]:
        """Up to `limit` rows (None: all). seconds: what it may take, about; None: as long as it takes."""
        pace = _Pace(seconds)
        plain = replace(self, source=candidates.chosen(self.given))
        if "worker" in self.given:
            standing = pages.worker_standing(self.given["worker"], tenant_id=self.tenant_id)
            if standing is None:
                return Found([])
            plain = replace(plain, until=min(self.until, (standing.ended_at or self.now) + _AFTER_A_WORKER))
        if "named" not in self.given or plain.source is not ALL:
            return plain._walk(read, pace, limit)
        # A name that many have is found at once; of a name that few have, each task has an index to be found by.
        if limit is not None:
            for window in plain._windows()[:1]:
                nearest = plain._piece(read, pace, window, limit, self.behind)
                if len(nearest.rows) == limit:
                    return Found(nearest.rows)
        tasks = pages.tasks_named(self.given["named"], tenant_id=self.tenant_id, most=_FEW_TASKS + 1)
        if not tasks:
            return Found([])
        if len(tasks) <= _FEW_TASKS:
            plain = replace(plain, given={**self.given, "tasks": tasks}, source=OF_TASKS)
        else:
            others = {name: value for name, value in self.given.items() if name != "named"}
            plain = replace(plain, given={**others, "named_many": self.given["named"]})
        return plain._walk(read, pace, limit)

    def _walk(self, read: Reader[T], pace: "_Pace", limit: int | None) -> Found[T]:
        found: list[T] = []
        windows = self._windows()
        behind = self.behind
        while windows:
            piece = self._piece(read, pace, windows[0], None if limit is None else limit - len(found), behind)
            found += piece.rows
            behind = piece.edge
            if limit is not None and len(found) >= limit:
                return Found(found)
            if behind is None:  # the next window is begun in any case: there are few
                since, until = windows.pop(0)
                behind = ids.lowest(since if self.descending else until)
            elif pace.is_spent:
                return Found(found, behind)
        return Found(found)

    def _piece(self, read: Reader[T], pace: "_Pace", window: Window, left: int | None, behind: UUID | None) -> Piece[T]:
        stretch = self._stretch(window, behind, pace.size)
        began = monotonic()
        piece = read(stretch, limit=left)
        pace.took(monotonic() - began, was_whole=piece.edge is not None)
        return piece

    def _stretch(self, window: Window, behind: UUID | None, size: int) -> Stretch:
        values: dict[str, Any] = {**self.given, "tenant": self.tenant_id}
        if "named_many" in values:
            values["named"] = values["named_many"]
        if behind is not None:
            values["below" if self.descending else "above"] = behind
        filters = [name for name in self.given if name in pages.FILTERS and name != self.source.answers]
        bounded = (filters or self.source.table or self.source.merged) and not self.source.whole
        several = self.source.share * len(self.given.get("tasks", "-"))
        return Stretch(
            source=self.source,
            filters=filters,
            values=values,
            since=window[0],
            until=window[1],
            descending=self.descending,
            size=max(LEAST, size // several) if bounded else None,
        )

    def _windows(self) -> list[Window]:
        """In the order of the page; few and long where an index has only what is looked for."""
        growth = _GROWTH if self.source is ALL else _GROWTH_OF_FEW
        since, until, span = self.since, self.until, _FIRST_WINDOW
        begin = None if self.behind is None else ids.scheduled_at(self.behind)
        found: list[Window] = []
        if not self.descending:
            since = since if begin is None else max(since, begin)
            while since < until:
                found.append((since, min(since + span, until)))
                since, span = since + span, span * growth
            return found
        until = until if begin is None else min(until, begin + _TICK)
        end = max(since, min(until, self.now) - span)
        while until > since:
            found.append((end, until))
            span = min(span * growth, end - since)
            until, end = end, end - span
        return found


class _Pace:
    """How many rows the next piece may look at, by what the one before took."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else monotonic() + seconds
        self._each = 0.0
        self.size = SIZES[0] if seconds is not None else SIZES[-1]
        self.is_spent = False

    def took(self, seconds: float, *, was_whole: bool) -> None:
        """A piece of this size has taken so long; one that was not whole came to the end of its window before."""
        if self._end is None:
            return
        if was_whole:
            self._each = seconds / self.size
        left = self._end - monotonic()
        fitting = [size for size in SIZES if size * self._each <= left]
        self.is_spent = not fitting
        largest = fitting[-1] if fitting else SIZES[0]
        self.size = largest if was_whole else min(self.size, largest)
