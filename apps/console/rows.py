"""An execution as one row of a table. The page and the socket send the same HTML, so that they cannot differ."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from apps.console import reasons
from apps.console.row_html import Row, row_html
from apps.console.wording import duration
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.principal import Principal


def label(status: Status) -> str:
    """The state in words: `dead letter`."""
    return status.word.replace("_", " ")


def present(execution: Execution, evidence: reasons.Evidence) -> Row:
    """The row of one execution as it stands at `evidence.now`."""
    state = execution.state
    running = state is Status.RUNNING
    began = execution.started_at
    return Row(
        id=execution.id,
        version=execution.version,
        state=state.word,
        state_label=label(state),
        task=execution.task_version.name,
        task_zone=str(execution.task_version.definition.get("schedule", {}).get("timezone") or ""),
        due=execution.scheduled_at,
        runs_at=execution.run_at if execution.run_at != execution.scheduled_at else None,
        late=duration(lateness(execution, evidence.now)),
        worker=f"worker-{execution.worker_id}" if execution.worker_id else "–",
        token=short_token(execution.token),
        token_title=f"fencing token {execution.token}",
        took=duration(_took(execution, evidence.now)),
        running_since=began if running else None,
        reason=reasons.of(execution, evidence),
    )


def lateness(execution: Execution, now: datetime) -> timedelta | None:
    """From when it could run to when it began, or to now while it still waits; None before it is due.

    Not known after a retry: run_at then stands for the next attempt.
    """
    could = max(execution.run_at, execution.created_at)
    waits = execution.state in (Status.SCHEDULED, Status.PRELOADED, Status.DISPATCHED)
    if execution.started_at is not None and not waits and execution.state is not Status.RETRYING:
        return max(timedelta(0), execution.started_at - could)
    return now - could if waits and now > could else None


def short_token(token: int) -> str:
    """A fencing token as `epoch·count`: its upper and lower 32 bits. An en dash before the first dispatch."""
    if token == 0:
        return "–"
    epoch, count = token >> 32, token & 0xFFFF_FFFF
    return f"{epoch}·{count}" if epoch else str(count)


def present_all(principal: Principal, executions: Sequence[Execution], *, now: datetime) -> list[Row]:
    """Rows in the order given; two queries."""
    evidence = reasons.gather(principal, executions, now=now)
    return [present(execution, evidence) for execution in executions]


def message(row: Row, tenant_slug: str, *, insert: bool) -> dict[str, Any]:
    """What the socket sends for a row. insert: a page that lacks the row should add it."""
    return {
        "id": str(row.id),
        "version": row.version,
        "state": row.state,
        "insert": insert,
        "html": row_html(row, tenant_slug),
    }


def _took(execution: Execution, now: datetime) -> timedelta | None:
    if execution.started_at is None:
        return None
    if execution.state is Status.RUNNING:
        return now - execution.started_at
    return None if execution.finished_at is None else execution.finished_at - execution.started_at
