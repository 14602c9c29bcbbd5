"""Occurrences against a matcher that tries every minute, and against themselves on other paths.

The matcher shares nothing with the code: expressions are drawn together with the values that they mean, and time is
tried minute by minute (day by day for calendars).
"""

import calendar
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.definitions.occurrences import Schedule, next_occurrence, occurrences
from apps.definitions.zones import zone
from chronoweb.runtime.errors import InvalidInputs

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much]

# (zone, a moment shortly before a change of its offset), and two without any.
EDGES = [
    ("America/New_York", datetime(2026, 3, 8, 1, 17, 30, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, 0, 0, tzinfo=UTC)),
    ("Europe/London", datetime(2026, 10, 24, 20, 0, tzinfo=UTC)),
    ("Europe/Dublin", datetime(2026, 3, 28, 22, 5, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, 9, 0, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 3, 9, 0, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 23, 15, 0, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 10, 29, 15, 0, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2026, 3, 28, 20, 0, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2026, 10, 24, 20, 0, tzinfo=UTC)),
    ("Pacific/Chatham", datetime(2026, 9, 26, 9, 0, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 29, 20, 0, tzinfo=UTC)),
    ("Pacific/Kwajalein", datetime(1993, 8, 20, 2, 0, tzinfo=UTC)),
    ("Asia/Pyongyang", datetime(2015, 8, 14, 10, 0, tzinfo=UTC)),
    ("America/Caracas", datetime(2007, 12, 9, 0, 0, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2025, 2, 22, 20, 0, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2025, 12, 31, 10, 0, tzinfo=UTC)),
    ("UTC", datetime(2024, 2, 28, 12, 0, tzinfo=UTC)),
]


@dataclass(frozen=True)
class Drawn:
    """The text of a field, the values that it means, and whether it begins with a star."""

    text: str
    values: frozenset[int]

    @property
    def starred(self) -> bool:
        return self.text.startswith("*")


@st.composite
def field(draw: st.DrawFn, low: int, high: int) -> Drawn:
    form = draw(st.sampled_from(["*", "*/n", "a", "a-b", "a-b/n", "a/n", "list"]))
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, (high - low + 1) // 2))
    if form == "*":
        return Drawn("*", frozenset(range(low, high + 1)))
    if form == "*/n":
        return Drawn(f"*/{step}", frozenset(range(low, high + 1, step)))
    if form == "a-b":
        return Drawn(f"{first}-{last}", frozenset(range(first, last + 1)))
    if form == "a-b/n":
        return Drawn(f"{first}-{last}/{step}", frozenset(range(first, last + 1, step)))
    if form == "a/n":
        return Drawn(f"{first}/{step}", frozenset(range(first, high + 1, step)))
    values = [first] if form == "a" else draw(st.lists(st.integers(low, high), min_size=2, max_size=5))
    return Drawn(",".join(f"{value:02}" for value in values), frozenset(values))


@dataclass(frozen=True)
class Expression:
    minute: Drawn
    hour: Drawn
    day: Drawn
    month: Drawn
    weekday: Drawn

    @property
    def text(self) -> str:
        return " ".join(part.text for part in (self.minute, self.hour, self.day, self.month, self.weekday))

    @property
    def follows_clock(self) -> bool:
        return self.minute.starred or self.hour.starred

    def matches(self, wall: datetime) -> bool:
        on_day, on_weekday = wall.day in self.day.values, wall.isoweekday() % 7 in self.weekday.values
        either = on_day or on_weekday
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.month in self.month.values
            and ((on_day and on_weekday) if self.day.starred or self.weekday.starred else either)
        )


# Hours at which clocks change, named outright, so that fixed times meet gaps and folds often.
small_hours = st.lists(st.integers(0, 4), min_size=1, max_size=3).map(
    lambda hours: Drawn(",".join(map(str, hours)), frozenset(hours))
)
star = Drawn("*", frozenset(range(32)))
expressions = st.builds(
    Expression,
    minute=field(0, 59),
    hour=field(0, 23) | small_hours,
    day=st.just(star) | field(1, 31),
    month=st.just(star) | field(1, 12),
    weekday=st.just(star) | field(0, 6),
)
fold_of = st.sampled_from(["first", "last", "both"])
gap_of = st.sampled_from(["shift", "skip"])


def try_every_minute(
    expression: Expression, tz: ZoneInfo, after: datetime, before: datetime, gap: str, fold: str
) -> list[datetime]:
    found = set()
    if expression.follows_clock:
        instant = after.replace(second=0, microsecond=0)
        while instant < before:
            if expression.matches(instant.astimezone(tz).replace(tzinfo=None)):
                found.add(instant)
            instant += MINUTE
    else:
        wall = after.replace(second=0, microsecond=0, tzinfo=None) - 2 * DAY
        while wall < before.replace(tzinfo=None) + 2 * DAY:
            if expression.matches(wall):
                found.update(instants_of(wall, tz, gap, fold))
            wall += MINUTE
    return sorted(instant for instant in found if after < instant < before)


def instants_of(wall: datetime, tz: ZoneInfo, gap: str, fold: str) -> list[datetime]:
    first, last = (wall.replace(tzinfo=tz, fold=pass_).astimezone(UTC) for pass_ in (0, 1))
    if first == last:
        return [first]
    if first < last:
        return {"first": [first], "last": [last], "both": [first, last]}[fold]
    if gap == "skip":
        return []
    instant = last  # read with the offset after the gap, hence before it
    while instant.astimezone(tz).replace(tzinfo=None) < wall:
        instant += MINUTE
    return [instant]


def parsed(expression: Expression, zone_name: str, gap: str, fold: str) -> Schedule | None:
    try:
        return Schedule.parse(
            {
                "type": "cron",
                "expression": expression.text,
                "timezone": zone_name,
                "dst_gap": gap,
                "dst_fold": fold,
            }
        )
    except InvalidInputs as error:
        assert "never fires" in str(error)  # noqa: PT017 - the only refusal that a drawn expression may meet
        return None


@settings(max_examples=250, deadline=None, suppress_health_check=QUIET)
@given(expressions, st.sampled_from(EDGES), gap_of, fold_of)
def test_the_same_as_trying_every_minute(
    expression: Expression, edge: tuple[str, datetime], gap: str, fold: str
) -> None:
    zone_name, after = edge
    before = after + timedelta(hours=36)
    expected = try_every_minute(expression, zone(zone_name), after, before, gap, fold)
    schedule = parsed(expression, zone_name, gap, fold)
    found = [] if schedule is None else list(occurrences(schedule, after=after, before=before))
    assert found == expected


@settings(max_examples=120, deadline=None, suppress_health_check=QUIET)
@given(
    expressions,
    st.sampled_from(EDGES),
    gap_of,
    fold_of,
    st.lists(st.integers(0, 36 * 3_600_000_000), max_size=6),
)
def test_every_path_gives_the_same_instants(
    expression: Expression, edge: tuple[str, datetime], gap: str, fold: str, cuts: list[int]
) -> None:
    zone_name, after = edge
    before = after + timedelta(hours=36)
    schedule = parsed(expression, zone_name, gap, fold)
    if schedule is None:
        return
    whole = list(occurrences(schedule, after=after, before=before))
    assert all(earlier < later for earlier, later in pairwise([after, *whole]))

    resumed, at = [], after
    while (following := next_occurrence(schedule, after=at)) is not None and following < before:
        resumed.append(following)
        at = following
    assert resumed == whole

    edges = [after, *sorted(after + timedelta(microseconds=cut) for cut in cuts), before]
    chunks: list[datetime] = []
    for low, high in pairwise(edges):
        # Chunks meet at `high`: after is exclusive and before is too, so the instant itself is asked for apart.
        chunks += occurrences(schedule, after=low, before=high + timedelta(microseconds=1) if high < before else high)
    assert chunks == whole

    for cut in edges[1:-1]:
        rest = whole[bisect_right(whole, cut) :]
        assert list(occurrences(schedule, after=cut, before=before)) == rest


DayMatcher = Callable[[date], bool]


def month_length(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def nearest_weekday(target: int) -> DayMatcher:
    """Monday to Friday, nearest to a day of the month and inside the month; a day past its end is its last."""

    def matches(day: date) -> bool:
        aim = day.replace(day=min(target, month_length(day)))
        weekdays = [day.replace(day=n) for n in range(1, month_length(day) + 1)]
        weekdays = [other for other in weekdays if other.isoweekday() <= 5]
        return day == min(weekdays, key=lambda other: abs((other - aim).days))

    return matches


@st.composite
def day_items(draw: st.DrawFn) -> tuple[str, DayMatcher]:
    form = draw(st.sampled_from(["n", "L", "LW", "nW"]))
    n = draw(st.integers(1, 31))
    if form == "n":
        return str(n), lambda day: day.day == n
    if form == "L":
        return "L", lambda day: day.day == month_length(day)
    return ("LW", nearest_weekday(31)) if form == "LW" else (f"{n}W", nearest_weekday(n))


@st.composite
def weekday_items(draw: st.DrawFn) -> tuple[str, DayMatcher]:
    form = draw(st.sampled_from(["n", "n#k", "nL"]))
    n, k = draw(st.integers(0, 6)), draw(st.integers(1, 5))
    name = draw(st.sampled_from([str(n), ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"][n], str(n or 7)]))
    if form == "n":
        return name, lambda day: day.isoweekday() % 7 == n
    if form == "n#k":
        return f"{name}#{k}", lambda day: day.isoweekday() % 7 == n and (day.day + 6) // 7 == k
    return f"{name}L", lambda day: day.isoweekday() % 7 == n and day.day + 7 > month_length(day)


def listed(items: st.SearchStrategy[tuple[str, DayMatcher]]) -> st.SearchStrategy[tuple[str, DayMatcher]]:
    def joined(drawn: list[tuple[str, DayMatcher]]) -> tuple[str, DayMatcher]:
        return ",".join(text for text, _ in drawn), lambda day: any(matches(day) for _, matches in drawn)

    return st.lists(items, min_size=1, max_size=3).map(joined)


every_day: tuple[str, DayMatcher] = ("*", lambda day: True)


@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(st.just(every_day) | listed(day_items()), field(1, 12), st.just(every_day) | listed(weekday_items()))
def test_calendars_against_trying_every_day(
    on_day: tuple[str, DayMatcher], month: Drawn, on_weekday: tuple[str, DayMatcher]
) -> None:
    start, days = date(2027, 1, 1), 2 * 366  # 2028 is a leap year
    both = on_day[0] == "*" or on_weekday[0] == "*"

    def matches(day: date) -> bool:
        first, second = on_day[1](day), on_weekday[1](day)
        return day.month in month.values and ((first and second) if both else (first or second))

    expected = [day for n in range(days) if matches(day := start + n * DAY)]
    data = {"type": "cron", "expression": f"0 0 {on_day[0]} {month.text} {on_weekday[0]}"}
    after = datetime(2026, 12, 31, 12, tzinfo=UTC)
    try:
        schedule = Schedule.parse(data)
    except InvalidInputs:
        assert not expected
        return
    found = occurrences(schedule, after=after, before=after + (days + 0.5) * DAY)
    assert [instant.date() for instant in found] == expected


@settings(max_examples=300, deadline=None, suppress_health_check=QUIET)
@given(st.text(max_size=300) | st.lists(st.text("0123456789*/-,LWHR#?MONJA", max_size=6)).map(" ".join))
def test_any_text_is_refused_or_has_a_next_time_soon(text: str) -> None:
    begin = time.process_time()
    try:
        schedule = Schedule.parse({"type": "cron", "expression": text})
    except InvalidInputs as error:
        assert {each.pointer for each in error.errors} == {"/expression"}  # noqa: PT017
    else:
        assert next_occurrence(schedule, after=datetime(2026, 1, 1, tzinfo=UTC)) is not None
    assert time.process_time() - begin < 2


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 31_536_000),
    st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.datetimes(datetime(1980, 1, 1), datetime(2080, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_intervals_keep_to_their_grid(every: int, start: datetime | None, after: datetime) -> None:
    schedule = Schedule("interval", every_seconds=every, start_at=start)
    anchor = start or datetime(1970, 1, 1, tzinfo=UTC)
    found = list(occurrences(schedule, after=after, limit=3))
    assert found[0] > after
    assert found[0] - timedelta(seconds=every) <= max(after, anchor)
    assert all((instant - anchor) % timedelta(seconds=every) == timedelta(0) for instant in found)
    assert list(occurrences(schedule, after=found[0], limit=2)) == found[1:]
