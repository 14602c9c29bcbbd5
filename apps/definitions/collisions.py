"""How many other tasks of a tenant fire at the same minute: what people ask before they write "0 2 * * *".

Tasks share few schedules, so schedules are grouped by the database and each is asked once. The groups are kept for
KEPT_SECONDS: somebody who types asks every moment.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Any
from uuid import UUID

from django.db.models import Count

from apps.definitions.cron_syntax import parse_cron
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.definitions.tasks import live_tasks
from apps.definitions.zones import zone
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

MOST_SCHEDULES = 2000
"""The most frequent ones; where a tenant has more, the count is at least what is told."""

KEPT_SECONDS = 5
_MOST_TENANTS = 64
_MINUTE = timedelta(minutes=1)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Crowd:
    """count: other tasks that fire within an instant's minute. is_least: there may be more."""

    count: int
    is_least: bool


@dataclass(frozen=True)
class _Groups:
    read: float
    found: list[tuple[Schedule, int]]
    is_cut: bool


_kept: dict[UUID, _Groups] = {}
_lock = Lock()


def crowds(
    principal: Principal,
    instants: Sequence[datetime],
    *,
    own: Task | None = None,
    planned: Mapping[Schedule, int] | None = None,
) -> list[Crowd]:
    """For each of these instants (aware) how many tasks besides `own` fire in its minute. At most one query.

    planned: schedules of tasks that are not there yet and count as well, and how many have each.
    """
    groups = _groups_of(principal)
    everything = [*groups.found, *(planned or {}).items()]
    mine = None
    if own is not None and own.paused_at is None and own.schedule["type"] in ("cron", "interval"):
        mine = Schedule.parse(own.schedule)
    made = []
    for instant in instants:
        minute = instant.replace(second=0, microsecond=0)
        walls: dict[str, datetime] = {}
        count = sum(number for schedule, number in everything if _fires(schedule, minute, walls))
        made.append(Crowd(max(0, count - (mine is not None and _fires(mine, minute, walls))), groups.is_cut))
    return made


def _fires(schedule: Schedule, minute: datetime, walls: dict[str, datetime]) -> bool:
    if schedule.type == "cron":
        assert schedule.expression is not None
        cron = parse_cron(schedule.expression)
        wall = walls.get(schedule.timezone) or walls.setdefault(
            schedule.timezone, minute.astimezone(zone(schedule.timezone))
        )
        if wall.minute not in cron.minutes and wall.minute % 30:  # a skipped time moves to a change, at :00 or :30
            return False
    found = next_occurrence(schedule, after=minute - _TICK)
    return found is not None and found < minute + _MINUTE


def _groups_of(principal: Principal) -> _Groups:
    now = time.monotonic()
    with _lock:
        kept = _kept.get(principal.tenant_id)
    if kept is not None and now - kept.read < KEPT_SECONDS:
        return kept
    rows = scoped(live_tasks(), principal).filter(paused_at=None, schedule__type__in=("cron", "interval"))
    counted = rows.order_by().values("schedule").annotate(number=Count("id")).order_by("-number")
    found: list[Mapping[str, Any]] = list(counted[: MOST_SCHEDULES + 1])
    read = [(Schedule.parse(row["schedule"]), row["number"]) for row in found[:MOST_SCHEDULES]]
    made = _Groups(now, read, len(found) > MOST_SCHEDULES)
    with _lock:
        if len(_kept) >= _MOST_TENANTS:
            _kept.pop(next(iter(_kept)))
        _kept[principal.tenant_id] = made
    return made


def forget() -> None:
    """Read the groups again at the next asking."""
    with _lock:
        _kept.clear()
