"""Schedule: when a task runs, as a value; and the reading of one from JSON."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from apps.definitions.cron_syntax import parse_cron
from apps.definitions.cron_walk import HORIZON_YEARS, cron_instants
from apps.definitions.schedule_input import Reader
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

TYPES = ("cron", "interval", "one_shot", "event", "manual")
SPELLINGS = {"one-shot": "one_shot"}
DST_GAP = ("shift", "skip")
DST_FOLD = ("first", "last", "both")
MAX_EVERY_SECONDS = 31_536_000  # 365 days

# Which type each field belongs to; the other fields belong to all.
_OWNERS = {
    "expression": ("cron",),
    "every_seconds": ("interval",),
    "run_at": ("one_shot",),
    "start_at": ("cron", "interval"),
    "end_at": ("cron", "interval"),
}
_REQUIRED = {"cron": "expression", "interval": "every_seconds", "one_shot": "run_at"}
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # days of each month, at most
_MOMENTS = ("run_at", "start_at", "end_at")

# Where the search for a cron's first occurrence begins: any constant would do, since the calendar repeats well within
# the horizon, but the rules of zones are those of today.
_REFERENCE = datetime(2026, 1, 1)  # noqa: DTZ001 - naive UTC
_REFERENCE_END = datetime(2026 + HORIZON_YEARS, 1, 1)  # noqa: DTZ001 - naive UTC


@dataclass(frozen=True)
class Schedule:
    """When a task runs. `parse` is the door for input; the constructor trusts its caller.

    type: cron, interval, one_shot; event and manual have no occurrences of their own.
    expression: five fields, or six with seconds first (cron). timezone: of the expression, and of date-times that
    come without an offset. every_seconds: 1 to 31,536,000, counted from start_at, or from 1970-01-01T00:00:00Z
    (interval). run_at: aware UTC (one_shot). start_at (inclusive) and end_at (exclusive): aware UTC; None = unbounded;
    they bound cron and interval.
    dst_gap: shift = once at the first instant after a skipped time; skip = not at all. dst_fold: which pass of a
    repeated time counts: first, last, both. Both concern fixed-time cron only; see cron_walk.py.
    """

    type: str
    expression: str | None = None
    timezone: str = "UTC"
    every_seconds: int | None = None
    run_at: datetime | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    dst_gap: str = "shift"
    dst_fold: str = "first"

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> "Schedule":
        """Read the API's JSON object; null is the same as absent.

        Date-times are ISO 8601 strings, or aware datetime objects. A string without offset is read in the schedule's
        zone: in a gap the first instant after it, in a fold the first pass (the last, where dst_fold is last).
        Fractions finer than a millisecond are rounded up, so that nothing runs early.
        Raises InvalidInputs with every error, pointers relative to this object ("/expression").
        """
        if not isinstance(data, Mapping):
            raise InvalidInputs([InvalidInput("", data, "a schedule is a JSON object", legal=_example())])
        reader = Reader(data)
        reader.refuse_unknown(set(cls.__dataclass_fields__))
        kind = reader.choice("type", TYPES, spellings=SPELLINGS)
        zone_name = reader.zone_name()
        gap = reader.choice("dst_gap", DST_GAP, default="shift")
        fold = reader.choice("dst_fold", DST_FOLD, default="first")
        if kind is None:
            raise InvalidInputs(reader.errors)
        reader.refuse_foreign(kind, _OWNERS)
        reader.require(_REQUIRED.get(kind), kind)
        schedule = cls(
            type=kind,
            expression=reader.expression() if kind == "cron" else None,
            timezone=zone_name or "UTC",
            every_seconds=reader.whole("every_seconds", 1, MAX_EVERY_SECONDS) if kind == "interval" else None,
            dst_gap=gap or "shift",
            dst_fold=fold or "first",
            **{
                name: reader.moment(name, zone_name, last_pass=fold == "last") if kind in _OWNERS[name] else None
                for name in _MOMENTS
            },
        )
        if schedule.start_at and schedule.end_at and schedule.start_at >= schedule.end_at:
            reader.refuse("end_at", "is not after start_at: the schedule would never fire", "a later date-time")
        if not reader.errors and schedule.type == "cron" and not _ever_fires(schedule):
            _refuse_impossible(reader, schedule.expression or "", schedule.timezone)
        if reader.errors:
            raise InvalidInputs(reader.errors)
        return schedule

    def to_json(self) -> dict[str, Any]:
        """The API's object, every field present; `parse` reads it back to an equal schedule."""
        return {
            name: value.astimezone(UTC).isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
            for name, value in asdict(self).items()
        }


def _ever_fires(schedule: Schedule) -> bool:
    assert schedule.expression is not None
    return _fires(schedule.expression, schedule.timezone, schedule.dst_gap, schedule.dst_fold)


@lru_cache(maxsize=8192)
def _fires(expression: str, zone_name: str, dst_gap: str, dst_fold: str) -> bool:
    instants = cron_instants(
        parse_cron(expression),
        zone_name,
        after=_REFERENCE,
        before=_REFERENCE_END,
        dst_gap=dst_gap,
        dst_fold=dst_fold,
    )
    return next(instants, None) is not None


def _refuse_impossible(reader: Reader, expression: str, zone_name: str) -> None:
    cron = parse_cron(expression)
    highest = max(_LONGEST[month - 1] for month in cron.months)
    days = cron.days_of_month
    if days.values and min(days.values) > highest and not (days.last or days.nearest):
        named, months = ", ".join(map(str, days.values)), ", ".join(map(str, cron.months))
        reader.refuse(
            "expression",
            f"never fires: day of month {named} does not come in month {months}",
            f"day of month: 1-{highest} in month {months}",
        )
        return
    reader.refuse(
        "expression",
        f"never fires: in {HORIZON_YEARS} years, no time in {zone_name} matches all its fields",
        "day of month, month and day of week that come together, at a time that the zone has",
    )


def _example() -> str:
    return '{"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Paris"}'
