"""Rows for the console's tests, each valid for its state."""

import asyncio
import secrets
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from apps.definitions.models import Task
from apps.executions import feed, ids
from apps.executions.models import (
    Attempt,
    DeadLetter,
    Execution,
    ExecutionEvent,
    Outstanding,
    StandingHold,
    TaskVersion,
)
from apps.executions.states import ACTIVE, RESTING, Hold, Origin, Outcome, Overlap, Status
from apps.tenants.models import Membership, Role, Tenant
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.waiting import PATIENCE_SECONDS

PASSWORD = "a-pass-phrase-of-the-suite"
HOSTILE = "<img src=x onerror=\"document.title='owned'\">‮"
FAULT = {
    "type": "ValueError",
    "message": 'amount "12,50"\nsecond line',
    "traceback": "Traceback (most recent call last):\n  …\nValueError",
    "permanent": True,
}
TOKEN = (3 << 32) + 7


def make_tenant(slug: str = "") -> Tenant:
    slug = slug or "t" + secrets.token_hex(5)
    return Tenant.objects.create(slug=slug, name=slug)


def make_person(tenant: Tenant | None, *, name: str = "", role: Role = Role.OPERATOR, **more: Any) -> User:
    person = User.objects.create_user(name or "p" + secrets.token_hex(5), password=PASSWORD, **more)
    if tenant is not None:
        Membership.objects.create(tenant=tenant, user=person, role=role)
    return person


def now() -> datetime:
    return SYSTEM_CLOCK.now()


class Ledger:
    """One tenant's rows."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.at: datetime | None = None
        """What counts as now, however long rows take to write; None: each its own moment."""
        self._versions: dict[str, TaskVersion] = {}

    def version(self, name: str) -> TaskVersion:
        """The version of the task `name`, made at the first asking."""
        if name not in self._versions:
            self._versions[name] = self._make(name)
        return self._versions[name]

    def adopt(self, task: Task) -> None:
        """Rows of its name are this task's, which was made elsewhere."""
        self._versions[task.name] = TaskVersion.objects.get(pk=task.version_id)

    def _make(self, name: str) -> TaskVersion:
        schedule = {"type": "cron", "expression": "* * * * *", "timezone": "Europe/Paris"}
        handler = {"type": "python", "name": "demo.noop"}
        task = Task(tenant=self.tenant, name=name, schedule=schedule, handler=handler, retry_policy={"max_attempts": 4})
        version = TaskVersion.objects.create(
            task_id=task.id,
            tenant=self.tenant,
            number=1,
            name=name,
            definition={
                "name": name,
                "schedule": schedule,
                "handler": handler,
                "parameters": {"region": "eu"},
                "retry_policy": {"max_attempts": 4},
            },
            created_by="user:test",
        )
        task.version_id = version.pk
        task.save()
        return version

    def add(
        self, state: Status, *, task: str = "job", due: timedelta = timedelta(seconds=-30), **fields: Any
    ) -> Execution:
        """An execution in `state`, due that long from now (negative: before)."""
        scheduled = ids.from_ms(ids.to_ms((self.at or now()) + due))
        version = self.version(task)
        row = Execution(
            id=UUID(bytes=ids.new_id(ids.to_ms(scheduled))),
            scheduled_at=scheduled,
            run_at=scheduled,
            created_at=scheduled - timedelta(minutes=1),
            tenant=self.tenant,
            task_id=version.task_id,
            task_version=version,
            status=state.value,
            max_attempts=4,
            class_index=1,
            priority=5,
            origin=Origin.SCHEDULE,
            overlap=Overlap.ALLOW_ALL,
            idempotency_key=secrets.token_hex(8),
        )
        if state not in (Status.SCHEDULED, Status.PRELOADED, Status.SKIPPED):
            row.token, row.worker_id, row.dispatched_at = TOKEN, 7, scheduled
        if state not in (Status.SCHEDULED, Status.PRELOADED, Status.SKIPPED, Status.DISPATCHED):
            row.attempt, row.started_at = 1, scheduled + timedelta(milliseconds=3)
        if state in RESTING:
            row.finished_at = scheduled + timedelta(seconds=1)
        for name, value in fields.items():
            setattr(row, name, value)
        if state is Status.RETRYING:  # as every failure leaves it
            row.error = row.error or {"type": "ValueError", "message": "no"}
            row.wake_at = None if row.hold else row.run_at
        row.save(force_insert=True)
        self._beside(row)
        return row

    def _beside(self, row: Execution) -> None:
        """What stands in other tables for a row in this state."""
        place = {"scheduled_at": row.scheduled_at, "execution_id": row.id}
        if row.state in ACTIVE:
            Outstanding.objects.create(
                **place, worker_id=7, class_index=1, tenant_id=self.tenant.id, token=TOKEN, dispatched_at=now()
            )
        if row.state is Status.DEAD_LETTER:
            DeadLetter.objects.create(
                **place, tenant=self.tenant, task_id=row.task_id, fingerprint="ValueError", since=now()
            )
        if row.state in (Status.DEAD_LETTER, Status.COMPLETED) and row.started_at and row.finished_at:
            done = row.state is Status.COMPLETED
            Attempt.objects.create(
                **place,
                attempt=row.attempt,
                token=TOKEN,
                tenant=self.tenant,
                worker_id=7,
                outcome=Outcome.SUCCEEDED if done else Outcome.FAILED,
                due_at=row.run_at,
                started_at=row.started_at,
                finished_at=row.finished_at,
                error=row.error,
            )

    def event(self, row: Execution, *, target: Status, reason: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT nextval('execution_event_ids')")
            number = cursor.fetchone()[0]
        ExecutionEvent.objects.create(
            scheduled_at=row.scheduled_at,
            execution_id=row.id,
            event_id=number,
            tenant=self.tenant,
            at=now(),
            source=Status.PRELOADED,
            target=target,
            token=0,
            actor="dispatcher",
            reason=reason,
        )

    def pause(self, task: str, note: str) -> None:
        StandingHold.objects.create(
            target_id=self.version(task).task_id, reason=Hold.PAUSED, note=note, actor="user:test", since=now()
        )

    def one_of_each(self) -> dict[Status, Execution]:
        """Every state, with what makes its reason."""
        minute = timedelta(minutes=1)
        later = now() + timedelta(seconds=31)
        made = {
            Status.SCHEDULED: self.add(Status.SCHEDULED, task="ledger-close", due=timedelta(seconds=41)),
            Status.PRELOADED: self.add(Status.PRELOADED, task="mail-digest", due=timedelta(seconds=12)),
            Status.DISPATCHED: self.add(Status.DISPATCHED, task="thumbnail-batch", due=timedelta(seconds=-1)),
            Status.RUNNING: self.add(Status.RUNNING, task="sales-merge", due=timedelta(seconds=-8)),
            Status.RETRYING: self.add(Status.RETRYING, task="charge-retry", due=-minute, run_at=later),
            Status.WAITING: self.add(Status.WAITING, task="release-gate", due=-2 * minute),
            Status.COMPLETED: self.add(
                Status.COMPLETED, task="cache-warm", due=-3 * minute, result={"warmed": 1204, "missed": ["fr", "日本"]}
            ),
            Status.SKIPPED: self.add(Status.SKIPPED, task="sales-merge", due=-4 * minute),
            Status.CANCELLED: self.add(Status.CANCELLED, task="export-all", due=-5 * minute),
            Status.DEAD_LETTER: self.add(
                Status.DEAD_LETTER, task="invoice-import", due=-6 * minute, attempt=4, error=FAULT
            ),
        }
        self.event(made[Status.SKIPPED], target=Status.SKIPPED, reason="overlap: an earlier execution still runs")
        self.event(made[Status.CANCELLED], target=Status.CANCELLED, reason="superseded by version 2")
        return made


def change(row: Execution, **fields: Any) -> None:
    """Write the row as a daemon would: its version grows."""
    Execution.objects.with_id(row.id).update(**fields, version=row.version + 1)
    row.refresh_from_db()


async def heard_by_writers(tenant: Tenant) -> None:
    """Until this process's feed knows that somebody watches the tenant."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while tenant.id.bytes not in (feed._feed._watched or ()):
            feed.changed(tenant.id, [])
            await asyncio.sleep(0.05)
