"""When each node of a run waited and ran, and which of them decided how long the run took."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from apps.console.dags import words
from apps.console.dags.nodes import executions_of, name_of
from apps.console.wording import duration
from apps.executions.dags import selectors
from apps.executions.dags.critical_path import critical_path
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.models import Execution

SHOWN = 500
LEFT, RIGHT, ROW, TOP = 180, 1000, 22, 26
_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_MOST_TICKS = 8


@dataclass(frozen=True)
class Bar:
    """A node's row; pixels of a drawing that is RIGHT wide. wait: released, not begun."""

    node_id: str
    name: str
    state: str
    y: int
    wait_x: float
    wait_width: float
    x: float
    width: float
    title: str
    critical: bool = False


@dataclass(frozen=True)
class Gantt:
    """ticks: (x, words) of the time axis, which goes from begin to end. left_out: nodes beyond SHOWN."""

    bars: list[Bar]
    ticks: list[tuple[float, str]]
    height: int
    path: list[str]
    path_took: str
    left_out: int
    begin: datetime
    end: datetime


def read(run: DagRun, *, now: datetime) -> Gantt:
    """Four queries, however many nodes. Nodes that were never released are not in it."""
    nodes = list(RunNode.objects.filter(run_id=run.id, scheduled_at=run.scheduled_at).order_by("node"))
    edges = [(parent, node.node) for node in nodes for parent in node.parents]
    spans = {node.node: selectors.span(node) for node in nodes}
    path = critical_path(spans, edges)
    released = sorted((node for node in nodes if node.released_at), key=lambda n: (n.released_at, n.node))
    shown = released[:SHOWN]
    executions = executions_of(run, shown)
    begin = min((node.released_at for node in shown if node.released_at), default=now)
    end = max([node.finished_at or now for node in shown], default=now)
    scale = (RIGHT - LEFT - 8) / max((end - begin).total_seconds(), 0.001)

    bars = [
        _bar(
            node,
            executions.get(node.execution_id) if node.execution_id else None,
            at=at,
            begin=begin,
            now=now,
            scale=scale,
        )
        for at, node in enumerate(shown)
    ]
    critical = set(path)
    names = {node.node: node.node_id for node in nodes}
    return Gantt(
        bars=[replace(bar, critical=node.node in critical) for bar, node in zip(bars, shown, strict=True)],
        ticks=_ticks((end - begin).total_seconds(), scale),
        height=TOP + len(bars) * ROW + 6,
        path=[names[node] for node in path],
        path_took=duration(timedelta(seconds=sum(spans[node].seconds or 0 for node in path))),
        left_out=len(released) - len(shown),
        begin=begin,
        end=end,
    )


def _bar(node: RunNode, execution: Execution | None, *, at: int, begin: datetime, now: datetime, scale: float) -> Bar:
    """The row of a node that was released. scale: pixels a second."""
    assert node.released_at is not None
    over = max(node.released_at, node.finished_at or now)  # released since `now` was taken: nothing has passed yet
    started = execution.started_at if execution is not None else node.released_at
    runs_from = min(over, max(node.released_at, started or over))
    took, waited = over - runs_from, runs_from - node.released_at
    state = words.of_node(node.state, execution)
    return Bar(
        node_id=node.node_id,
        name=words.fitted(name_of(node), 26),
        state=state,
        y=TOP + at * ROW,
        wait_x=round(LEFT + (node.released_at - begin).total_seconds() * scale, 1),
        wait_width=round(waited.total_seconds() * scale, 1),
        x=round(LEFT + (runs_from - begin).total_seconds() * scale, 1),
        width=max(2.0, round(took.total_seconds() * scale, 1)) if started else 0.0,
        title=f"{name_of(node)}: {words.label(state)}, waited {duration(waited)}, took {duration(took)}",
    )


def _ticks(seconds: float, scale: float) -> list[tuple[float, str]]:
    step = next((step for step in _STEPS if seconds / step <= _MOST_TICKS), None) or max(
        3600, round(seconds / 6 / 3600) * 3600
    )
    count = int(seconds / step) if step else 0
    return [
        (round(LEFT + n * step * scale, 1), duration(timedelta(seconds=n * step)) if n else "0")
        for n in range(count + 1)
    ]
