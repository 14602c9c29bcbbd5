"""New time zone rules: what was planned under others is planned anew, as by an edit that changes nothing else.

Countries change their clocks at short notice. One component computes fire times, but rows made an hour ahead and
next_fire_at were computed by the rules that were installed then.
"""

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from django.db import transaction

from apps.definitions.edits import follow as follow_the_task
from apps.definitions.edits import refire_at
from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule
from apps.definitions.zones import TZDATA_VERSION
from chronoweb.runtime.away import is_away
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

logger = logging.getLogger(__name__)

BATCH = 100
Planned = TypeVar("Planned", Task, Dag)


def follow(*, now: datetime, actor: str) -> int:
    """Plan up to BATCH tasks and DAGs anew that were planned by other rules; returns how many. Inside the caller's
    transaction.

    Occurrences that are not under way follow: those off the new times are superseded, missing ones are made. What has
    run under the old rules is not undone. Of DAGs nothing is under way but what runs: a run is made when it is due.
    """
    tasks, dags = _planned_by_others(Task), _planned_by_others(Dag)
    moved_tasks = sum(_guarded(task, partial(_plan_task, task, now, actor)) for task in tasks)
    moved_dags = sum(_guarded(dag, partial(_plan_dag, dag, now)) for dag in dags)
    Task.objects.bulk_update(tasks, ["tzdata", "next_fire_at"])
    Dag.objects.bulk_update(dags, ["tzdata", "next_fire_at", "waiting_since"])
    if moved_tasks or moved_dags:
        logger.info(
            "planned by new time zone rules",
            extra={"action": "preloader.zones", "tzdata": TZDATA_VERSION, "tasks": moved_tasks, "dags": moved_dags},
        )
    return len(tasks) + len(dags)


def _planned_by_others(model: type[Planned]) -> list[Planned]:
    rows = model._default_manager.filter(deleted_at=None).exclude(tzdata=TZDATA_VERSION).order_by("id")
    return list(rows.select_for_update(skip_locked=True)[:BATCH])


def _guarded(planned: Task | Dag, plan: Callable[[], bool]) -> bool:
    """One that cannot be planned stops nobody else: whoever makes its occurrences sets it aside and says so."""
    try:
        with transaction.atomic():
            return plan()
    except Exception as error:
        if is_away(error):
            raise
        logger.exception("it was not planned anew", extra={"action": "preloader.zones", "planned": str(planned.id)})
        return False


def _plan_task(task: Task, now: datetime, actor: str) -> bool:
    before = task.tzdata
    schedule = _wall_clock_schedule(task)
    if schedule is None:
        return False
    task.next_fire_at = refire_at(task, schedule, now)
    because = f", as time zones went from {before or 'unknown rules'} to {TZDATA_VERSION}"
    follow_the_task(task, schedule, now=now, actor=actor, because=because)
    return True


def _plan_dag(dag: Dag, now: datetime) -> bool:
    schedule = _wall_clock_schedule(dag)
    if schedule is None:
        return False
    dag.next_fire_at = refire_at(dag, schedule, now)
    if dag.next_fire_at is None or dag.next_fire_at > now:
        dag.waiting_since = None  # the occurrence that waited for earlier runs has another time now
    return True


def _wall_clock_schedule(planned: Task | Dag) -> Schedule | None:
    """The schedule of what is planned by the rules in force from now on, if its times depend on them: all others are
    instants.
    """
    planned.tzdata = TZDATA_VERSION
    try:
        schedule = Schedule.parse(planned.schedule)
    except (InvalidInput, InvalidInputs) as error:
        # Its zone is gone: whoever makes its occurrences sets it aside and says so each minute.
        logger.error("a schedule cannot be read", extra={"action": "preloader.zones", "error": str(error)})
        return None
    return schedule if schedule.type == "cron" and schedule.timezone != "UTC" else None
