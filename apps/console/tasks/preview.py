"""What a schedule would do: plain words, the next times, what changes of the clock do to it, and who else is there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from apps.definitions.collisions import Crowd, crowds
from apps.definitions.dst_notes import dst_notes
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule, describe, occurrences
from apps.definitions.zones import zone
from apps.tenants.principal import Principal

TIMES = 10
FARTHEST = timedelta(days=36_525)
"""A century: a schedule that comes rarely is sought no longer."""

CROWDED = 10
"""Other tasks at one minute from which on it is worth a sentence."""


@dataclass(frozen=True)
class Time:
    """One occurrence. local: in the schedule's zone, with the zone's abbreviation; the year stands with `at`."""

    at: datetime
    local: str
    crowd: Crowd

    @classmethod
    def of(cls, at: datetime, tz: tzinfo, crowd: Crowd) -> "Time":
        local = at.astimezone(tz)
        return cls(at, f"{local:%a} {local.day} {local:%b %H:%M:%S %Z}", crowd)


@dataclass(frozen=True)
class Preview:
    """crowd: the fullest of the minutes, where it is worth a sentence."""

    words: str
    zone: str
    times: list[Time]
    notes: list[str]
    crowd: Time | None
    is_strict: bool
    repeats: bool


def of(
    principal: Principal,
    schedule: Schedule,
    *,
    now: datetime,
    own: Task | None = None,
    is_strict: bool = False,
    count: int = TIMES,
) -> Preview:
    """own: the task that has or gets the schedule, which is not "another". At most one query."""
    instants = list(occurrences(schedule, after=now, before=now + FARTHEST, limit=count))
    others = crowds(principal, instants, own=own) if instants else []
    tz = zone(schedule.timezone)
    times = [Time.of(at, tz, crowd) for at, crowd in zip(instants, others, strict=True)]
    return Preview(
        words=describe(schedule),
        zone=schedule.timezone,
        times=times,
        notes=dst_notes(schedule, after=now),
        crowd=_fullest(times),
        is_strict=is_strict,
        repeats=schedule.type in ("cron", "interval"),
    )


def _fullest(times: Sequence[Time]) -> Time | None:
    fullest = max(times, key=lambda time: time.crowd.count, default=None)
    return fullest if fullest is not None and fullest.crowd.count >= CROWDED else None
