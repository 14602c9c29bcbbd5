"""One execution, read for its page: what happened, why it waits, evidence, and what it came from and led to."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from apps.console import reasons
from apps.console.detail import fault, readable
from apps.console.executions import lineage, story, timeline, why
from apps.console.executions.lineage import Lineage
from apps.console.executions.story import Moment
from apps.console.executions.timeline import Timeline
from apps.console.executions.why import Why
from apps.console.row_html import Row
from apps.console.rows import present
from apps.executions import selectors
from apps.executions.models import Attempt, Execution, ExecutionEvent, Progress
from apps.executions.states import PENDING, RESTING, ExecutionClass, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime.config import config
from chronoweb.runtime.trace import trace_id

HISTORY = 8
MOST_SHOWN = 200
_CHARACTERS = 100_000
"""Of a value that is shown as a whole; the API has the rest."""


class Trace(NamedTuple):
    """url: where it is looked at; empty where nothing is known of such a place."""

    id: str
    url: str


@dataclass(frozen=True)
class Detail:
    """What the pieces of the page show. why: None where it simply runs, or rests. trace: the id of its trace."""

    execution: Execution
    row: Row
    timeline: Timeline
    story: list[Moment]
    why: Why | None
    progress: Progress | None
    parameters: str
    result: str | None
    error_title: str
    error_text: str
    lineage: Lineage
    history: list[Row]

    @property
    def rests(self) -> bool:
        return self.execution.state in RESTING

    @property
    def standing(self) -> str:
        """Words that buttons hang on."""
        words = {
            "resting": self.rests,
            "dead": self.execution.state is Status.DEAD_LETTER,
            "delayed": waits_to_retry(self.execution),
            "asked": self.execution.cancel_requested_at is not None,
        }
        return " ".join(word for word, holds in words.items() if holds)

    @property
    def class_word(self) -> str:
        return ExecutionClass(self.execution.class_index).word

    @property
    def trace(self) -> Trace | None:
        """The trace that the request which triggered it belongs to."""
        identity = trace_id(self.execution.traceparent)
        return Trace(identity, config().trace_url.replace("{trace_id}", identity)) if identity else None


def waits_to_retry(execution: Execution) -> bool:
    """Whether an attempt has failed and another is to come, as nobody's node."""
    return execution.state in PENDING and execution.attempt > 0 and execution.dag_run_id is None


def read(principal: Principal, identity: UUID, *, now: datetime) -> Detail:
    """The principal's execution of this id, in at most sixteen queries; NotFound otherwise."""
    rows = Execution.objects.with_id(identity).select_related("task_version")
    execution = scoped_get(rows, principal, what="execution", id=identity)
    attempts, events = _attempts(principal, execution), _events(principal, execution)
    history = _history(principal, execution, now)
    evidence = reasons.gather(principal, [execution, *history], now=now)
    return Detail(
        execution=execution,
        row=present(execution, evidence),
        timeline=timeline.of(execution, attempts, now=now),
        story=story.of(execution, attempts, events),
        why=why.read(principal, execution),
        progress=selectors.progress_of(execution),
        parameters=_shown(execution.parameters),
        result=None if execution.result is None else _shown(execution.result),
        error_title=reasons.error_line(execution.error),
        error_text=_cut(fault(execution.error)),
        lineage=lineage.read(principal, execution, now=now),
        history=[present(one, evidence) for one in history],
    )


def _attempts(principal: Principal, execution: Execution) -> Sequence[Attempt]:
    """The latest, in their order."""
    rows = scoped(Attempt.objects.all(), principal).filter(
        scheduled_at=execution.scheduled_at, execution_id=execution.id
    )
    return list(reversed(rows.order_by("-token", "-attempt")[:MOST_SHOWN]))


def _events(principal: Principal, execution: Execution) -> Sequence[ExecutionEvent]:
    rows = scoped(ExecutionEvent.objects.all(), principal).filter(
        scheduled_at=execution.scheduled_at, execution_id=execution.id
    )
    return list(reversed(rows.order_by("-event_id")[:MOST_SHOWN]))


def _history(principal: Principal, execution: Execution, now: datetime) -> Sequence[Execution]:
    """The task's executions up to and around this one, latest first."""
    rows = scoped(Execution.objects.all(), principal).filter(
        task_id=execution.task_id,
        scheduled_at__lte=max(now, execution.scheduled_at),
        scheduled_at__gte=execution.scheduled_at - timedelta(days=7),
    )
    return list(rows.select_related("task_version").defer("payload", "result").order_by("-id")[:HISTORY])


def _shown(value: Any) -> str:
    return _cut(readable(value))


def _cut(text: str) -> str:
    if len(text) <= _CHARACTERS:
        return text
    return f"{text[:_CHARACTERS]}\n… {len(text) - _CHARACTERS:,} more characters: the API has them"
