"""The attempts of an execution on one axis of time: how each waited, ran, and was waited for. Pure.

The axis begins when the first was due and ends with the last, now, or the next one's time; nothing of it is cut out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.console import reasons
from apps.console.executions.story import ICON_OF_OUTCOME
from apps.console.rows import short_token
from apps.console.wording import duration
from apps.executions.models import Attempt, Execution
from apps.executions.states import PENDING, Outcome, Status

WIDTH = 1000
MOST_LANES = 24
_LEAST = 3.0
"""So wide is what took next to nothing, for it did happen."""


@dataclass(frozen=True)
class Part:
    """A stretch of a lane, in thousandths of the axis. kind: wait (due, not begun), run, or backoff (to the next)."""

    kind: str
    x: float
    width: float


@dataclass(frozen=True)
class Lane:
    """One attempt. state: icon and colour. since: it still runs; until: it is not due yet."""

    number: int
    label: str
    state: str
    parts: list[Part]
    late: str
    took: str
    worker: str
    token: str
    error: str
    since: datetime | None = None
    until: datetime | None = None

    @property
    def said(self) -> str:
        return f"attempt {self.number}: {self.label}, {self.late} late, took {self.took}"


@dataclass(frozen=True)
class Timeline:
    """left_out: older attempts that are not shown."""

    lanes: list[Lane]
    begin: datetime
    end: datetime
    span: str
    left_out: int


@dataclass(frozen=True)
class _Try:
    number: int
    label: str
    state: str
    due: datetime
    began: datetime | None
    ended: datetime | None
    worker: int | None
    token: int
    error: str = ""


def of(execution: Execution, attempts: Sequence[Attempt], *, now: datetime) -> Timeline:
    """attempts: in their order."""
    tries = [_past(attempt) for attempt in attempts[-MOST_LANES:]]
    ahead = _ahead(execution)
    tries += [ahead] if ahead else []
    if not tries:
        return Timeline([], now, now, "", 0)
    begin = min(min(one.due, one.began or one.due) for one in tries)
    end = max(max(one.due, one.ended or now) for one in tries)
    scale = WIDTH / max((end - begin).total_seconds(), 0.001)
    nexts: list[_Try | None] = [*tries[1:], None]
    lanes = [_lane(one, after, begin, scale, now) for one, after in zip(tries, nexts, strict=True)]
    return Timeline(lanes, begin, end, duration(end - begin), max(0, len(attempts) - MOST_LANES))


def _past(attempt: Attempt) -> _Try:
    outcome = Outcome(attempt.outcome)
    return _Try(
        attempt.attempt,
        outcome.word.replace("_", " "),
        ICON_OF_OUTCOME[outcome],
        attempt.due_at,
        attempt.started_at,
        attempt.finished_at,
        attempt.worker_id,
        attempt.token,
        reasons.error_line(attempt.error),
    )


def _ahead(execution: Execution) -> _Try | None:
    """The one that runs or is still to come."""
    state = execution.state
    if state is Status.RUNNING:
        began, number = execution.started_at, execution.attempt
    elif state is Status.DISPATCHED or state in PENDING:
        began, number = None, execution.attempt + 1
    else:
        return None
    sent = state in (Status.RUNNING, Status.DISPATCHED)
    due = max(execution.run_at, execution.created_at)
    worker, token = (execution.worker_id, execution.token) if sent else (None, 0)
    return _Try(number, "running" if began else state.word, state.word, due, began, None, worker, token)


def _lane(one: _Try, after: _Try | None, begin: datetime, scale: float, now: datetime) -> Lane:
    def part(kind: str, since: datetime, until: datetime) -> Part:
        x = (since - begin).total_seconds() * scale
        width = max((until - since).total_seconds() * scale, _LEAST)
        return Part(kind, round(min(max(x, 0.0), WIDTH - _LEAST), 1), round(width, 1))

    end = one.ended or max(now, one.began or now)
    parts = []
    if (one.began or end) > one.due:
        parts.append(part("wait", one.due, one.began or end))
    if one.began:
        parts.append(part("run", one.began, end))
    elif one.ended is None and one.due > now:
        parts.append(part("run", one.due, one.due))
    if after is not None and one.ended is not None and after.due > one.ended:
        parts.append(part("backoff", one.ended, after.due))
    late = max(timedelta(0), (one.began or end) - one.due) if one.began or end >= one.due else None
    return Lane(
        number=one.number,
        label=one.label,
        state=one.state,
        parts=parts,
        late=duration(late),
        took=duration(end - one.began if one.began else None),
        worker="–" if one.worker is None else f"worker-{one.worker}",
        token=short_token(one.token),
        error=one.error,
        since=one.began if one.ended is None else None,
        until=one.due if one.ended is None and one.due > now else None,
    )
