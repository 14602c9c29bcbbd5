"""What persons do to executions: each function is one transaction, its event and its audit entry included."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import feed, ids, person_store, store
from apps.executions.dags.operations import clear_node
from apps.executions.models import Execution, RunNode
from apps.executions.person_store import Move, Pending
from apps.executions.rows import NewExecution
from apps.executions.states import ACTIVE, RESTING, Origin, Overlap, Status
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs, NotFound

REASON_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Edited:
    """Other parameters than an execution failed with: JSON, and the concurrency key that they come to."""

    payload: bytes
    concurrency_key: str | None


@transaction.atomic
def replay(*, principal: Principal, execution_id: UUID, from_start: bool = False, edited: Edited | None = None) -> UUID:
    """Send a dead letter round again, due now: DEAD_LETTER → SCHEDULED, with a fresh budget of attempts.

    It goes on behind its checkpoint. from_start: that is dropped. edited: with these parameters from now on
    (definitions.replaying reads them). One of a run of a DAG has its node cleared instead, with what comes after it.
    Returns the id of what will run. Raises NotFound; Conflict when it is no dead letter (any more), when its task is
    deleted, or when parameters are given to a node of a run.
    """
    row = _locked(principal, execution_id)
    if row.status is not Status.DEAD_LETTER:
        raise _state_conflict(execution_id, row, "replayed", "dead_letter")
    execution = _read(execution_id)
    _refuse_deleted(execution)
    if execution.dag_run_id is not None:
        if edited is not None:
            raise Conflict(f"execution {execution_id} is a node of a run: its run gives it its parameters")
        return _again_in_its_run(principal, execution)
    reason = "replayed from the dead letters"
    reason += (", with edited parameters" if edited else "") + (", from the start" if from_start else "")
    terms: dict[str, Any] = {
        "attempts": _attempts(execution),
        "from_start": from_start,
        "edited": edited is not None,
        "payload": None if edited is None else edited.payload.decode(),
        "concurrency_key": None if edited is None else edited.concurrency_key,
    }
    told = {"parameters": "edited"} if edited else None
    _act(principal, "replay", row, reason=reason, told=told, **terms)
    transaction.on_commit(wakeup.preloader.wake)
    return execution_id


@transaction.atomic
def retry(*, principal: Principal, execution_id: UUID) -> UUID:
    """Run once more what has ended: a dead letter is replayed; all else becomes a new execution (rerun_of). A node of
    a run of a DAG is cleared, with what comes after it.

    Returns the id of what will run. Raises NotFound; Conflict while it has not ended.
    """
    row = _locked(principal, execution_id)
    if row.status is Status.DEAD_LETTER:
        return replay(principal=principal, execution_id=execution_id)
    if row.status not in RESTING:
        raise _state_conflict(execution_id, row, "retried", "completed, cancelled, skipped or dead_letter")
    execution = _read(execution_id)
    _refuse_deleted(execution)
    if execution.dag_run_id is not None:
        return _again_in_its_run(principal, execution)
    connection = postgres.raw(django_connection)
    rerun = _rerun_of(execution, ids.to_ms(person_store.database_now(connection)))
    store.insert(connection, [rerun])
    made = UUID(bytes=rerun.id)
    _tell(principal, "execution.retry", execution_id, rerun.id, rerun=str(made))
    transaction.on_commit(wakeup.preloader.wake)
    return made


def check_reason(reason: object) -> None:
    """Raises InvalidInputs for what says no reason of an act: anything but a text of a few lines."""
    if not isinstance(reason, str) or len(reason) > REASON_CHARACTERS or "\0" in reason:
        legal = f"text of at most {REASON_CHARACTERS} characters"
        raise InvalidInputs([InvalidInput("/reason", reason, "is not a reason", legal)])


@transaction.atomic
def discard(*, principal: Principal, execution_id: UUID, reason: str = "") -> None:
    """Give a dead letter up: DEAD_LETTER → CANCELLED. Raises NotFound, Conflict, InvalidInputs."""
    check_reason(reason)
    row = _locked(principal, execution_id)
    if row.status is not Status.DEAD_LETTER:
        raise _state_conflict(execution_id, row, "discarded", "dead_letter")
    _act(principal, "discard", row, reason=f"discarded: {reason}" if reason else "discarded", told={"reason": reason})


@transaction.atomic
def cancel(*, principal: Principal, execution_id: UUID) -> None:
    """Stop an execution: at once while it waits; what a worker has is asked to stop, and ends within the watchdog's
    deadline. Repeating it changes nothing. Raises NotFound; Conflict when it has ended otherwise.
    """
    row = _locked(principal, execution_id)
    if row.status is Status.CANCELLED:
        return
    if row.status in RESTING:
        raise _state_conflict(execution_id, row, "cancelled", "any state before the end")
    if row.status in ACTIVE:
        _act(principal, "request_cancel", row, reason="cancel requested")
        return
    move = Move(row, Status.CANCELLED, reason="cancelled")
    person_store.move(postgres.raw(django_connection), [move], actor=principal.actor)
    transaction.on_commit(wakeup.preloader.wake)  # its run may release what comes after it
    _tell(principal, "execution.cancel", execution_id, row.id)


def _locked(principal: Principal, execution_id: UUID) -> Pending:
    connection = postgres.raw(django_connection)
    row = person_store.lock_one(connection, identity=execution_id, tenant_id=principal.tenant_id)
    if row is None:
        raise NotFound(f"no execution with id {execution_id} in tenant {principal.tenant_slug}")
    return row


def _read(execution_id: UUID) -> Execution:
    return Execution.objects.with_id(execution_id).select_related("task_version").get()


def _refuse_deleted(execution: Execution) -> None:
    if person_store.task_is_deleted(postgres.raw(django_connection), task_id=execution.task_id):
        raise Conflict(f"the task {execution.task_id} of execution {execution.id} is deleted: nothing of it runs again")


def _again_in_its_run(principal: Principal, execution: Execution) -> UUID:
    """Its run reopens with it; of a mapped node every item runs again."""
    assert execution.dag_run_id is not None
    assert execution.dag_node is not None
    node = RunNode.objects.get(run_id=execution.dag_run_id, node=execution.dag_node)
    if node.generation != execution.dag_generation:
        raise Conflict(f"execution {execution.id} is of a generation that was cleared: only the last one runs again")
    clear_node(principal=principal, run_id=execution.dag_run_id, node_id=node.node_id)
    made = Execution.objects.filter(
        dag_run_id=execution.dag_run_id, dag_node=execution.dag_node, dag_generation=node.generation + 1
    )
    same = made.filter(dag_item=execution.dag_item).first() or made.first()
    return execution.id if same is None else same.id


def _attempts(execution: Execution) -> int:
    return execution.task_version.definition["retry_policy"]["max_attempts"]


def _rerun_of(execution: Execution, now_ms: int) -> NewExecution:
    identity = ids.new_id(now_ms, of=execution.task_id.bytes)
    return NewExecution(
        id=identity,
        scheduled_us=now_ms * 1000,
        run_us=now_ms * 1000,
        nominal_us=None if execution.nominal_at is None else ids.to_us(execution.nominal_at),
        tenant_id=execution.tenant_id.bytes,
        task_id=execution.task_id.bytes,
        version_id=execution.task_version_id,
        max_attempts=_attempts(execution),
        class_index=execution.class_index,
        priority=execution.priority,
        origin=Origin.RERUN,
        overlap=Overlap(execution.overlap),
        slot_key=execution.slot_key,
        idempotency_key=str(UUID(bytes=identity)),
        payload=None if execution.payload is None else json.dumps(execution.payload).encode(),
        rerun_of=execution.id.bytes,
        queue_seconds=execution.queue_seconds,
        route_id=execution.route_id,
        concurrency_key=execution.concurrency_key,
        traceparent=execution.traceparent,
    )


def _state_conflict(execution_id: UUID, row: Pending, verb: str, legal: str) -> Conflict:
    return Conflict(
        f"execution {execution_id} is {row.status.word}: it cannot be {verb}; that needs {legal}",
        execution_status=row.status.word,
    )


def _act(
    principal: Principal, statement: str, row: Pending, *, told: Mapping[str, str] | None = None, **parameters: Any
) -> None:
    """told: for the audit log."""
    connection = postgres.raw(django_connection)
    if person_store.act(connection, statement, row, actor=principal.actor, **parameters):
        names = {"replay": "execution.replay", "discard": "execution.discard", "request_cancel": "execution.cancel"}
        _tell(principal, names[statement], UUID(bytes=row.id), row.id, **(told or {}))


def _tell(principal: Principal, action: str, target: UUID, changed: bytes, **detail: object) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="execution",
        target_id=target,
        detail=detail,
    )
    transaction.on_commit(lambda: feed.changed(principal.tenant_id, [changed]))
