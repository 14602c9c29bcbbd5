"""One execution's page: what happened, then evidence, then its task's history."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.console import reasons
from apps.console.rows import Row, label, present, present_all, short_token
from apps.console.wording import duration, first_line
from apps.executions import selectors
from apps.executions.models import Attempt, Execution, ExecutionEvent, Progress
from apps.executions.states import Outcome, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get

HISTORY = 8
MOST_SHOWN = 200
_ICON_OF_OUTCOME = {
    Outcome.SUCCEEDED: "completed",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "failed",
    Outcome.CRASHED: "failed",
    Outcome.CANCELLED: "cancelled",
    Outcome.RELEASED: "preloaded",
}


@dataclass(frozen=True)
class Moment:
    """One line of the timeline. icon: a symbol of icons.svg, which is also its colour's name."""

    at: datetime
    icon: str
    title: str
    detail: str = ""


@dataclass(frozen=True)
class Detail:
    """What `execution.html` shows."""

    execution: Execution
    row: Row
    timeline: list[Moment]
    progress: Progress | None
    parameters: str
    result: str | None
    error_title: str
    error_text: str
    history: list[Row]


def read(principal: Principal, identity: UUID, *, now: datetime) -> Detail:
    """The principal's execution of this id, in eight queries; NotFound otherwise."""
    rows = Execution.objects.with_id(identity).select_related("task_version")
    execution = scoped_get(rows, principal, what="execution", id=identity)
    evidence = reasons.gather(principal, [execution], now=now)
    key = {"scheduled_at": execution.scheduled_at, "execution_id": execution.id}
    attempts = scoped(Attempt.objects.all(), principal).filter(**key).order_by("attempt", "token")[:MOST_SHOWN]
    events = scoped(ExecutionEvent.objects.all(), principal).filter(**key).order_by("event_id")[:MOST_SHOWN]
    error = execution.error if isinstance(execution.error, dict) else {}
    return Detail(
        execution=execution,
        row=present(execution, evidence),
        timeline=_timeline(execution, list(attempts), list(events)),
        progress=selectors.progress_of(execution),
        parameters=readable(execution.parameters),
        result=None if execution.result is None else readable(execution.result),
        error_title=reasons.error_line(execution.error),
        error_text=str(error.get("traceback") or (readable(execution.error) if execution.error else "")),
        history=_history(principal, execution, now),
    )


def readable(value: Any) -> str:
    """JSON for people: indented, keys as they are, other scripts unescaped."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def _history(principal: Principal, execution: Execution, now: datetime) -> list[Row]:
    """The task's executions up to and around this one, latest first."""
    rows = scoped(Execution.objects.all(), principal).filter(
        task_id=execution.task_id,
        scheduled_at__lte=max(now, execution.scheduled_at),
        scheduled_at__gte=execution.scheduled_at - timedelta(days=7),
    )
    found = rows.select_related("task_version").defer("payload", "result").order_by("-id")[:HISTORY]
    return present_all(principal, list(found), now=now)


def _timeline(execution: Execution, attempts: list[Attempt], events: list[ExecutionEvent]) -> list[Moment]:
    origin = execution.get_origin_display()
    moments = [
        Moment(execution.created_at, "scheduled", "entered the ledger", f"by {origin}, {execution.idempotency_key}")
    ]
    if execution.dispatched_at:
        sent = f"worker-{execution.worker_id}, token {short_token(execution.token)}" if execution.worker_id else ""
        moments.append(Moment(execution.dispatched_at, "dispatched", "sent to a worker", sent))
    moments += [moment for attempt in attempts for moment in _of_attempt(attempt, execution.max_attempts)]
    moments += [_of_event(event) for event in events]
    if execution.state is Status.RUNNING and execution.started_at:
        title = f"attempt {execution.attempt} of {execution.max_attempts} began"
        moments.append(Moment(execution.started_at, "running", title, f"worker-{execution.worker_id}"))
    if execution.cancel_requested_at:
        moments.append(Moment(execution.cancel_requested_at, "cancelled", "asked to stop"))
    return sorted(moments, key=lambda moment: moment.at)


def _of_attempt(attempt: Attempt, most: int) -> list[Moment]:
    outcome = Outcome(attempt.outcome)
    took = duration(attempt.finished_at - attempt.started_at) if attempt.started_at else ""
    facts = [f"worker-{attempt.worker_id}", f"token {short_token(attempt.token)}", f"took {took}" if took else ""]
    line = reasons.error_line(attempt.error)
    return [
        Moment(
            attempt.finished_at,
            _ICON_OF_OUTCOME[outcome],
            f"attempt {attempt.attempt} of {most}: {outcome.word.replace('_', ' ')}",
            " · ".join(part for part in (*facts, line) if part),
        )
    ]


def _of_event(event: ExecutionEvent) -> Moment:
    target = Status(event.target)
    source = f"{label(Status(event.source))} → " if event.source is not None else ""
    return Moment(event.at, target.word, f"{source}{label(target)}", f"{event.actor}: {first_line(event.reason, 300)}")
