"""Editing a task: a new version, in force at once, also for occurrences that are rows already but not yet sent."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.mismatch import VersionMismatch, mismatch
from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule, occurrences
from apps.definitions.plans import oldest_partition, plan_of, run_at_of
from apps.definitions.scheduling import first_fire_at, jitter_ms
from apps.definitions.secret_references import check_names
from apps.definitions.tasks import locked_task, save_named
from apps.definitions.validation import FIELDS, read_document
from apps.definitions.versions import document_of, put_document, write_version
from apps.executions import feed, person_store
from apps.executions.models import TaskVersion
from apps.executions.person_store import Move, Pending
from apps.executions.states import Hold, Origin, Status
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup

SUPERSEDED = "superseded by version "
_BACK = "back on the schedule with version "
_TICK = timedelta(microseconds=1)
_FAR = timedelta(hours=1)


@transaction.atomic
def update_task(
    *, principal: Principal, task_id: UUID, data: Any, partial: bool, expected_version: int | None = None
) -> Task:
    """Put a new document in force (partial: the fields given, each as a whole); none is written if nothing changes.

    Executions of the schedule that no worker has seen follow: those whose time is still on the schedule get the new
    terms, the others are cancelled as superseded, and one that comes back is revived. What has been tried keeps its
    version. expected_version: refuse with VersionMismatch unless this version is in force. Raises NotFound,
    InvalidInputs, Conflict when the name is taken.
    """
    task = locked_task(principal, task_id)
    if expected_version is not None and expected_version != task.version:
        raise mismatch_of(task, expected_version, data)
    before = document_of(task)
    now = person_store.database_now(postgres.raw(django_connection))
    given = {**before, **data} if partial and isinstance(data, Mapping) else data
    document = read_document(given, now=now, before=before)
    changed = [name for name in FIELDS if document[name] != before[name]]
    if not changed:
        return task
    check_names({name: document[name] for name in changed}, principal.tenant_id)
    put_document(task, document)
    task.version += 1
    schedule = Schedule.parse(task.schedule)
    if "schedule" in changed:
        task.next_fire_at = refire_at(task, schedule, now)
    task.jitter_ms = jitter_ms(task, schedule)
    write_version(task, actor=principal.actor)
    if "name" in changed:
        save_named(task, principal, task.save)
    else:
        task.save()
    follow(task, schedule, now=now, actor=principal.actor)
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action="task.update",
        target_type="task",
        target_id=task.id,
        detail={"version": task.version, "changed": changed},
    )
    transaction.on_commit(wakeup.preloader.wake)
    return task


def mismatch_of(task: Task, expected: int, yours: Any) -> VersionMismatch:
    """Why an edit that was made from version `expected` is refused."""
    seen = TaskVersion.objects.filter(task_id=task.id, number=expected).values_list("definition", flat=True).first()
    current = document_of(task)
    return mismatch(f"task {task.id}", version=task.version, expected=expected, seen=seen, current=current, yours=yours)


def refire_at(task: Task | Dag, schedule: Schedule, now: datetime) -> datetime | None:
    """The new schedule counts from now, so no occurrence that was never promised is caught up. But where the preloader
    is late, from what it has not seen yet: nothing is missed. Occurrences that are rows already stay one row each.
    """
    behind = task.next_fire_at is not None and task.next_fire_at <= now and task.paused_at is None
    after = task.next_fire_at - _TICK if behind and task.next_fire_at is not None else now
    return first_fire_at(schedule, after=after)


def follow(task: Task, schedule: Schedule, *, now: datetime, actor: str, because: str = "") -> None:
    """Let executions of the schedule that no worker has seen follow the task as it stands.

    because: told by the events of what is superseded.
    """
    connection = postgres.raw(django_connection)
    since = oldest_partition(now)
    pending = person_store.lock_pending(connection, task_id=task.id, since=since)
    untried = [row for row in pending if row.origin is Origin.SCHEDULE and row.attempt == 0]
    superseded = person_store.lock_superseded(connection, task_id=task.id, since=now, reason=SUPERSEDED)
    staying = on_schedule(schedule, (row.nominal_at for row in [*untried, *superseded] if row.nominal_at))
    kept = [_kept(task, row, now) for row in [*untried, *superseded] if row.nominal_at in staying]
    gone = [
        Move(row, Status.CANCELLED, reason=f"{SUPERSEDED}{task.version}{because}")
        for row in untried
        if row.nominal_at not in staying
    ]
    person_store.rewrite(connection, kept, plan=plan_of(task), actor=actor)
    person_store.move(connection, gone, actor=actor)
    moved = [move.row.id for move in [*kept, *gone]]
    transaction.on_commit(lambda: feed.changed(task.tenant_id, moved))


def _kept(task: Task, row: Pending, now: datetime) -> Move:
    assert row.nominal_at is not None
    revived = row.status is Status.CANCELLED
    # What a hold of its tenant has put aside goes back to the preloader, which passes over it while that hold stands.
    hold = Hold.PAUSED if task.paused_at or row.hold is Hold.PAUSED else Hold.NONE
    return Move(
        row,
        Status.SCHEDULED,
        hold=hold,
        run_at=run_at_of(task, row.nominal_at, now=now),
        reason=f"{_BACK}{task.version}" if revived else None,
    )


def on_schedule(schedule: Schedule, nominals: Iterable[datetime]) -> set[datetime]:
    """Those of `nominals` that the schedule has."""
    found: set[datetime] = set()
    walk: Iterator[datetime] = iter(())
    head: datetime | None = None
    for nominal in sorted(nominals):
        if head is None or nominal - head > _FAR:  # far apart: looking is cheaper than walking
            walk = occurrences(schedule, after=nominal - _TICK)
            head = next(walk, None)
        while head is not None and head < nominal:
            head = next(walk, None)
        if head is None:
            break
        if head == nominal:
            found.add(nominal)
    return found
