"""Time zones, always from the pinned tzdata package.

`zoneinfo.ZoneInfo(name)` prefers the system's files, so two machines could disagree about a fire time; here the
package's files are read directly. Everything that turns a schedule into instants takes its zone from here.
"""

import difflib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib import resources
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]  # a package of data files; it has no types to speak of

from chronoweb.runtime.errors import InvalidInput

TZDATA_VERSION: str = tzdata.IANA_VERSION

_SECOND = timedelta(seconds=1)
_PROBE = timedelta(days=1)  # no zone has changed its offset and changed it back within a day


@cache
def zone_names() -> frozenset[str]:
    """Every name that is accepted, spelt exactly so."""
    return frozenset((resources.files("tzdata") / "zones").read_text(encoding="ascii").split())


@cache
def zone(name: str) -> ZoneInfo:
    """The zone of that name. Raises InvalidInput at "/timezone" with close names.

    The list of names decides before any file is opened, so a name cannot lead out of the package.
    """
    if not isinstance(name, str) or name not in zone_names():
        close = close_names(name) if isinstance(name, str) else []
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise InvalidInput(
            "/timezone",
            name,
            f"{_shown(name)} is not a time zone of tzdata {TZDATA_VERSION}{hint}",
            legal=close or "a name such as Europe/Paris, America/New_York or UTC",
        )
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def close_names(name: str, count: int = 3) -> list[str]:
    """Names that a person who typed `name` may have meant: another case, a city alone, a slip."""
    typed = name[:64].strip().lower().replace(" ", "_")
    by_lower = {known.lower(): known for known in sorted(zone_names())}
    if typed in by_lower:
        return [by_lower[typed]]
    cities = [known for lower, known in by_lower.items() if typed and lower.rpartition("/")[2] == typed]
    slips = [by_lower[lower] for lower in difflib.get_close_matches(typed, by_lower, n=count, cutoff=0.75)]
    return list(dict.fromkeys(cities + slips))[:count]


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


@dataclass(frozen=True)
class Stretch:
    """Instants from `start` (inclusive) to `end` (exclusive), both naive UTC, with one offset from UTC.

    offset_before is the offset one second before `start`: equal to `offset` where a stretch only continues one of
    the year before, smaller where the clock went forward at `start` (a gap), larger where it went back (a fold).
    """

    start: datetime
    end: datetime
    offset: timedelta
    offset_before: timedelta


@lru_cache(maxsize=16384)
def stretches(name: str, year: int) -> tuple[Stretch, ...]:
    """A UTC year of a zone, cut where the offset changes; no stretch is longer than the year."""
    tz = zone(name)
    first, end = datetime(year, 1, 1), datetime(year + 1, 1, 1)  # noqa: DTZ001 - naive UTC
    starts = [first]
    low = first
    while low < end:
        high = min(low + _PROBE, end - _SECOND)
        while offset_at(tz, low) != offset_at(tz, high):
            low = _first_change(tz, low, high)
            starts.append(low)
        low = high + _SECOND if high == end - _SECOND else high
    return tuple(
        Stretch(start, stop, offset_at(tz, start), offset_at(tz, start - _SECOND))
        for start, stop in zip(starts, [*starts[1:], end], strict=True)
    )


def offset_at(tz: ZoneInfo, instant: datetime) -> timedelta:
    """The offset from UTC at a naive UTC instant."""
    offset = instant.replace(tzinfo=UTC).astimezone(tz).utcoffset()
    assert offset is not None
    return offset


def _first_change(tz: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """The second in (low, high] at which the offset of `low` ends."""
    before = offset_at(tz, low)
    while high - low > _SECOND:
        middle = low + (high - low) // 2 // _SECOND * _SECOND
        if offset_at(tz, middle) == before:
            low = middle
        else:
            high = middle
    return high


def passes(tz: ZoneInfo, wall: datetime) -> tuple[timedelta, timedelta]:
    """Offsets of a naive wall-clock time in its first and its last pass: equal unless it is ambiguous or skipped."""
    local = wall.replace(tzinfo=tz)
    first, last = local.replace(fold=0).utcoffset(), local.replace(fold=1).utcoffset()
    assert first is not None
    assert last is not None
    return first, last


def instant_of(tz: ZoneInfo, wall: datetime, *, last_pass: bool = False) -> datetime:
    """The aware UTC instant of one naive wall-clock time.

    In a gap: the first instant after it. In a fold: the first pass, or the last one if asked for.
    """
    first, last = passes(tz, wall)
    if first >= last:  # unique, or in a fold
        return (wall - (last if last_pass else first)).replace(tzinfo=UTC)
    # Read with the offset after the gap, a skipped time lies before the change; with the one before, behind it.
    return _first_change(tz, _whole_second(wall - last), _whole_second(wall - first)).replace(tzinfo=UTC)


def _whole_second(moment: datetime) -> datetime:
    return moment.replace(microsecond=0)
