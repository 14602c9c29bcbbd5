"""What a task's schedule means for the task's own columns: first occurrence, jitter; and its next run.

Pure, but for what `next_run` remembers, which changes no answer.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule, jitter_offset, next_occurrence, smallest_gap
from chronoweb.runtime.config import config

_MILLISECOND = timedelta(milliseconds=1)


def first_fire_at(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first occurrence after `after`; of a one-shot its run_at, also when that has just passed."""
    if schedule.type == "one_shot":
        return schedule.run_at
    return next_occurrence(schedule, after=after)


def next_run(row: Task | Dag, *, now: datetime) -> datetime | None:
    """The next occurrence after `now` as people look at it, whether it is an execution already or not.

    None: paused, deleted, or nothing follows. Only what may have been made ahead is searched: behind that the row's
    next_fire_at is the next.
    """
    if row.paused_at is not None or row.deleted_at is not None:
        return None
    stored, following = row.next_fire_at, _following(row.schedule, now)
    if stored is not None and stored <= now:
        return following or stored  # a one-shot that has just passed runs at once
    ahead = config().lookahead_minutes * 60 + config().materialise_margin_seconds
    made_until = now + timedelta(seconds=ahead)
    before = made_until if stored is None else min(stored, made_until)
    return following if following is not None and following < before else stored


_Key = tuple[tuple[str, str | int | None], ...]
_known: dict[_Key, tuple[datetime, datetime | None]] = {}
"""Of a schedule: what followed, and when that was asked. Until it comes, the same follows."""
_MOST_KNOWN = 20_000


def _following(stored: Mapping[str, Any], now: datetime) -> datetime | None:
    """The first occurrence after `now`. Walking a calendar takes a twentieth of a millisecond, and lists of tasks ask
    for every row of a page, again and again.
    """
    key: _Key = tuple(stored.items())
    asked, found = _known.get(key, (None, None))
    if asked is None or now < asked or (found is not None and found <= now):
        found = next_occurrence(Schedule.parse(stored), after=now)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = now, found
    return found


def jitter_ms(task: Task | Dag, schedule: Schedule) -> int:
    """run_at − scheduled_at of the occurrences of a task or a DAG: cron without strict_timing alone is shifted."""
    if schedule.type != "cron" or task.strict_timing:
        return 0
    offset = jitter_offset(
        tenant_id=task.tenant_id,
        task_id=task.id,
        smallest_gap=smallest_gap(schedule),
        maximum=timedelta(seconds=config().jitter_seconds),
    )
    return offset // _MILLISECOND
