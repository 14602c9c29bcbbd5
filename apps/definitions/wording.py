"""A schedule in plain words, for people who do not read cron."""

from collections.abc import Sequence
from datetime import datetime

from apps.definitions.cron_fields import Days
from apps.definitions.cron_syntax import CronExpression, parse_cron
from apps.definitions.schedules import Schedule
from apps.definitions.zones import zone

_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_ORDINALS = ("last", "first", "second", "third", "fourth", "fifth")
_MOST_TIMES = 4  # listed one by one; more are told by minutes and hours
_UNITS = (("day", 86_400), ("hour", 3600), ("minute", 60), ("second", 1))


def describe(schedule: Schedule) -> str:
    """For example "at 02:00 every day (Europe/Paris)", "every 5 seconds", "once, on 2026-03-01 at 09:00 (UTC)"."""
    if schedule.type == "cron":
        assert schedule.expression is not None
        cron = parse_cron(schedule.expression)
        words = f"{_times(cron)} {_days(cron)}"
        if len(cron.hours) == 24:
            words = words.removesuffix(" every day")  # "every minute every day" has one "every" too many
        return f"{words} ({schedule.timezone}){_bounds(schedule)}"
    if schedule.type == "interval":
        assert schedule.every_seconds is not None
        return f"every {_duration(schedule.every_seconds)}{_bounds(schedule)}"
    if schedule.type == "one_shot":
        assert schedule.run_at is not None
        return f"once, on {_moment(schedule.run_at, schedule)} ({schedule.timezone})"
    return "when its event comes" if schedule.type == "event" else "only when triggered"


def _times(cron: CronExpression) -> str:
    seconds = cron.seconds or (0,)
    if len(cron.hours) * len(cron.minutes) * len(seconds) <= _MOST_TIMES:
        clock = [(hour, minute, second) for hour in cron.hours for minute in cron.minutes for second in seconds]
        shown = [f"{h:02}:{m:02}:{s:02}" if seconds != (0,) else f"{h:02}:{m:02}" for h, m, s in clock]
        return f"at {_and(shown)}"
    hours = "" if len(cron.hours) == 24 else f" of {_numbers('hour', cron.hours)}"
    if seconds == (0,):
        if cron.minutes == (0,) and not hours:
            return "every hour"
        return _each("minute", cron.minutes, hours or " of every hour", hours)
    minutes = "" if len(cron.minutes) == 60 else f" of {_numbers('minute', cron.minutes)}"
    named = minutes + hours
    return _each("second", seconds, named or " of every minute", named)


def _each(unit: str, values: Sequence[int], when_listed: str, when_every: str) -> str:
    """Values that step evenly round the whole 60 are "every n", the others are listed."""
    step = 60 // len(values)
    if tuple(values) == tuple(range(0, 60, step)) and len(values) > 1:
        return (f"every {unit}" if step == 1 else f"every {step} {unit}s") + when_every
    return f"at {_numbers(unit, values)}{when_listed}"


def _days(cron: CronExpression) -> str:
    months = "" if len(cron.months) == 12 else f" in {_and([_MONTHS[month - 1] for month in cron.months])}"
    days, weekdays = cron.days_of_month, cron.days_of_week
    if days.any and weekdays.any:
        return f"every day{months}"
    if weekdays.any:
        return f"on {_month_days(days)}{months}"
    if days.any:
        return f"on {_week_days(weekdays)}{months}"
    if days.starred or weekdays.starred:
        return f"on {_month_days(days)}, if that is {_week_days(weekdays, 'or')}{months}"
    return f"on {_month_days(days)} or on {_week_days(weekdays)}{months}"


def _month_days(days: Days) -> str:
    words = [_numbers("day", days.values)] if days.values else []
    words += ["the last day"] if days.last else []
    for day in days.nearest:
        words.append("the last weekday" if day == 31 else f"the weekday nearest to day {day}")
    return f"{_and(words)} of the month"


def _week_days(days: Days, last_word: str = "and") -> str:
    if days.values == (1, 2, 3, 4, 5) and not days.nth:
        return "Monday to Friday" if last_word == "and" else "a day from Monday to Friday"
    words = [_WEEKDAYS[day] for day in days.values]
    words += [f"the {_ORDINALS[count]} {_WEEKDAYS[day]} of the month" for day, count in days.nth]
    return _and(words, last_word)


def _numbers(unit: str, values: Sequence[int]) -> str:
    """ "minute 5", "hours 9 to 17", "days 1, 3 and 7"."""
    if len(values) > 2 and values[-1] - values[0] == len(values) - 1:
        return f"{unit}s {values[0]} to {values[-1]}"
    return f"{unit}{'s' if len(values) > 1 else ''} {_and([str(value) for value in values])}"


def _and(words: Sequence[str], last_word: str = "and") -> str:
    return f" {last_word} ".join(part for part in (", ".join(words[:-1]), words[-1]) if part)


def _duration(seconds: int) -> str:
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return parts[0].removeprefix("1 ") if len(parts) == 1 else _and(parts)


def _moment(moment: datetime, schedule: Schedule) -> str:
    local = moment.astimezone(zone(schedule.timezone))
    exact = local.second or local.microsecond
    return local.strftime("%Y-%m-%d at %H:%M") + (local.strftime(":%S") if exact else "")


def _bounds(schedule: Schedule) -> str:
    words = ""
    if schedule.start_at is not None:
        words += f", from {_moment(schedule.start_at, schedule)}"
    if schedule.end_at is not None:
        words += f", until {_moment(schedule.end_at, schedule)}"
    return words
