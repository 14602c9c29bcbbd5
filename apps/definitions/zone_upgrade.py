"""New time zone rules: what was planned under others is planned anew, as by an edit that changes nothing else.

Countries change their clocks at short notice. One component computes fire times, but rows made an hour ahead and
next_fire_at were computed by the rules that were installed then.
"""

import logging
from datetime import datetime

from apps.definitions.edits import follow as follow_the_task
from apps.definitions.edits import refire_at
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.definitions.zones import TZDATA_VERSION
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

logger = logging.getLogger(__name__)

BATCH = 100


def follow(*, now: datetime, actor: str) -> int:
    """Plan up to BATCH tasks anew that were planned by other rules; returns how many. Inside the caller's transaction.

    Occurrences that are not under way follow: those off the new times are superseded, missing ones are made. What has
    run under the old rules is not undone.
    """
    tasks = list(
        Task.objects.filter(deleted_at=None)
        .exclude(tzdata=TZDATA_VERSION)
        .order_by("id")
        .select_for_update(skip_locked=True)[:BATCH]
    )
    moved = sum(_plan_anew(task, now, actor) for task in tasks)
    Task.objects.bulk_update(tasks, ["tzdata", "next_fire_at"])
    if moved:
        logger.info(
            "planned by new time zone rules",
            extra={"action": "preloader.zones", "tzdata": TZDATA_VERSION, "tasks": moved},
        )
    return len(tasks)


def _plan_anew(task: Task, now: datetime, actor: str) -> bool:
    """Whether its times may depend on the rules: all other schedules are instants."""
    before, task.tzdata = task.tzdata, TZDATA_VERSION
    try:
        schedule = Schedule.parse(task.schedule)
    except (InvalidInput, InvalidInputs) as error:
        # Its zone is gone: materialising sets it aside and says so each minute.
        logger.error("a schedule cannot be read", extra={"action": "preloader.zones", "error": str(error)})
        return False
    if schedule.type != "cron" or schedule.timezone == "UTC":
        return False
    task.next_fire_at = refire_at(task, schedule, now)
    because = f", as time zones went from {before or 'unknown rules'} to {TZDATA_VERSION}"
    follow_the_task(task, schedule, now=now, actor=actor, because=because)
    return True
