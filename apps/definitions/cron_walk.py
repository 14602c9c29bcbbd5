"""From wall-clock times, which croniter walks without a zone, to instants.

A zone is a sequence of stretches of constant offset. Inside a stretch a wall-clock time is an instant; what happens
at its edges is policy:

- Where the clock goes forward, wall-clock times are skipped. A fixed-time schedule that names some of them fires once
  at the first instant after the gap (`shift`) or not at all (`skip`).
- Where it goes back, wall-clock times come twice. A fixed-time schedule fires in the `first` pass, the `last`, or
  `both`.
- A schedule that follows the clock (CronExpression.follows_clock) fires at each real instant whose wall-clock time
  matches: never for a skipped one, twice for a repeated one.

What a stretch yields depends on nothing but the stretch, so every way of asking gives the same instants.
"""

import copy
from collections.abc import Iterator
from datetime import MAXYEAR, datetime, timedelta
from functools import lru_cache

from croniter import CroniterBadDateError, croniter

from apps.definitions.cron_syntax import CronExpression, parse_cron
from apps.definitions.zones import Stretch, passes, stretches, zone

# Every calendar pattern that exists returns within 40 years (29 February on a given weekday, around 2100).
HORIZON_YEARS = 50
_HORIZON = timedelta(days=366 * HORIZON_YEARS)
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a wall-clock time


def cron_instants(
    expression: CronExpression, zone_name: str, *, after: datetime, before: datetime, dst_gap: str, dst_fold: str
) -> Iterator[datetime]:
    """Instants in (after, before), strictly increasing; these and the results are naive UTC.

    Ends when 50 years bring none, so a schedule that never comes again costs a bounded search.
    """
    tz = zone(zone_name)
    walls = WallClock(expression)
    fixed = not expression.follows_clock
    give_up = after + _HORIZON
    for stretch in _stretches_from(zone_name, after):
        if stretch.start >= before or stretch.start > give_up:
            return
        wall = max(stretch.start, _next_second(after)) + stretch.offset
        if fixed and dst_gap == "shift" and stretch.start > after and walls.any_in(*_gap(stretch)):
            yield stretch.start
            wall += _SECOND
        wall_end = stretch.end + stretch.offset
        while (match := walls.at_or_after(wall)) is not None and match < wall_end:
            instant = match - stretch.offset
            if instant >= before:
                return
            if not fixed or _counts(passes(tz, match), stretch.offset, dst_fold):
                yield instant
                give_up = instant + _HORIZON
            wall = match + _SECOND


def _stretches_from(zone_name: str, after: datetime) -> Iterator[Stretch]:
    """The stretch that holds `after`, and those that follow it."""
    for year in range(after.year, MAXYEAR):
        for stretch in stretches(zone_name, year):
            if stretch.end > after:
                yield stretch


def _gap(stretch: Stretch) -> tuple[datetime, datetime]:
    """The wall-clock times skipped where the stretch begins: from (inclusive), to (exclusive); empty if none."""
    return stretch.start + stretch.offset_before, stretch.start + stretch.offset


def _counts(both: tuple[timedelta, timedelta], offset: timedelta, dst_fold: str) -> bool:
    """Whether a fixed time counts at `offset`, given its offsets in the first and the last pass."""
    first, last = both
    return first <= last or dst_fold == "both" or offset == (first if dst_fold == "first" else last)


def _next_second(moment: datetime) -> datetime:
    """The first whole second strictly after."""
    return moment.replace(microsecond=0) + _SECOND


class WallClock:
    """The wall-clock times of an expression, in order, without any zone."""

    def __init__(self, expression: CronExpression) -> None:
        self._walks = [_Walk(template) for template in _templates(expression.text)]

    def at_or_after(self, wall: datetime) -> datetime | None:
        """The first match at or after `wall` (a naive whole second); None if 50 years bring none."""
        return min((match for walk in self._walks if (match := walk.at_or_after(wall)) is not None), default=None)

    def any_in(self, low: datetime, high: datetime) -> bool:
        """Whether a match lies in [low, high)."""
        return low < high and (match := self.at_or_after(low)) is not None and match < high


class _Walk:
    """One croniter expression; remembers its last answer, since sparse schedules are asked stretch by stretch."""

    def __init__(self, template: croniter) -> None:
        self._croniter = copy.copy(template)  # it keeps its place in itself; parsing is the dear part
        self._asked: datetime | None = None
        self._match: datetime | None = None

    def at_or_after(self, wall: datetime) -> datetime | None:
        remembered = self._asked is not None and self._asked <= wall
        if not (remembered and (self._match is None or wall <= self._match)):
            self._asked, self._match = wall, self._search(wall)
        return self._match

    def _search(self, wall: datetime) -> datetime | None:
        try:
            match: datetime = self._croniter.get_next(datetime, start_time=wall - _SECOND)
        except (CroniterBadDateError, OverflowError, ValueError):  # none in 50 years, or past the last year
            return None
        return match


@lru_cache(maxsize=8192)
def _templates(text: str) -> tuple[croniter, ...]:
    """The walks of an expression that ever match: one that never does would search 50 years at each question."""
    expression = parse_cron(text)
    templates = []
    for walk in expression.walks:
        template = croniter(
            walk,
            _EPOCH,
            ret_type=datetime,
            day_or=False,  # each walk is an intersection; the union is ours
            max_years_between_matches=HORIZON_YEARS,
            second_at_beginning=True,
        )
        if _Walk(template).at_or_after(_EPOCH) is not None:
            templates.append(template)
    return tuple(templates)
