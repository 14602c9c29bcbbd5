"""Occurrences: (schedule, range) → instants, and nothing else: no clock, no database.

The only code that computes a next run. Entry points: `occurrences`, `next_occurrence`, `smallest_gap`, with `Schedule`
(schedules.py), `jitter_offset` (jitter.py), `describe` (wording.py) and `TZDATA_VERSION` (zones.py) beside them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise

from apps.definitions.cron_syntax import CronExpression, parse_cron
from apps.definitions.cron_walk import WallClock, cron_instants
from apps.definitions.jitter import jitter_offset
from apps.definitions.schedule_input import EARLIEST, LATEST
from apps.definitions.schedules import Schedule
from apps.definitions.wording import describe
from apps.definitions.zones import TZDATA_VERSION

__all__ = [
    "TZDATA_VERSION",
    "Schedule",
    "describe",
    "jitter_offset",
    "next_occurrence",
    "occurrences",
    "smallest_gap",
]

_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_GAP_SPAN = timedelta(days=366 * 9)  # holds two 29 Februaries wherever it begins
_GAP_BEGIN = datetime(2026, 1, 1)  # noqa: DTZ001 - a wall-clock time; no answer depends on it


def occurrences(
    schedule: Schedule, *, after: datetime, before: datetime | None = None, limit: int | None = None
) -> Iterator[datetime]:
    """Instants (aware UTC, strictly increasing) strictly after `after` and, if given, strictly before `before`.

    At most `limit`, if given. Bounded also by the schedule's start_at (inclusive) and end_at (exclusive) and by the
    years 1970 to 8999. Lazy, and endless for most schedules unless `before` or `limit` is given. Resuming from any
    instant it returned goes on as if it had not stopped. Raises ValueError for a datetime without offset.
    """
    begin, end = max(_utc(after, "after"), EARLIEST - _TICK), LATEST
    if before is not None:
        end = min(end, _utc(before, "before"))
    if schedule.start_at is not None:
        begin = max(begin, schedule.start_at - _TICK)
    if schedule.end_at is not None:
        end = min(end, schedule.end_at)
    found = _found(schedule, begin, end) if begin < end else iter(())
    return found if limit is None else islice(found, limit)


def next_occurrence(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first occurrence strictly after `after` (aware); None if there is none."""
    return next(occurrences(schedule, after=after), None)


def smallest_gap(schedule: Schedule) -> timedelta | None:
    """The shortest time between two occurrences; None for a schedule that does not repeat.

    For cron as the wall clock shows it, over nine years: a change of offset may bring two closer on its day.
    """
    if schedule.type == "interval":
        assert schedule.every_seconds is not None
        return timedelta(seconds=schedule.every_seconds)
    if schedule.type == "cron":
        assert schedule.expression is not None
        return _cron_gap(schedule.expression)
    return None


def _found(schedule: Schedule, begin: datetime, end: datetime) -> Iterator[datetime]:
    if schedule.type == "cron":
        assert schedule.expression is not None
        for instant in cron_instants(
            parse_cron(schedule.expression),
            schedule.timezone,
            after=begin.replace(tzinfo=None),
            before=end.replace(tzinfo=None),
            dst_gap=schedule.dst_gap,
            dst_fold=schedule.dst_fold,
        ):
            yield instant.replace(tzinfo=UTC)
    elif schedule.type == "interval":
        yield from _interval(schedule, begin, end)
    elif schedule.type == "one_shot" and schedule.run_at is not None and begin < schedule.run_at < end:
        yield schedule.run_at


def _interval(schedule: Schedule, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Counted from a fixed anchor, never from the last run: lateness does not add up, and each path agrees."""
    assert schedule.every_seconds is not None
    every = timedelta(seconds=schedule.every_seconds)
    anchor = schedule.start_at or EARLIEST
    instant = anchor + ((begin - anchor) // every + 1) * every
    while instant < end:
        yield instant
        instant += every


@lru_cache(maxsize=8192)
def _cron_gap(expression: str) -> timedelta | None:
    """All its days share one set of times, so the times give the gap within a day, and days are walked only if the
    gap from the last time of a day to the first of the next could be shorter.
    """
    cron = parse_cron(expression)
    times = sorted(
        3600 * hour + 60 * minute + second
        for hour in cron.hours
        for minute in cron.minutes
        for second in cron.seconds or (0,)
    )
    within = min((later - earlier for earlier, later in pairwise(times)), default=None)
    over_midnight = 86_400 - times[-1] + times[0]
    candidates = [] if within is None else [timedelta(seconds=within)]
    if within is None or over_midnight < within:
        if days := _closest_days(cron):
            candidates.append((days - 1) * _DAY + timedelta(seconds=over_midnight))
    return min(candidates, default=None)


def _closest_days(cron: CronExpression) -> int | None:
    """The fewest days from one matching date to the next."""
    walls = WallClock(cron)
    fewest = None
    day = walls.at_or_after(_GAP_BEGIN)
    while day is not None and day < _GAP_BEGIN + _GAP_SPAN and fewest != 1:
        following = walls.at_or_after((day + _DAY).replace(hour=0, minute=0, second=0))
        if following is not None:
            apart = (following.date() - day.date()).days
            fewest = apart if fewest is None else min(fewest, apart)
        day = following
    return fewest


def _utc(moment: datetime, name: str) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError(f"{name} needs an offset from UTC, got {moment!r}")
    return moment.astimezone(UTC)
