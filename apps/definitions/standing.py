"""Whether a task runs at all: pause, resume, delete.

A hold is a flag that each dispatch reads, so it counts from its commit on; rewriting the rows that wait is for people
who look at them, and keeps the hot tier free of what may not run.
"""

from collections import Counter
from collections.abc import Sequence
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
    pause_all(principal, [task], note=note)
    return task


def pause_all(principal: Principal, tasks: Sequence[Task], *, note: str) -> None:
    """Pause tasks of the principal that the caller has locked."""
    connection = postgres.raw(django_connection)
    now = person_store.database_now(connection)
    fresh = [task for task in tasks if task.paused_at is None]
    for task in tasks:
        task.paused_at, task.paused_note, task.updated_at = task.paused_at or now, note, now
    Task.objects.bulk_update(tasks, ["paused_at", "paused_note", "updated_at"])
    _set_hold(tasks, Hold.PAUSED, note=note, actor=principal.actor)
    pending = person_store.lock_pending_of(connection, tasks=[t.id for t in fresh], since=oldest_partition(now))
    _move(principal, [_held(row) for _, row in pending if _is_held_by_pause(row)])
    _audit(principal, tasks, "task.pause", note=note)


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
    resume_all(principal, [task])
    return task


def resume_all(principal: Principal, tasks: Sequence[Task]) -> None:
    """Resume those of the principal's tasks that are paused; the caller has locked them."""
    paused = [task for task in tasks if task.paused_at is not None]
    if not paused:
        return
    connection = postgres.raw(django_connection)
    now = person_store.database_now(connection)
    since = min(oldest_partition(task.paused_at) for task in paused if task.paused_at)
    edges = {task.id: _resume(task, now) for task in paused}
    Task.objects.bulk_update(paused, ["paused_at", "paused_note", "next_fire_at", "updated_at"])
    _clear_hold(paused, Hold.PAUSED)
    pending = person_store.lock_pending_of(connection, tasks=list(edges), since=since)
    moves: dict[UUID, list[Move]] = {task.id: [] for task in paused}
    for task_id, row in pending:
        if row.hold is Hold.PAUSED:
            moves[task_id].append(_released(row, *edges[task_id]))
    _move(principal, [move for of_task in moves.values() for move in of_task])
    for task in paused:
        _audit(principal, [task], "task.resume", skipped=sum(m.target is Status.SKIPPED for m in moves[task.id]))
    transaction.on_commit(wakeup.preloader.wake)


def _resume(task: Task, now: datetime) -> tuple[datetime, str]:
    """Where its catch-up begins, and what is said of occurrences before."""
    schedule = Schedule.parse(task.schedule)
    edge = earliest_still_due(task, schedule.type, now=now)
    task.paused_at, task.paused_note, task.updated_at = None, "", now
    if task.next_fire_at is not None and task.next_fire_at < edge:
        task.next_fire_at = next_occurrence(schedule, after=edge - _TICK)
    window = misfire_window(task, schedule.type).total_seconds()
    return edge, f"misfire: paused for longer than {window:g} s after its time"


@transaction.atomic
def delete_task(*, principal: Principal, task_id: UUID, expected_version: int | None = None) -> None:
    """Take the task out of force. What waits is cancelled, what runs may end; versions and history stay.

    Raises NotFound; Conflict while nodes of DAGs refer to it; VersionMismatch unless this version is in force.
    """
    task = locked_task(principal, task_id)
    if expected_version is not None and expected_version != task.version:
        raise mismatch_of(task, expected_version, None)
    if refused := delete_all(principal, [task]):
        raise refused[task.id]


def delete_all(principal: Principal, tasks: Sequence[Task]) -> dict[UUID, Conflict]:
    """Delete tasks of the principal that the caller has locked. Returns those that nodes of DAGs refer to, with why
    they stay.
    """
    refused = _used(tasks)
    going = [task for task in tasks if task.id not in refused]
    connection = postgres.raw(django_connection)
    now = person_store.database_now(connection)
    for task in going:
        task.deleted_at, task.next_fire_at, task.updated_at = now, None, now
    Task.objects.bulk_update(going, ["deleted_at", "next_fire_at", "updated_at"])
    _clear_hold(going, Hold.PAUSED)
    _set_hold(going, Hold.DELETED, note="", actor=principal.actor)
    pending = person_store.lock_pending_of(connection, tasks=[task.id for task in going], since=ids.EARLIEST)
    _move(principal, [Move(row, Status.CANCELLED, reason="its task was deleted") for _, row in pending])
    cancelled = Counter(task_id for task_id, _ in pending)
    for task in going:
        _audit(principal, [task], "task.delete", name=task.name, cancelled=cancelled[task.id])
    return refused


def _used(tasks: Sequence[Task]) -> dict[UUID, Conflict]:
    nodes = DagNode.objects.filter(task__in=tasks, dag__deleted_at=None).select_related("dag").order_by("dag__name")
    used: dict[UUID, list[str]] = {}
    for node in nodes:
        assert node.task_id is not None
        used.setdefault(node.task_id, []).append(f"{node.dag.name} ({node.key})")
    return {
        task.id: Conflict(
            f"the task {task.name!r} is used by DAGs: {', '.join(used[task.id][:10])}; take it out of them first"
        )
        for task in tasks
        if task.id in used
    }


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


def _set_hold(tasks: Sequence[Task], reason: Hold, *, note: str, actor: str) -> None:
    targets = [task.id for task in tasks]
    parameters = {"targets": targets, "reason": int(reason), "note": note, "actor": actor}
    postgres.raw(django_connection).execute(store.named_sql("holds_set"), parameters)


def _clear_hold(tasks: Sequence[Task], reason: Hold) -> None:
    parameters = {"targets": [task.id for task in tasks], "reason": int(reason)}
    postgres.raw(django_connection).execute(store.named_sql("holds_clear"), parameters)


def _move(principal: Principal, moves: list[Move]) -> None:
    person_store.move(postgres.raw(django_connection), moves, actor=principal.actor)
    moved = [move.row.id for move in moves]
    transaction.on_commit(lambda: feed.changed(principal.tenant_id, moved))


def _audit(principal: Principal, tasks: Sequence[Task], action: str, **detail: object) -> None:
    audit.record_all(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="task",
        target_ids=[task.id for task in tasks],
        detail=detail,
    )
