"""A tenant in figures, cheap however much there is: samples along indexes, and estimates that say so."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from json import loads
from math import ceil, log2
from uuid import UUID

from django.db import connection as django_connection

from apps.executions import ids
from apps.executions.states import ExecutionClass, Status
from apps.executions.store import named_sql
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres

SAMPLE = 2000
SECONDS = 3600
SPANS = 24
ON_TIME_MS = 1000
"""What begins within a second of when it could is on time."""
MOST_COUNTED = 5000
"""Executions of a day that are counted one by one; of more, a part of the day's pages is read."""
MOST_PAGES = 512
MOST_PLANNED = 5000


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the time that the pulse is of: how many began, and the p99 of how late, ms; None: none began."""

    begun: int = 0
    late: float | None = None


@dataclass(frozen=True, slots=True)
class Pulse:
    """sampled: executions that were due last. span: since when, in seconds. full: there were more in the last hour.

    late: p50, p95 and p99 in ms; None while nothing began. per_second: ends, in the last minute. waiting: due and not
    begun. succeeded, dead: how they ended; what was cancelled or skipped is neither.
    """

    sampled: int
    span: float
    full: bool
    begun: int
    on_time: int
    late: tuple[float, float, float] | None
    per_second: float
    waiting: dict[ExecutionClass, int]
    spans: list[Span]
    succeeded: int
    dead: int

    @property
    def share_on_time(self) -> float | None:
        """0 to 1."""
        return self.on_time / self.begun if self.begun else None

    @property
    def share_succeeded(self) -> float | None:
        """0 to 1, of those that have come to an end of their own."""
        ended = self.succeeded + self.dead
        return self.succeeded / ended if ended else None


def pulse(principal: Principal, *, now: datetime, frontier: UUID | None = None) -> Pulse:
    """One query of at most SAMPLE rows, twice as many behind a backlog.

    frontier: the id that goes next where some wait. Behind it lie those that began last, and of a long backlog the
    newest that were due are none of them.
    """
    edge = ids.lowest(now + timedelta(milliseconds=1))
    parameters = {
        "frontier": frontier or edge,
        "since": _begin(now, frontier),
        "tenant": principal.tenant_id,
        "now": now,
        "edge": edge,
        "seconds": SECONDS,
        "sample": SAMPLE,
        "spans": SPANS,
        "on_time_ms": ON_TIME_MS,
    }
    row = postgres.raw(django_connection).execute(named_sql("overview_pulse"), parameters).fetchone()
    assert row is not None
    sampled, span, begun, on_time, late, ended, waiting, parts, succeeded, dead = row
    by_part = {part: Span(count, ms) for part, count, ms in loads(parts)}
    return Pulse(
        sampled=sampled,
        span=span,
        full=sampled >= SAMPLE,
        begun=begun,
        on_time=on_time,
        late=tuple(late) if late else None,
        per_second=ended / min(60.0, span),
        waiting={one: waiting[int(one)] for one in ExecutionClass},
        spans=[by_part.get(part, Span()) for part in range(SPANS)],
        succeeded=succeeded,
        dead=dead,
    )


def _begin(now: datetime, frontier: UUID | None) -> datetime:
    """Since when those are looked at that began last: an hour before what goes next was due."""
    due = now if frontier is None else min(now, ids.from_ms(ids.milliseconds(frontier.bytes)))
    return due - timedelta(seconds=SECONDS)


@dataclass(frozen=True, slots=True)
class Day:
    """Executions of a day (UTC) by state. estimated: those counts that stand for more than was counted."""

    counts: dict[Status, int]
    estimated: frozenset[Status] = field(default_factory=frozenset)

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def day(principal: Principal, *, now: datetime) -> Day:
    """Four queries at most; about MOST_PAGES pages are read. A day without a partition is empty."""
    connection = postgres.raw(django_connection)
    number = ids.day_of(now)
    if not _has(number):
        return Day({})
    tenant = {"tenant": principal.tenant_id}
    few = connection.execute(named_sql("overview_few", number), tenant | {"most": MOST_COUNTED + 1}).fetchall()
    if sum(count for _, count in few) <= MOST_COUNTED:
        return Day({Status(status): count for status, count in few})
    share = _share(number)
    rows = connection.execute(named_sql("overview_sample", number), tenant | {"percent": 100 * share}).fetchall()
    counts = {Status(status): round(count / share) for status, count in rows}
    estimated = set() if share == 1 else set(counts)
    counts |= _exact(principal, now)
    estimated -= {Status.DEAD_LETTER}
    return Day({status: count for status, count in counts.items() if count}, frozenset(estimated))


def _has(number: int) -> bool:
    row = postgres.raw(django_connection).execute(named_sql("overview_has_day", number)).fetchone()
    return row == (True,)


def _share(number: int) -> float:
    """Which part of a day's pages is read: a power of a half, so that it stays the same for long."""
    row = postgres.raw(django_connection).execute(named_sql("overview_pages", number)).fetchone()
    assert row is not None
    return 0.5 ** max(0, ceil(log2(max(row[0], 1) / MOST_PAGES)))


def _exact(principal: Principal, now: datetime) -> dict[Status, int]:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    parameters = {
        "tenant": principal.tenant_id,
        "first": ids.lowest(midnight),
        "last": ids.lowest(midnight + timedelta(days=1)),
        "most": MOST_COUNTED,
    }
    row = postgres.raw(django_connection).execute(named_sql("overview_exact"), parameters).fetchone()
    assert row is not None
    return {Status.DEAD_LETTER: row[0]} if row[0] < MOST_COUNTED else {}


@dataclass(frozen=True, slots=True)
class Planned:
    """By the minute from now on (0 to 59): as planned, and with jitter. estimated: from a part of what there is."""

    nominal: Counter[int]
    shifted: Counter[int]
    estimated: bool


def planned(principal: Principal, *, now: datetime, due: datetime | None = None) -> Planned:
    """What the ledger has of the hour from `now` on: of up to MOST_PLANNED rows each, of more a part of the pages;
    seven queries at most. due: what could have begun by then is left out: it waits, and is no plan. None: `now`.
    """
    first = ids.lowest(now)
    parameters = {"tenant": principal.tenant_id, "now": now, "due": due or now, "first": first, "most": MOST_PLANNED}
    connection = postgres.raw(django_connection)
    rows = connection.execute(named_sql("overview_planned"), parameters).fetchall()
    found = Planned(Counter(), Counter(), sum(count for *_, count in rows) == MOST_PLANNED)
    if not found.estimated:
        _add(found, rows, 1.0)
        return found
    for number in sorted({ids.day_of(now), ids.day_of(now + timedelta(hours=1))}):
        if _has(number):
            share = _share(number)
            sample = parameters | {"percent": 100 * share}
            _add(found, connection.execute(named_sql("overview_planned_sample", number), sample).fetchall(), share)
    return found


def _add(found: Planned, rows: Iterable[tuple[int, int, int]], share: float) -> None:
    for planned_for, runs, count in rows:
        found.nominal[planned_for] += round(count / share)
        found.shifted[runs] += round(count / share)
