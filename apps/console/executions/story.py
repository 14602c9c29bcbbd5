"""What happened to an execution, moment by moment, and who did it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.console import reasons
from apps.console.rows import label, short_token
from apps.console.wording import duration, first_line
from apps.executions.models import Attempt, Execution, ExecutionEvent
from apps.executions.states import Outcome, Status

ICON_OF_OUTCOME = {
    Outcome.SUCCEEDED: "completed",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed_out",
    Outcome.CRASHED: "failed",
    Outcome.CANCELLED: "cancelled",
    Outcome.RELEASED: "preloaded",
}


@dataclass(frozen=True)
class Moment:
    """One line. icon: a symbol of icons.svg, which is also its colour's name. actor: who; empty: the execution's own
    course.
    """

    at: datetime
    icon: str
    title: str
    detail: str = ""
    actor: str = ""


def of(execution: Execution, attempts: Sequence[Attempt], events: Sequence[ExecutionEvent]) -> list[Moment]:
    """Oldest first."""
    origin = execution.get_origin_display()
    moments = [
        Moment(
            execution.created_at,
            "scheduled",
            "entered the ledger",
            f"started by {origin} · key {execution.idempotency_key}",
        )
    ]
    if execution.dispatched_at:
        sent = f"worker-{execution.worker_id}, token {short_token(execution.token)}" if execution.worker_id else ""
        moments.append(Moment(execution.dispatched_at, "dispatched", "sent to a worker", sent))
    moments += [_of_attempt(attempt, execution.max_attempts) for attempt in attempts]
    moments += [_of_event(event) for event in events]
    if execution.state is Status.RUNNING and execution.started_at:
        title = f"attempt {execution.attempt} of {execution.max_attempts} began"
        moments.append(Moment(execution.started_at, "running", title, f"worker-{execution.worker_id}"))
    if execution.cancel_requested_at:
        moments.append(Moment(execution.cancel_requested_at, "cancelled", "asked to stop"))
    return sorted(moments, key=lambda moment: moment.at)


def _of_attempt(attempt: Attempt, most: int) -> Moment:
    outcome = Outcome(attempt.outcome)
    took = duration(attempt.finished_at - attempt.started_at) if attempt.started_at else ""
    facts = [f"worker-{attempt.worker_id}", f"token {short_token(attempt.token)}", f"took {took}" if took else ""]
    line = reasons.error_line(attempt.error)
    return Moment(
        attempt.finished_at,
        ICON_OF_OUTCOME[outcome],
        f"attempt {attempt.attempt} of {most}: {outcome.word.replace('_', ' ')}",
        " · ".join(part for part in (*facts, line) if part),
    )


def _of_event(event: ExecutionEvent) -> Moment:
    target = Status(event.target)
    source = f"{label(Status(event.source))} → " if event.source is not None else ""
    return Moment(event.at, target.word, f"{source}{label(target)}", first_line(event.reason, 300), event.actor)
