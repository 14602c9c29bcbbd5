"""Whether a task runs at all: pause, resume, delete.

A hold is a flag that each dispatch reads, so it counts from its commit on; rewriting the rows that wait is for people
who look at them, and keeps the hot tier free of what may not run.
"""

from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.edits import mismatch_of
from apps.definitions.models import DagNode, Task
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.definitions.plans import earliest_still_due, misfire_window, oldest_partition
from apps.definitions.tasks import locked_task
from apps.executions import feed, ids, person_store, store
from apps.executions.person_store import Move, Pending
from apps.executions.states import Hold, Origin, Status
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

NOTE_CHARACTERS = 1000
_TICK = timedelta(microseconds=1)


@transaction.atomic
def pause_task(*, principal: Principal, task_id: UUID, note: str = "") -> Task:
    """Stop the task's schedule until it is resumed; triggers of persons still run. A paused task gets the new note.

    Raises NotFound, InvalidInputs.
    """
    check_note(note)
    task = locked_task(principal, task_id)
    connection = postgres.raw(django_connection)
    now = person_store.database_now(connection)
    first = task.paused_at is None
    task.paused_at = task.paused_at or now
    task.paused_note = note
    task.save(update_fields=["paused_at", "paused_note", "updated_at"])
    _set_hold(task, Hold.PAUSED, note=note, actor=principal.actor)
    if first:
        pending = person_store.lock_pending(connection, task_id=task.id, since=oldest_partition(now))
        _move(task, [_held(row) for row in pending if _is_held_by_pause(row)], actor=principal.actor)
    _audit(principal, task, "task.pause", note=note)
    return task


def check_note(note: object) -> None:
    """Raise InvalidInputs unless `note` is what may be noted."""
    if not isinstance(note, str) or len(note) > NOTE_CHARACTERS or "\0" in note:
        legal = f"text of at most {NOTE_CHARACTERS} characters"
        raise InvalidInputs([InvalidInput("/note", note, "is not a note", legal)])


@transaction.atomic
def resume_task(*, principal: Principal, task_id: UUID) -> Task:
    """Let a paused task's schedule go on. Nothing happens to one that is not paused.

    Occurrences of the pause follow the catch-up rule: those within the window run, older ones are skipped, with a
    reason where they were rows already. Raises NotFound.
    """
    task = locked_task(principal, task_id)
    if task.paused_at is None:
        return task
    connection = postgres.raw(django_connection)
    now = person_store.database_now(connection)
    schedule = Schedule.parse(task.schedule)
    edge = earliest_still_due(task, schedule.type, now=now)
    since = oldest_partition(task.paused_at)
    task.paused_at, task.paused_note = None, ""
    if task.next_fire_at is not None and task.next_fire_at < edge:
        task.next_fire_at = next_occurrence(schedule, after=edge - _TICK)
    task.save(update_fields=["paused_at", "paused_note", "next_fire_at", "updated_at"])
    _clear_hold(task, Hold.PAUSED)
    reason = f"misfire: paused for longer than {misfire_window(task, schedule.type).total_seconds():g} s after its time"
    pending = person_store.lock_pending(connection, task_id=task.id, since=since)
    moves = [_released(row, edge, reason) for row in pending if row.hold is Hold.PAUSED]
    _move(task, moves, actor=principal.actor)
    _audit(principal, task, "task.resume", skipped=sum(1 for move in moves if move.target is Status.SKIPPED))
    transaction.on_commit(wakeup.preloader.wake)
    return task


@transaction.atomic
def delete_task(*, principal: Principal, task_id: UUID, expected_version: int | None = None) -> None:
    """Take the task out of force. What waits is cancelled, what runs may end; versions and history stay.

    Raises NotFound; Conflict while nodes of DAGs refer to it; VersionMismatch unless this version is in force.
    """
    task = locked_task(principal, task_id)
    if expected_version is not None and expected_version != task.version:
        raise mismatch_of(task, expected_version, None)
    _refuse_used(task)
    connection = postgres.raw(django_connection)
    task.deleted_at = person_store.database_now(connection)
    task.next_fire_at = None
    task.save(update_fields=["deleted_at", "next_fire_at", "updated_at"])
    _clear_hold(task, Hold.PAUSED)
    _set_hold(task, Hold.DELETED, note="", actor=principal.actor)
    pending = person_store.lock_pending(connection, task_id=task.id, since=ids.EARLIEST)
    _move(task, [Move(row, Status.CANCELLED, reason="its task was deleted") for row in pending], actor=principal.actor)
    _audit(principal, task, "task.delete", name=task.name, cancelled=len(pending))


def _refuse_used(task: Task) -> None:
    nodes = DagNode.objects.filter(task=task, dag__deleted_at=None).select_related("dag").order_by("dag__name")
    if used := [f"{node.dag.name} ({node.key})" for node in nodes[:10]]:
        raise Conflict(f"the task {task.name!r} is used by DAGs: {', '.join(used)}; take it out of them first")


def _is_held_by_pause(row: Pending) -> bool:
    return row.origin is not Origin.MANUAL and row.hold is Hold.NONE


def _held(row: Pending) -> Move:
    target = Status.SCHEDULED if row.status is Status.PRELOADED else row.status
    return Move(row, target, hold=Hold.PAUSED)


def _released(row: Pending, edge: datetime, reason: str) -> Move:
    """An occurrence that has never been tried and is too late now is skipped; all else goes on."""
    too_late = row.origin is Origin.SCHEDULE and row.attempt == 0 and row.nominal_at is not None
    if too_late and row.nominal_at is not None and row.nominal_at < edge:
        return Move(row, Status.SKIPPED, reason=reason)
    return Move(row, row.status)


def _set_hold(task: Task, reason: Hold, *, note: str, actor: str) -> None:
    parameters = {"target": task.id, "reason": int(reason), "note": note, "actor": actor}
    postgres.raw(django_connection).execute(store.named_sql("hold_set"), parameters)


def _clear_hold(task: Task, reason: Hold) -> None:
    parameters = {"target": task.id, "reason": int(reason)}
    postgres.raw(django_connection).execute(store.named_sql("hold_clear"), parameters)


def _move(task: Task, moves: list[Move], *, actor: str) -> None:
    person_store.move(postgres.raw(django_connection), moves, actor=actor)
    moved = [move.row.id for move in moves]
    transaction.on_commit(lambda: feed.changed(task.tenant_id, moved))


def _audit(principal: Principal, task: Task, action: str, **detail: object) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="task",
        target_id=task.id,
        detail=detail,
    )
