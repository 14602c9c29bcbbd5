"""Executions of several tasks that go on under the versions that their tasks have in force."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import psycopg

from apps.definitions.models import Task
from apps.definitions.plans import plan_of
from apps.executions import concurrency, person_store
from apps.executions.models import Execution
from apps.executions.person_store import Move
from chronoweb.runtime.errors import InvalidInputs


@dataclass(frozen=True)
class Renewal:
    """keys: of those that get another version, the concurrency key that their parameters come to under it, by task.

    refused: whose parameters do not fit their task as it is now, and why.
    """

    tasks: dict[UUID, Task] = field(default_factory=dict)
    keys: dict[UUID, dict[bytes, str | None]] = field(default_factory=dict)
    refused: dict[UUID, str] = field(default_factory=dict)


NONE = Renewal()


def read(tenant_id: UUID, identities: Sequence[UUID]) -> Renewal:
    """Of these executions; nodes of runs of DAGs keep the versions that their runs have. Two queries."""
    rows = Execution.objects.with_ids(identities).filter(tenant_id=tenant_id, dag_run_id=None)
    found = list(rows.select_related("task_version").defer("result", "error"))
    tasks = Task.objects.filter(tenant_id=tenant_id).in_bulk({row.task_id for row in found})
    keys: dict[UUID, dict[bytes, str | None]] = defaultdict(dict)
    refused = {}
    for row in found:
        task = tasks.get(row.task_id)
        if task is None or task.version_id == row.task_version_id:
            continue
        try:
            keys[task.id][row.id.bytes] = key_under(task, row)
        except InvalidInputs as error:
            refused[row.id] = f"its parameters do not fit version {task.version} of its task: {error}"
    return Renewal(tasks, dict(keys), refused)


def write(
    connection: psycopg.Connection, renewal: Renewal, done: Collection[bytes], *, tenant_id: UUID, actor: str
) -> None:
    """Give those that have just been replayed, and so are locked, the terms of their tasks; attempts go on counting."""
    replayed = set(done)
    for task_id, keys in renewal.keys.items():
        group = [UUID(bytes=identity) for identity in keys if identity in replayed]
        if group:
            rewrite(connection, renewal.tasks[task_id], group, keys=keys, tenant_id=tenant_id, actor=actor)


def rewrite(
    connection: psycopg.Connection,
    task: Task,
    identities: Sequence[UUID],
    *,
    keys: dict[bytes, str | None],
    tenant_id: UUID,
    actor: str,
) -> None:
    """The same for executions of one task. keys: the concurrency key of each."""
    rows = person_store.lock_several(connection, identities=identities, tenant_id=tenant_id)
    reason = f"goes on under version {task.version} of its task"
    moves = [Move(row, row.status, row.hold, reason, row.run_at) for row in rows]
    person_store.rewrite(connection, moves, plan=plan_of(task), keys=keys, actor=actor)


def key_under(task: Task, execution: Execution) -> str | None:
    """The concurrency key that it comes to under the task as it is now: by its own parameters, or else the task's.

    Raises InvalidInputs.
    """
    parameters = task.parameters if execution.payload is None else execution.payload
    return concurrency.key_of(task.concurrency, parameters, tenant_id=task.tenant_id.bytes)
