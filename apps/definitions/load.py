"""What a tenant's schedules plan for the next hour, by the minute."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from json import loads

from django.db import connection

from apps.definitions.occurrences import occurrences
from apps.definitions.schedules import Schedule
from apps.executions import overview
from apps.tenants.principal import Principal

MINUTES = 60
MOST_TASKS = 20_000
MOST_SCHEDULES = 500
"""Different schedules whose occurrences are computed: those of the most tasks."""
MOST_STEPS = 200_000
"""Occurrences that are added up."""
_SCHEDULES = """
SELECT schedule::text, next_fire_at, jitter_ms / 15000 * 15, count(*)
FROM (SELECT schedule, next_fire_at, jitter_ms FROM tasks
      WHERE tenant_id = %s AND next_fire_at < %s AND paused_at IS NULL AND deleted_at IS NULL LIMIT %s) t
GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2
"""
_HOUR = timedelta(hours=1)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Load:
    """Executions a minute, MINUTES of them from `begin` on. estimated: what the ledger has is. at_least: there are more
    schedules than were looked at.
    """

    begin: datetime
    nominal: list[int]
    shifted: list[int]
    estimated: bool
    at_least: bool


def next_hour(principal: Principal, *, now: datetime) -> Load:
    """What is in the ledger already, and what schedules of tasks that are not paused bring; at most eight queries."""
    begin = now.replace(second=0, microsecond=0)
    found = overview.planned(principal, now=begin, due=now)
    nominal, shifted, at_least = found.nominal, found.shifted, False
    tasks, steps, kinds = 0, 0, set()
    for text, next_fire_at, jitter, count in _schedules(principal, begin + _HOUR):
        tasks += count
        kinds.add(text)
        if len(kinds) > MOST_SCHEDULES or steps > MOST_STEPS:
            at_least = True
            break
        for second in _seconds(text, max(next_fire_at, begin), begin):
            nominal[second // 60] += count
            shifted[max(0, (second + jitter) // 60)] += count
            steps += 1
    return Load(begin, _minutes(nominal), _minutes(shifted), found.estimated, at_least or tasks > MOST_TASKS)


def _schedules(principal: Principal, end: datetime) -> list[tuple[str, datetime, int, int]]:
    """(schedule as JSON, next occurrence, jitter in s, how many tasks), those that most tasks share first."""
    with connection.cursor() as cursor:
        cursor.execute(_SCHEDULES, [principal.tenant_id, end, MOST_TASKS + 1])
        return cursor.fetchall()


@lru_cache(maxsize=4 * MOST_SCHEDULES)
def _seconds(text: str, first: datetime, begin: datetime) -> tuple[int, ...]:
    """Seconds from `begin` on at which a schedule fires within the hour, from `first` on."""
    found = occurrences(Schedule.parse(loads(text)), after=first - _TICK, before=begin + _HOUR)
    return tuple(int((at - begin).total_seconds()) for at in found)


def _minutes(found: Counter[int]) -> list[int]:
    return [found[minute] for minute in range(MINUTES)]
