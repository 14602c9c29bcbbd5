"""What a task's schedule means for the task's own columns: its first occurrence and its jitter. Pure."""

from datetime import datetime, timedelta

from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule, jitter_offset, next_occurrence, smallest_gap
from chronoweb.runtime.config import config

_MILLISECOND = timedelta(milliseconds=1)


def first_fire_at(schedule: Schedule, *, after: datetime) -> datetime | None:
    """The first occurrence after `after`; of a one-shot its run_at, also when that has just passed."""
    if schedule.type == "one_shot":
        return schedule.run_at
    return next_occurrence(schedule, after=after)


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
