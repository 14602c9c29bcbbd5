"""Cron expressions, read: five fields, or six with seconds first.

What is accepted, what it means and what is refused is decided here and in cron_fields.py, with a problem that names
the field and its legal values. The outcome is written out as plain lists for croniter, which only walks: some of its
readings are not cron's (9-9 is every hour to it, H and R are drawn by chance, `13 * FRI#1` wants both days at once).
"""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from apps.definitions.cron_fields import (
    DAY_OF_MONTH,
    HOUR,
    LAST_DAY,
    MINUTE,
    MONTH,
    POINTER,
    SECOND,
    Days,
    read_day_of_month,
    read_day_of_week,
    read_values,
)
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

MAX_LENGTH = 256  # characters, white space included
SEPARATORS = " \t\r\n"
FIELDS = "minute, hour, day of month, month, day of week; or second before these five"

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
REFUSED_ALIASES = {
    "@reboot": "@reboot is not a time, and a fleet has no boot; use type manual and trigger the task",
    "@every": "@every is not cron; use type interval with every_seconds",
}


@dataclass(frozen=True)
class CronExpression:
    """An expression that was read.

    text: as given, white space made single. seconds: None for five fields, which fire at second 0. walks: croniter
    expressions whose union is the expression's wall-clock times. follows_clock: minute or hour begins with `*`, so
    that real instants are matched through changes of offset; otherwise each wall-clock time counts once. The seconds
    have no say in it: with minute and hour named, `*/10 30 2 * * *` is still something that happens at half past two.
    """

    text: str
    seconds: tuple[int, ...] | None
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: Days
    months: tuple[int, ...]
    days_of_week: Days
    walks: tuple[str, ...]
    follows_clock: bool


@lru_cache(maxsize=8192)
def parse_cron(text: str) -> CronExpression:
    """Read an expression. Raises InvalidInputs, all at "/expression", one for each field that is wrong.

    Whether its dates ever come is not asked here: that depends on the zone too (schedules.py asks).
    """
    _refuse_bad_text(text)
    tidy = " ".join(text.split())
    parts = _split(tidy)
    errors: list[InvalidInput] = []

    def read(reader: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return reader(*arguments)
        except InvalidInput as error:
            errors.append(error)
            return None

    second = parts.pop(0) if len(parts) == 6 else None
    minute, hour, day, month, weekday = parts
    seconds = None if second is None else read(read_values, SECOND, second)
    minutes, hours = read(read_values, MINUTE, minute), read(read_values, HOUR, hour)
    days_of_month = read(read_day_of_month, day)
    months, days_of_week = read(read_values, MONTH, month), read(read_day_of_week, weekday)
    if errors:
        raise InvalidInputs(errors)
    clock = [part for part in (_listed(seconds, 60), _listed(minutes, 60), _listed(hours, 24)) if part]
    return CronExpression(
        text=tidy,
        seconds=seconds,
        minutes=minutes,
        hours=hours,
        days_of_month=days_of_month,
        months=months,
        days_of_week=days_of_week,
        walks=tuple(
            " ".join([*clock, on_day, _listed(months, 12), on_weekday])
            for on_day, on_weekday in _day_pairs(days_of_month, days_of_week)
        ),
        follows_clock=minute.startswith("*") or hour.startswith("*"),
    )


def _refuse_bad_text(text: str) -> None:
    if len(text) > MAX_LENGTH:
        _refuse(text[:MAX_LENGTH], f"is {len(text)} characters long", f"at most {MAX_LENGTH} characters")
    for character in text:
        if character not in SEPARATORS and not "!" <= character <= "~":
            name = unicodedata.name(character, "a control character")
            _refuse(text, f"contains U+{ord(character):04X} ({name}), which no field may hold", FIELDS)


def _split(tidy: str) -> list[str]:
    if tidy.startswith("@"):
        word = tidy.split()[0].lower()
        if word in REFUSED_ALIASES:
            _refuse(tidy, REFUSED_ALIASES[word], ", ".join(ALIASES))
        if tidy.lower() not in ALIASES:
            _refuse(tidy, f"{tidy} is not an alias", ", ".join(ALIASES))
        return ALIASES[tidy.lower()].split()
    if tidy.upper().startswith(("TZ=", "CRON_TZ=")):
        _refuse(tidy, "the zone belongs in the field timezone, not in the expression", FIELDS)
    parts = tidy.split()
    if len(parts) == 7:
        _refuse(tidy, "has 7 fields, and years are not supported; bound it with start_at and end_at", FIELDS)
    if len(parts) not in {5, 6}:
        _refuse(tidy, f"has {len(parts)} fields, not 5 or 6", FIELDS)
    return parts


def _refuse(value: str, problem: str, legal: str) -> None:
    raise InvalidInputs([InvalidInput(POINTER, value, problem, legal)])


def _listed(values: tuple[int, ...] | None, size: int) -> str:
    if values is None:
        return ""
    return "*" if len(values) == size else ",".join(map(str, values))


def _day_pairs(days: Days, weekdays: Days) -> list[tuple[str, str]]:
    """(day of month, day of week) pairs, each an intersection, whose union is what the two fields mean together.

    Cron's rule: either field is enough, unless one begins with `*`; then both must match.
    """
    on_days, on_weekdays = _day_forms(days), _weekday_forms(weekdays)
    if days.starred or weekdays.starred:
        return [(day, weekday) for day in on_days for weekday in on_weekdays]
    return [(day, "*") for day in on_days] + [("*", weekday) for weekday in on_weekdays]


def _day_forms(days: Days) -> list[str]:
    """Croniter wants each nW alone."""
    if days.any or len(days.values) == DAY_OF_MONTH.high:
        return ["*"]
    plain = [*map(str, days.values), *([LAST_DAY] if days.last else [])]
    return ([",".join(plain)] if plain else []) + [f"{day}w" for day in days.nearest]


def _weekday_forms(days: Days) -> list[str]:
    """Croniter wants counted weekdays (#, last) apart from plain ones."""
    if days.any or len(days.values) == 7:
        return ["*"]
    plain = ",".join(map(str, days.values))
    counted = ",".join(f"{day}#{count}" if count else f"l{day}" for day, count in days.nth)
    return [form for form in (plain, counted) if form]
