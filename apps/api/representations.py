"""How the API shows things. Times are ISO 8601 in UTC, states are words."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from apps.definitions.confidential import masked_handler
from apps.definitions.models import Task
from apps.definitions.scheduling import next_run
from apps.definitions.versions import document_of
from apps.executions import concurrency, selectors
from apps.executions.circuit_services import circuit_of
from apps.executions.circuits import name_of
from apps.executions.ids import to_us
from apps.executions.models import Attempt, CircuitBreaker, Execution, ExecutionEvent, Progress, Worker
from apps.executions.states import ExecutionClass, Hold, Origin, Outcome, Status
from apps.explain import chips
from apps.explain.words import Code
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK


def moment(value: datetime | None) -> str | None:
    return None if value is None else value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def task(row: Task, *, role: Role) -> dict[str, Any]:
    """A viewer is not shown the values of headers, environments and keys in URLs: they often are credentials."""
    document = document_of(row)
    return {
        "id": str(row.id),
        **document,
        "handler": masked_handler(document["handler"], role=role),
        "version": row.version,
        "paused_at": moment(row.paused_at),
        "paused_note": row.paused_note,
        "next_fire_at": moment(next_run(row, now=SYSTEM_CLOCK.now())),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }


def executions(rows: Sequence[Execution], principal: Principal) -> list[dict[str, Any]]:
    """A page of them."""
    evidence = chips.gather(principal, rows, now=SYSTEM_CLOCK.now())
    return [execution(row, evidence) for row in rows]


def execution(row: Execution, evidence: chips.Evidence) -> dict[str, Any]:
    """reason: why it is not running although it should, or why it ended as it did, where its error or hold says so.

    evidence: chips.gather of the rows that are shown.
    """
    hold = Hold(row.hold)
    return {
        "id": str(row.id),
        "task_id": str(row.task_id),
        "task_name": row.task_version.name,
        "task_version": row.task_version.number,
        "status": row.state.word,
        "hold": None if hold is Hold.NONE else hold.word,
        "reason": _reason(row, evidence),
        "concurrency_key": None if row.concurrency_key is None else concurrency.shown(row.concurrency_key),
        "scheduled_at": moment(row.scheduled_at),
        "run_at": moment(row.run_at),
        "nominal_at": moment(row.nominal_at),
        "created_at": moment(row.created_at),
        "started_at": moment(row.started_at),
        "finished_at": moment(row.finished_at),
        "cancel_requested_at": moment(row.cancel_requested_at),
        "attempt": row.attempt,
        "max_attempts": row.max_attempts,
        "priority": row.priority,
        "class": ExecutionClass(row.class_index).word,
        "origin": Origin(row.origin).word,
        "dag_run_id": None if row.dag_run_id is None else str(row.dag_run_id),
        "rerun_of": None if row.rerun_of is None else str(row.rerun_of),
        "idempotency_key": row.idempotency_key,
        "traceparent": row.traceparent,
        "parameters": row.parameters,
        "result": row.result,
        "error": row.error,
        "fencing_token": row.token,
        "version": row.version,
    }


_SAID_BY_STATE = frozenset(
    {Code.NOT_DUE, Code.IN_QUEUE, Code.AWAITING_CLAIM, Code.RUNNING, Code.CANCELLED, Code.SKIPPED}
)


def _reason(row: Execution, evidence: chips.Evidence) -> str | None:
    reason = chips.of(row, evidence)
    if reason is None or reason.code in _SAID_BY_STATE:
        return None
    if reason.code in (Code.RETRY_DELAY, Code.DEAD_LETTER):
        return row.error.get("message") if isinstance(row.error, dict) else None
    return reason.text


def worker(row: Worker, *, whole: bool) -> dict[str, Any]:
    """classes: slots of its own and in use; idle critical ones are lent. whole: with its machine and load."""
    document: dict[str, Any] = {
        "id": row.id,
        "state": row.state,
        "labels": row.labels,
        "dedicated": row.tenant_id is not None,
        "slots": row.slots,
        "classes": {ExecutionClass(c).word: {"slots": own, "used": used} for c, (used, own) in enumerate(row.by_class)},
        "active": row.active,
        "started_at": moment(row.started_at),
        "heartbeat_at": moment(row.heartbeat_at),
        "version": row.version,
        "drain_requested_at": moment(row.drain_requested_at),
    }
    if whole:
        document |= {
            "tenant_id": None if row.tenant_id is None else str(row.tenant_id),
            "host": row.host,
            "process_id": row.process_id,
            "cpu_percent": row.cpu_percent,
            "memory_bytes": row.memory_bytes,
            "completed_last_minute": row.completed_last_minute,
            "errors_last_minute": row.errors_last_minute,
        }
    return document


def circuit(row: CircuitBreaker, *, now: datetime) -> dict[str, Any]:
    """trips: relapses since it was last closed."""
    phase = circuit_of(row).phase(to_us(now))
    return {
        "id": row.id,
        "key": row.key,
        "name": name_of(row.key),
        "state": phase,
        "trips": row.trips,
        "opened_at": moment(row.opened_at),
        "quarantine_until": moment(row.quarantine_until),
        "slow_start_until": moment(row.slow_start_until),
        "recent_failures": sum(1 for _, failed in row.recent if failed),
        "recent_outcomes": len(row.recent),
        "last_error": row.last_error,
        "changed_at": moment(row.changed_at),
    }


def execution_detail(row: Execution, principal: Principal) -> dict[str, Any]:
    events = selectors.events_of(row)
    [shown] = executions([row], principal)
    if shown["reason"] is None and events and events[-1].target == row.status:
        shown["reason"] = events[-1].reason
    return {
        **shown,
        "progress": progress(selectors.progress_of(row)),
        "attempts": [attempt(each) for each in selectors.attempts_of(row)],
        "events": [event(each) for each in events],
    }


def progress(row: Progress | None) -> dict[str, Any] | None:
    """text: done and total as people read them; None while only a checkpoint has been left."""
    if row is None:
        return None
    return {
        "done": row.done,
        "total": row.total,
        "text": row.text or None,
        "said_at": moment(row.said_at),
        "checkpointed_at": moment(row.checkpointed_at),
        "fencing_token": row.token,
    }


def attempt(row: Attempt) -> dict[str, Any]:
    return {
        "attempt": row.attempt,
        "outcome": Outcome(row.outcome).word,
        "worker_id": row.worker_id,
        "fencing_token": row.token,
        "due_at": moment(row.due_at),
        "started_at": moment(row.started_at),
        "finished_at": moment(row.finished_at),
        "error": row.error,
    }


def event(row: ExecutionEvent) -> dict[str, Any]:
    return {
        "at": moment(row.at),
        "from": None if row.source is None else Status(row.source).word,
        "to": Status(row.target).word,
        "actor": row.actor,
        "reason": row.reason,
        "fencing_token": row.token,
    }
