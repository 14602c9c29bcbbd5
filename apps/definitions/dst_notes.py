"""What the next changes of the clock do to a schedule, in words. Pure."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from apps.definitions.cron_syntax import CronExpression, parse_cron
from apps.definitions.cron_walk import WallClock
from apps.definitions.occurrences import Schedule
from apps.definitions.zones import Stretch, stretches

AHEAD = timedelta(days=366)


def dst_notes(schedule: Schedule, *, after: datetime) -> list[str]:
    """A note for each change of the offset within a year after `after` (aware) that the schedule meets."""
    if schedule.type != "cron" or schedule.expression is None:
        return []
    cron = parse_cron(schedule.expression)
    walls = WallClock(cron)
    notes = []
    for stretch in _changes(schedule.timezone, after.astimezone(UTC).replace(tzinfo=None)):
        before, behind = stretch.start + stretch.offset_before, stretch.start + stretch.offset
        first, last = min(before, behind), max(before, behind)
        match = walls.at_or_after(first)
        if match is None or match >= last:
            continue
        notes.append(_gap(schedule, cron, match, last) if behind > before else _fold(schedule, cron, match))
    return notes


def _changes(zone_name: str, after: datetime) -> Iterator[Stretch]:
    for year in range(after.year, after.year + 3):
        for stretch in stretches(zone_name, year):
            if after < stretch.start < after + AHEAD and stretch.offset != stretch.offset_before:
                yield stretch


def _gap(schedule: Schedule, cron: CronExpression, match: datetime, end: datetime) -> str:
    words = f"on {match:%Y-%m-%d} the clock of {schedule.timezone} goes forward and {match:%H:%M} does not come"
    if cron.follows_clock:
        return f"{words}: what it names in the hour that is missing is not run"
    return f"{words}: it runs once, at {end:%H:%M}" if schedule.dst_gap == "shift" else f"{words}: it does not run"


def _fold(schedule: Schedule, cron: CronExpression, match: datetime) -> str:
    words = f"on {match:%Y-%m-%d} the clock of {schedule.timezone} goes back and {match:%H:%M} comes twice"
    if cron.follows_clock or schedule.dst_fold == "both":
        return f"{words}: it runs both times"
    return f"{words}: it runs the {schedule.dst_fold} time only"
