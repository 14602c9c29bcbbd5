"""From schedules to executions: occurrences inside the lookahead become rows of the ledger.

A batch of tasks is one transaction: rows inserted and next_fire_at moved together, so a crash between the two
leaves neither. A row that is there already stays as it is.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import psycopg
from django.db import IntegrityError, transaction
from django.db import connection as django_connection
from prometheus_client import Counter

from apps.definitions import plans, zone_upgrade
from apps.definitions.models import Task
from apps.executions import feed, ids, partitions, store
from apps.executions.rows import NewExecution
from apps.preloader.epoch import database_now
from chronoweb.runtime import faults, postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

_TASKS_A_BATCH = 200
_OCCURRENCES_A_TASK = 1000
_SET_ASIDE_SECONDS = 60.0

MATERIALISED = Counter("chronoweb_materialised_total", "Occurrences that became executions")
MISFIRED = Counter("chronoweb_misfired_total", "Occurrences skipped because their time had passed")


@dataclass
class Materialiser:
    """Works under one role. A task that cannot be planned is set aside for a minute and stops nobody else."""

    config: Config
    role: str
    clock: Clock = SYSTEM_CLOCK
    _aside: dict[UUID, float] = field(default_factory=dict)
    _zones_followed: int | None = None

    def materialise(self, epoch: int, keeper: psycopg.Connection) -> int:
        """One batch of tasks whose next occurrence is near; returns how many tasks were moved on.

        keeper: a connection to make a missing day's partition with. Raises LeadershipLost when the epoch is stale.
        """
        try:
            return self._batch(epoch)
        except (IntegrityError, psycopg.errors.CheckViolation):
            # Catch-up reaches behind the partitions that were kept, after a long time without a keeper.
            if not self._make_days(keeper):
                raise
            return self._batch(epoch)

    def follow_zones(self, epoch: int) -> int:
        """Plan a batch of tasks anew that were planned by other time zone rules; returns how many.

        Asked at each pass, it looks until nothing is left, once a leadership: rules come with a new release.
        """
        if self._zones_followed == epoch:
            return 0
        with transaction.atomic():
            followed = zone_upgrade.follow(now=database_now(self.role, epoch), actor=self.role)
        if followed < zone_upgrade.BATCH:
            self._zones_followed = epoch
        return followed

    @transaction.atomic
    def _batch(self, epoch: int) -> int:
        now = database_now(self.role, epoch, hold=False)
        due = self._due(now)
        made: list[NewExecution] = []
        skipped: list[tuple[NewExecution, str]] = []
        moved = [task for task in due if self._plan(task, now, made, skipped)]
        if moved:
            database_now(self.role, epoch)  # planning may take long; the lease is held from here on
        raw = postgres.raw(django_connection)
        new = store.insert(raw, [*made, *(row for row, _ in skipped)])
        told = [(row, reason) for row, reason in skipped if row.id in new]
        store.record_events(
            raw, [row for row, _ in told], source=None, actor=self.role, reasons=[reason for _, reason in told]
        )
        if new:
            faults.point("preloader.inserted")
        Task.objects.bulk_update(moved, ["next_fire_at"])
        transaction.on_commit(lambda: feed.changed_many((row.tenant_id, row.id) for row in made if row.id in new))
        if new:
            counts = {"executions": len(new), "tasks": len(moved), "skipped": len(told)}
            MATERIALISED.inc(len(new) - len(told))
            MISFIRED.inc(len(told))
            logger.info("materialised", extra={"action": "preloader.materialised", **counts})
        return len(moved)

    def _horizon(self, now: datetime) -> datetime:
        config = self.config
        return now + timedelta(minutes=config.lookahead_minutes, seconds=config.materialise_margin_seconds)

    def _due(self, now: datetime) -> list[Task]:
        monotonic = self.clock.monotonic()
        self._aside = {task: until for task, until in self._aside.items() if until > monotonic}
        return list(
            Task.objects.filter(next_fire_at__lte=self._horizon(now), paused_at=None, deleted_at=None)
            .exclude(id__in=list(self._aside))
            .order_by("next_fire_at", "id")
            .select_for_update(skip_locked=True, no_key=True)[:_TASKS_A_BATCH]
        )

    def _plan(
        self, task: Task, now: datetime, made: list[NewExecution], skipped: list[tuple[NewExecution, str]]
    ) -> bool:
        try:
            plan = plans.materialise_task(task, now=now, horizon=self._horizon(now), limit=_OCCURRENCES_A_TASK)
        except Exception:
            # One definition that cannot be read any more must not stop every other schedule.
            logger.exception("a task was set aside", extra={"action": "preloader.set_aside", "task": str(task.id)})
            self._aside[task.id] = self.clock.monotonic() + _SET_ASIDE_SECONDS
            return False
        made += plan.executions
        skipped += plan.skipped
        task.next_fire_at = plan.next_fire_at
        return True

    def _make_days(self, keeper: psycopg.Connection) -> list[int]:
        """The days from the oldest waiting occurrence on that catch-up may reach."""
        with django_connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            today = ids.day_of(cursor.fetchone()[0])
        oldest = today - self.config.partition_days_back
        return partitions.ensure(keeper, range(oldest, today + self.config.partition_days_ahead + 1))
