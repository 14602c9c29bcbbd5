"""Why an execution is not running: one short chip a row, and what has to be read to say it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.console.wording import countdown, first_line
from apps.executions import selectors
from apps.executions.circuits import name_of
from apps.executions.concurrency import places_of, waits_text
from apps.executions.labels import no_worker
from apps.executions.models import Execution, ExecutionEvent, StandingHold
from apps.executions.states import Hold, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

_EVERYTHING = UUID(int=0)
_SAID_BY_AN_EVENT = (Status.CANCELLED, Status.SKIPPED)


@dataclass(frozen=True)
class Reason:
    """text: what the chip says. until: an instant that the page counts down to, after `lead` and instead of text."""

    text: str
    lead: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Evidence:
    """What reasons are made from: standing holds by target, the last event of what was cancelled or skipped, and how
    many run under the concurrency keys that something waits for.
    """

    tenant_id: UUID
    now: datetime
    notes: dict[tuple[UUID, int], str] = field(default_factory=dict)
    events: dict[UUID, str] = field(default_factory=dict)
    running: dict[str, int] = field(default_factory=dict)


def gather(principal: Principal, executions: Sequence[Execution], *, now: datetime) -> Evidence:
    """Two queries, however many executions there are; a third where one waits for its concurrency key."""
    targets = {e.task_id for e in executions if e.hold} | {principal.tenant_id, _EVERYTHING}
    holds = StandingHold.objects.filter(target_id__in=targets).values_list("target_id", "reason", "note")
    told = [e for e in executions if e.status in _SAID_BY_AN_EVENT]
    events = (
        scoped(ExecutionEvent.objects.all(), principal)
        .filter(scheduled_at__in=[e.scheduled_at for e in told], execution_id__in=[e.id for e in told])
        .order_by("event_id")
        .values_list("execution_id", "reason")
    )
    notes = {(target, reason): note for target, reason, note in holds}
    running = selectors.running_under_keys(executions)
    return Evidence(tenant_id=principal.tenant_id, now=now, notes=notes, events=dict(events), running=running)


def of(execution: Execution, evidence: Evidence) -> Reason | None:
    """The chip of one execution; None where the state says all."""
    state = execution.state
    if state in (Status.SCHEDULED, Status.PRELOADED):
        return _of_pending(execution, evidence)
    if state is Status.RETRYING:
        lead = f"attempt {execution.attempt + 1} of {execution.max_attempts}"
        return _held(execution, evidence) or _until(execution, evidence, f"{lead} in", f"{lead} is due")
    if state is Status.DISPATCHED:
        return Reason("sent, not begun yet")
    if state is Status.WAITING:
        return Reason("waits for an answer")
    if state is Status.DEAD_LETTER:
        return Reason(error_line(execution.error) or "out of attempts")
    if state in _SAID_BY_AN_EVENT:
        told = first_line(evidence.events.get(execution.id, ""))
        return Reason(told) if told else None
    if execution.cancel_requested_at and state is Status.RUNNING:
        return Reason("asked to stop")
    if execution.attempt > 1:
        return Reason(f"attempt {execution.attempt} of {execution.max_attempts}")
    return None


def error_line(error: Any) -> str:
    """An error in one line: `ValueError: amount "12,50"`."""
    if isinstance(error, dict):
        parts: Iterable[str] = (str(error[key]) for key in ("type", "message") if error.get(key))
        return first_line(": ".join(parts))
    return first_line(str(error)) if error else ""


def _of_pending(execution: Execution, evidence: Evidence) -> Reason:
    return _held(execution, evidence) or _until(execution, evidence, "due in", "due now")


def _held(execution: Execution, evidence: Evidence) -> Reason | None:
    hold = Hold(execution.hold)
    if hold is Hold.NONE:
        return None
    if hold is Hold.OVERLAP:
        return Reason("waits for the task's earlier execution")
    if hold is Hold.CONCURRENCY and execution.concurrency_key is not None:
        running, places = evidence.running[execution.concurrency_key], places_of(execution.task_version.definition)
        return Reason(waits_text(execution.concurrency_key, running=running, places=places))
    if hold is Hold.CIRCUIT:
        return Reason(f"circuit open: {name_of(execution.task_version.circuit_key)}")
    if hold is Hold.NO_WORKER:
        return Reason(no_worker(execution.task_version.definition))
    if hold is Hold.RETRY_BUDGET:
        lead = f"retry budget: attempt {execution.attempt + 1} of {execution.max_attempts}"
        return _until(execution, evidence, f"{lead} in", f"{lead} is due")
    if hold is Hold.DELETED:
        return Reason("its task is deleted")
    targets = (execution.task_id, evidence.tenant_id, _EVERYTHING)
    note = next((evidence.notes[t, hold] for t in targets if evidence.notes.get((t, hold))), "")
    return Reason(f"{hold.word}: {first_line(note)}" if note else hold.word)


def _until(execution: Execution, evidence: Evidence, lead: str, over: str) -> Reason:
    ahead = execution.run_at - evidence.now
    if ahead <= timedelta(0):
        return Reason(over)
    return Reason(f"{lead} {countdown(ahead)}", lead=lead, until=execution.run_at)
