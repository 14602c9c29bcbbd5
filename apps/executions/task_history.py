"""How a task's last executions went: always a tenant's, along an index, never a count of the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.executions import ids
from apps.executions.states import Status
from apps.executions.store.statements import named_sql
from apps.tenants.principal import Principal

_MILLISECOND = timedelta(milliseconds=1)


class ExecutionLine(NamedTuple):
    """An execution as strips and plots show it."""

    task_id: UUID
    id: UUID
    status: int
    version: int
    attempt: int
    scheduled_at: datetime
    run_at: datetime
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None

    @property
    def state(self) -> Status:
        return Status(self.status)

    @property
    def took(self) -> timedelta | None:
        """Of the last attempt; None before it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(timedelta(0), self.finished_at - self.started_at)

    @property
    def late(self) -> timedelta | None:
        """From when it could begin to when it began; None where a retry has moved both, and before it began."""
        if self.started_at is None or self.attempt != 1:
            return None
        return max(timedelta(0), self.started_at - max(self.run_at, self.created_at))


@dataclass(frozen=True)
class Fault:
    """One type of error. type: empty where none was told. message and execution: of the last one."""

    type: str
    attempts: int
    executions: int
    first: datetime
    last: datetime
    message: str
    execution: UUID


def latest_of_tasks(
    principal: Principal, task_ids: Sequence[UUID], *, each: int, since: datetime, now: datetime
) -> list[ExecutionLine]:
    """The last `each` executions of each task that were due from `since` to `now`, latest first; one query."""
    if not task_ids:
        return []
    parameters = {
        "tasks": list(task_ids),
        "tenant": principal.tenant_id,
        "each": each,
        "since": since,
        "now": now,
        "edge": ids.lowest(now + _MILLISECOND),
    }
    return [ExecutionLine(*row) for row in _rows("latest_of_tasks", parameters)]


def faults_of(principal: Principal, lines: Sequence[ExecutionLine]) -> list[Fault]:
    """What failed in these executions, the most frequent type first; one query."""
    if not lines:
        return []
    parameters = {
        "tenant": principal.tenant_id,
        "instants": [line.scheduled_at for line in lines],
        "executions": [line.id for line in lines],
    }
    return [Fault(*row) for row in _rows("faults_of", parameters)]


def _rows(name: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(named_sql(name), parameters)
        return cursor.fetchall()
