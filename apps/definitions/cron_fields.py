"""One field of a cron expression: from its text to the values that it names."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chronoweb.runtime.errors import InvalidInput

POINTER = "/expression"
LAST_DAY = "l"  # croniter's word for the last day of a month
MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAY_NAMES = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

_ITEM = re.compile(r"(?P<low>\*|\w+)(?:-(?P<high>\w+))?(?:/(?P<step>\w+))?", re.ASCII)
_NEAREST = re.compile(r"(\d+)w|w(\d+)", re.ASCII)
_NTH = re.compile(r"(?P<days>[\w-]+)#(?P<nth>.*)", re.ASCII)
_LAST_WEEKDAY = re.compile(r"l(?P<after>\w+)|(?P<before>\w+)l", re.ASCII)
_RANDOM = re.compile(r"[hr](\(.*\))?(/.*)?", re.ASCII)


@dataclass(frozen=True)
class Field:
    """Name, bounds (both inclusive) and legal values of a field, for people to read.

    names: words for `low`, `low + 1`, … wraps: a range may run over the end, as in SAT-TUE.
    """

    name: str
    low: int
    high: int
    legal: str
    names: tuple[str, ...] = ()
    wraps: bool = False

    def error(self, text: str, problem: str) -> InvalidInput:
        return InvalidInput(POINTER, text, f"{self.name} {text!r}: {problem}", legal=f"{self.name}: {self.legal}")


_FORMS = "*, lists, ranges and steps such as 1,5 or 10-20 or */15"
SECOND = Field("second", 0, 59, f"0-59; {_FORMS}")
MINUTE = Field("minute", 0, 59, f"0-59; {_FORMS}")
HOUR = Field("hour", 0, 23, f"0-23; {_FORMS}")
DAY_OF_MONTH = Field("day of month", 1, 31, f"1-31, L (last day), 15W, LW (last weekday); {_FORMS}")
MONTH = Field("month", 1, 12, f"1-12 or JAN-DEC; {_FORMS}", MONTH_NAMES, wraps=True)
DAY_OF_WEEK = Field(
    "day of week",
    0,
    6,
    f"0-7 (0 and 7 are Sunday) or SUN-SAT, MON#1 (#1 to #5), 5L (last Friday); {_FORMS}",
    WEEKDAY_NAMES,
    wraps=True,
)


@dataclass(frozen=True)
class Days:
    """The days that a day field names.

    any: `*` or `?` alone. starred: begins with `*` (or is `?`), so the other day field must match as well.
    values: days of the month, or of the week (0 is Sunday). last: L. nearest: nW, the weekday (Monday to Friday)
    nearest to day n of the month, where 31 stands for the last day in every month. nth: (weekday, 1-5), and
    (weekday, 0) for the last one of the month.
    """

    any: bool
    starred: bool
    values: tuple[int, ...] = ()
    last: bool = False
    nearest: tuple[int, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()


def read_values(field: Field, text: str) -> tuple[int, ...]:
    """The values of a field, ascending. Raises InvalidInput."""
    return tuple(sorted({value for item in _items(field, text) for value in _expand(field, item)}))


def read_day_of_month(text: str) -> Days:
    """Raises InvalidInput. See Days."""
    if text in {"*", "?"}:
        return Days(any=True, starred=True)
    values: set[int] = set()
    nearest: set[int] = set()
    last = False
    for item in _items(DAY_OF_MONTH, text):
        if item == "l":
            last = True
        elif item in {"lw", "wl"}:
            nearest.add(DAY_OF_MONTH.high)
        elif match := _NEAREST.fullmatch(item):
            nearest.add(_number(DAY_OF_MONTH, match[1] or match[2], item))
        elif item.startswith("l-"):
            raise DAY_OF_MONTH.error(text, "a distance from the last day is not supported; name the days")
        else:
            values.update(_expand(DAY_OF_MONTH, re.sub(r"-l\b", "-31", item)))
    return Days(False, text.startswith("*"), tuple(sorted(values)), last, tuple(sorted(nearest)))


def read_day_of_week(text: str) -> Days:
    """Raises InvalidInput. See Days."""
    if text in {"*", "?"}:
        return Days(any=True, starred=True)
    values: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for item in _items(DAY_OF_WEEK, text):
        if match := _NTH.fullmatch(item):
            if not re.fullmatch("[1-5]", match["nth"]):
                raise DAY_OF_WEEK.error(text, f"#{match['nth']} is none of #1 to #5; the last one is 5L")
            nth.update((day, int(match["nth"])) for day in _expand(DAY_OF_WEEK, match["days"]))
        elif item == "l":
            raise DAY_OF_WEEK.error(text, "L needs its weekday: 5L is the last Friday of the month")
        elif match := _LAST_WEEKDAY.fullmatch(item):
            nth.add((_number(DAY_OF_WEEK, match["after"] or match["before"], item) % 7, 0))
        else:
            values.update(_expand(DAY_OF_WEEK, item))
    return Days(False, text.startswith("*"), tuple(sorted(values)), nth=tuple(sorted(nth)))


def _items(field: Field, text: str) -> Iterator[str]:
    for item in text.lower().split(","):
        if not item:
            raise field.error(text, "an item of the list is empty")
        if _RANDOM.fullmatch(item):
            raise field.error(text, "H and R stand for a time drawn by chance; name the time, jitter spreads the load")
        if "?" in item:
            raise field.error(text, "? stands alone, for day of month or day of week")
        yield item


def _expand(field: Field, item: str) -> list[int]:
    """The values of `*`, `a`, `a-b`, each with an optional `/step`; `a/step` runs to the field's end."""
    match = _ITEM.fullmatch(item)
    if match is None or (match["low"] == "*" and match["high"]):
        raise field.error(item, "is not a value, a range or a step")
    step = _step(field, match["step"], item)
    if match["low"] == "*":
        return list(range(field.low, field.high + 1, step))
    low = _number(field, match["low"], item)
    if match["high"] is None:
        if match["step"] is None:
            return [_fold(field, low)]
        return list(range(_fold(field, low), field.high + 1, step))
    high = _number(field, match["high"], item)
    if low > high:
        high = _wrapped(field, low, high, item)
    return [_fold(field, value) for value in range(low, high + 1, step)]


def _wrapped(field: Field, low: int, high: int, item: str) -> int:
    if not field.wraps:
        hint = f"{low}-{field.high},{field.low}-{high}"
        raise field.error(item, f"the range ends before it begins; if it is to wrap, write {hint}")
    return high + field.high - field.low + 1


def _fold(field: Field, value: int) -> int:
    """Brings 7 (Sunday) and the far side of a range that wraps back into the field."""
    return (value - field.low) % (field.high - field.low + 1) + field.low


def _step(field: Field, text: str | None, item: str) -> int:
    if text is None:
        return 1
    size = field.high - field.low + 1
    # Longer than the field, a step fires once a round: `*/90` would be hourly, never each 90 minutes.
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= size):
        raise field.error(item, f"the step must be a whole number from 1 to {size}")
    return int(text)


def _number(field: Field, text: str, item: str) -> int:
    if text in field.names:
        return field.low + field.names.index(text)
    highest = 7 if field is DAY_OF_WEEK else field.high
    if not (text.isascii() and text.isdigit()):
        raise field.error(item, f"{text!r} is not one of the values")
    if not field.low <= int(text) <= highest:
        raise field.error(item, f"{text} is outside {field.low}-{highest}")
    return int(text)
