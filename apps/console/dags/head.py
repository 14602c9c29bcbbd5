"""The head of a run's page: where the run is, how much of it is done, and what may be done to it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from apps.console.dags import words
from apps.console.dags.nodes import NodeView
from apps.console.wording import duration
from apps.executions.dags import selectors
from apps.executions.dags.models import QUEUED, DagRun
from apps.executions.dags.plan import FailurePolicy
from apps.executions.dags.states import RunStatus
from apps.executions.models import DagVersion
from apps.executions.states import Origin
from apps.tenants.principal import Principal

_ORDER = (
    *("succeeded", "completed", "running", "dispatched", "preloaded", "scheduled", "retrying", "waiting", "pending"),
    *("skipped", "upstream_failed", "cancelled", "failed", "dead_letter"),
)
_BAD = frozenset({"failed", "upstream_failed", "cancelled"})


@dataclass(frozen=True)
class Part:
    """One state's share of the nodes. x and width: thousandths of the bar."""

    state: str
    label: str
    count: int
    x: float
    width: float


@dataclass(frozen=True)
class Head:
    """What `_run_head.html` shows. running_since: None before it has begun and once it has ended. chip: why it does not
    simply run. queue: where it waits.
    """

    run: DagRun
    run_id: UUID
    name: str
    state: str
    label: str
    chip: str
    queue: selectors.Queue | None
    parts: list[Part]
    done: int
    running_since: datetime | None
    took: str
    policy: str
    origin: str
    standing: str
    """Words of what holds of it, for the buttons: running, paused, stopping, bad."""


def read(principal: Principal, run: DagRun, views: Iterable[NodeView]) -> Head:
    """One query: the name that its DAG had; another one for a run that waits."""
    named = DagVersion.objects.filter(id=run.dag_version_id, tenant_id=principal.tenant_id)
    counts = Counter(view.state for view in views)
    queue, queued = selectors.queue_of(run), run.word == QUEUED
    began = max(run.run_at, run.created_at)
    return Head(
        run=run,
        run_id=run.id,
        name=named.values_list("name", flat=True).first() or "DAG",
        state=run.word,
        label=words.label(run.word),
        chip=_chip(run, queue),
        queue=queue,
        parts=_parts(counts),
        done=run.nodes - run.open_nodes,
        running_since=began if run.finished_at is None and not queued else None,
        took=duration(None if run.finished_at is None else max(began, run.finished_at) - began),
        policy=words.label(FailurePolicy(run.failure_policy).word),
        origin=words.label(Origin(run.origin).word),
        standing=_standing(run, bad=any(counts[state] for state in _BAD)),
    )


def _standing(run: DagRun, *, bad: bool) -> str:
    running = run.status == RunStatus.RUNNING
    holds = {"running": running, "paused": run.paused_at, "stopping": running and run.ending is not None, "bad": bad}
    return " ".join(word for word, is_so in holds.items() if is_so)


def _chip(run: DagRun, queue: selectors.Queue | None) -> str:
    if run.status != RunStatus.RUNNING:
        return ""
    if run.ending is not None:
        return f"being stopped: will end {words.label(RunStatus(run.ending).word)}"
    if run.paused_at:
        return "paused: nothing more is released"
    if queue is not None:
        return f"place {queue.place:,} of {queue.waiting:,} in the queue"
    return f"not before {run.run_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC" if run.word == QUEUED else ""


def _parts(counts: Counter[str]) -> list[Part]:
    total = sum(counts.values())
    made, x = [], 0.0
    for state in _ORDER:
        if counts[state]:
            width = 1000 * counts[state] / total
            made.append(Part(state, words.label(state), counts[state], round(x, 1), round(width, 1)))
            x += width
    return made
