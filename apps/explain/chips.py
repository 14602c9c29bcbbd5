"""One short reason for each row of a list: what its state, its hold and its tenant's holds say, in few queries."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection as django_connection

from apps.executions import selectors
from apps.executions.concurrency import places_of, waits_text
from apps.executions.labels import no_worker
from apps.executions.models import Execution
from apps.executions.quotas import Use
from apps.executions.states import ACTIVE, PENDING, WIDE, Hold, Status
from apps.executions.store import named_sql
from apps.explain import turn, words
from apps.explain.turn import Standing
from apps.explain.words import Code, Reason
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres

_EVERYTHING = UUID(int=0)
_SAID_BY_AN_EVENT = {Status.CANCELLED: Code.CANCELLED, Status.SKIPPED: Code.SKIPPED}
_HOLDS = "SELECT target_id, reason, note FROM holds WHERE target_id = ANY(%s)"
_EVENTS = """
SELECT execution_id, reason FROM execution_events
WHERE scheduled_at = ANY(%s) AND execution_id = ANY(%s) AND tenant_id = %s ORDER BY event_id
"""
_QUOTA = Code.EXECUTIONS_PER_HOUR


@dataclass(frozen=True)
class Evidence:
    """What chips are made from. notes: of standing holds by (target, reason). events: the last of what was cancelled or
    skipped. running: how many run under the concurrency keys that something waits for. quota: the tenant's that is used
    up. met: what its due work meets, where something is due that nothing holds.
    """

    tenant_id: UUID
    now: datetime
    notes: Mapping[tuple[UUID, int], str] = field(default_factory=dict)
    events: Mapping[UUID, str] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    quota: Reason | None = None
    met: Standing | None = None


def gather(principal: Principal, executions: Sequence[Execution], *, now: datetime) -> Evidence:
    """Two queries, however many executions there are; one more where one waits for its concurrency key, one where
    the tenant has used up a quota, and one, with three pipelines to Redis, where something is due that nothing holds.
    """
    targets = {e.task_id for e in executions if e.hold} | {principal.tenant_id, _EVERYTHING}
    read = postgres.reads(django_connection).read
    holds = read(_HOLDS, (list(targets),))
    told = [e for e in executions if e.status in _SAID_BY_AN_EVENT]
    which = [e.scheduled_at for e in told], [e.id for e in told], principal.tenant_id
    events = read(_EVENTS, which) if told else []
    notes = {(target, reason): note for target, reason, note in holds}
    quota = used_up(principal.tenant_id) if (principal.tenant_id, Hold.QUOTA) in notes else None
    running = selectors.running_under_keys(executions)
    queued = [e for e in executions if e.state in PENDING and not e.hold and e.run_at <= now]
    met = turn.standing(principal.tenant_id, queued, now=now) if queued else None
    return Evidence(principal.tenant_id, now, notes, dict(events), running, quota, met)


def used_up(tenant_id: UUID) -> Reason | None:
    """The quota that a tenant has used up; one query."""
    found = postgres.raw(django_connection).execute(named_sql("over_quota"), {"tenant": tenant_id}).fetchone()
    if found is None:
        return None
    use, code = Use(found[0]), Code(Use(found[0]).quota)
    used, limit = use.shown(found[1]), int(use.shown(found[2]))
    return Reason(code, words.quota(code, used, limit), {"used": used, "limit": limit}, clears_when=found[3])


def of(execution: Execution, evidence: Evidence) -> Reason | None:
    """The chip of one execution; None where the state says all."""
    state = execution.state
    if state in PENDING:
        return _held(execution, evidence) or _of_tenant(execution, evidence) or _when(execution, evidence)
    if state in ACTIVE and execution.cancel_requested_at:
        return Reason(Code.CANCEL_REQUESTED, words.ASKED_TO_STOP)
    if state is Status.DISPATCHED:
        return Reason(Code.AWAITING_CLAIM, words.AWAITING_CLAIM)
    if state is Status.WAITING:
        return Reason(Code.APPROVAL, words.APPROVAL)
    if state is Status.DEAD_LETTER:
        return Reason(Code.DEAD_LETTER, error_line(execution.error) or "out of attempts")
    if state in _SAID_BY_AN_EVENT:
        told = words.first_line(evidence.events.get(execution.id, ""))
        return Reason(_SAID_BY_AN_EVENT[state], told) if told else None
    if execution.attempt > 1:
        return Reason(Code.RUNNING, words.attempt_lead(execution.attempt, execution.max_attempts))
    return None


def error_line(error: Any) -> str:
    """An error in one line: `ValueError: amount "12,50"`."""
    if isinstance(error, dict):
        parts: Iterable[str] = (str(error[key]) for key in ("type", "message") if error.get(key))
        said = str(error.get("stderr") or "").strip() if "exit_code" in error else ""
        # A program says why at its end.
        return words.first_line(": ".join([*parts, *said.splitlines()[-1:]]))
    return words.first_line(str(error)) if error else ""


def _held(execution: Execution, evidence: Evidence) -> Reason | None:
    hold = Hold(execution.hold)
    if hold is Hold.NONE or hold in WIDE:
        return None if hold is Hold.NONE else _wide(hold, evidence)
    if hold is Hold.OVERLAP:
        return Reason(Code.OVERLAP, words.OVERLAP)
    if hold is Hold.CONCURRENCY and execution.concurrency_key is not None:
        running, places = evidence.running[execution.concurrency_key], places_of(execution.task_version.definition)
        text = waits_text(execution.concurrency_key, running=running, places=places)
        return Reason(Code.CONCURRENCY_KEY, text)
    if hold is Hold.CIRCUIT:
        return Reason(Code.CIRCUIT_OPEN, words.circuit_open(execution.task_version.circuit_key))
    if hold is Hold.NO_WORKER:
        return Reason(Code.NO_WORKER, no_worker(execution.task_version.definition))
    if hold is Hold.RETRY_BUDGET:
        lead = words.attempt_lead(execution.attempt + 1, execution.max_attempts, budget=True)
        return words.counted_down(Code.RETRY_BUDGET, f"{lead} in", f"{lead} is due", execution.run_at, evidence.now)
    if hold is Hold.DELETED:
        return Reason(Code.TASK_DELETED, words.TASK_DELETED)
    return Reason(Code.TASK_PAUSED, words.task_paused(evidence.notes.get((execution.task_id, Hold.PAUSED))))


def _of_tenant(execution: Execution, evidence: Evidence) -> Reason | None:
    """What holds the whole tenant holds what is due, whether the dispatcher has met it or not."""
    if execution.run_at > evidence.now:
        return None
    for target, hold in (
        (evidence.tenant_id, Hold.QUOTA),
        (evidence.tenant_id, Hold.FROZEN),
        (_EVERYTHING, Hold.FROZEN),
    ):
        if (target, hold) in evidence.notes:
            return _wide(hold, evidence)
    return None if evidence.met is None else turn.reason(execution, evidence.met)


def _wide(hold: Hold, evidence: Evidence) -> Reason:
    if hold is Hold.QUOTA:
        return evidence.quota or Reason(_QUOTA, "a quota of its tenant was used up")
    for code, target in ((Code.TENANT_FROZEN, evidence.tenant_id), (Code.SCHEDULER_FROZEN, _EVERYTHING)):
        if (target, Hold.FROZEN) in evidence.notes:
            return Reason(code, words.frozen(code, evidence.notes[target, Hold.FROZEN]))
    return Reason(Code.TENANT_FROZEN, "it was frozen a moment ago")


def _when(execution: Execution, evidence: Evidence) -> Reason:
    if execution.state is Status.RETRYING:
        lead = words.attempt_lead(execution.attempt + 1, execution.max_attempts)
        return words.counted_down(Code.RETRY_DELAY, f"{lead} in", f"{lead} is due", execution.run_at, evidence.now)
    code = Code.NOT_DUE if execution.run_at > evidence.now else Code.IN_QUEUE
    return words.counted_down(code, "due in", words.DUE_NOW, execution.run_at, evidence.now)
