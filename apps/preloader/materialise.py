"""From schedules to executions: occurrences inside the lookahead become rows of the ledger.

A batch of tasks is one transaction: rows inserted and next_fire_at moved together, so a crash between the two
leaves neither. A row that is there already stays as it is.
"""

import logging
from datetime import datetime, timedelta

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions import plans
from apps.definitions.models import Task
from apps.executions import feed, store
from chronoweb.runtime import faults, postgres
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost

logger = logging.getLogger(__name__)

_TASKS_A_BATCH = 200
_OCCURRENCES_A_TASK = 1000


def materialise(config: Config, *, role: str, epoch: int) -> int:
    """One batch of tasks whose next occurrence is near; returns how many tasks it looked at.

    Raises LeadershipLost when the epoch is stale.
    """
    with transaction.atomic():
        now = _database_now(role, epoch)
        horizon = now + timedelta(minutes=config.lookahead_minutes, seconds=config.materialise_margin_seconds)
        due = list(
            Task.objects.filter(next_fire_at__lte=horizon, paused_at=None, deleted_at=None)
            .order_by("next_fire_at", "id")
            .select_for_update(skip_locked=True, no_key=True)[:_TASKS_A_BATCH]
        )
        made, skipped = [], []
        for task in due:
            plan = plans.materialise_task(task, now=now, horizon=horizon, limit=_OCCURRENCES_A_TASK)
            made += plan.executions
            skipped += plan.skipped
            task.next_fire_at = plan.next_fire_at
        raw = postgres.raw(django_connection)
        new = store.insert(raw, [*made, *(row for row, _ in skipped)])
        told = [(row, reason) for row, reason in skipped if row.id in new]
        store.record_events(
            raw, [row for row, _ in told], source=None, actor="preloader", reasons=[reason for _, reason in told]
        )
        if new:
            faults.point("preloader.inserted")
        Task.objects.bulk_update(due, ["next_fire_at"])
    feed.changed_many((row.tenant_id, row.id) for row in made if row.id in new)
    if new:
        logger.info(
            "materialised",
            extra={"action": "preloader.materialised", "executions": len(new), "tasks": len(due), "skipped": len(told)},
        )
    return len(due)


def _database_now(role: str, epoch: int) -> datetime:
    with django_connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp() FROM leases WHERE role = %s AND epoch = %s AND expires_at > clock_timestamp()"
            " FOR SHARE",
            [role, epoch],
        )
        row = cursor.fetchone()
    if row is None:
        raise LeadershipLost(f"epoch {epoch} of {role} is stale: nothing was materialised")
    return row[0]
