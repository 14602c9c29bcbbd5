"""The last executions of tasks as small marks: colour and shape by state, the story on hover."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from apps.console.rows import label
from apps.console.wording import duration
from apps.executions.task_history import ExecutionLine, latest_of_tasks
from apps.tenants.principal import Principal

SHOWN = 12
BACK = timedelta(days=14)


@dataclass(frozen=True)
class Mark:
    """One execution. title: how it went, in words."""

    id: UUID
    state: str
    title: str
    at: datetime


def mark(line: ExecutionLine) -> Mark:
    return Mark(line.id, line.state.word, words_of(line), line.scheduled_at)


def words_of(line: ExecutionLine) -> str:
    """`completed in 3.2 s, begun 3 ms late`."""
    took = f" in {duration(line.took)}" if line.took is not None else ""
    late = f", begun {duration(line.late)} late" if line.late is not None else ""
    again = f", attempt {line.attempt}" if line.attempt > 1 else ""
    return f"{label(line.state)}{took}{late}{again}"


def of_tasks(principal: Principal, task_ids: Sequence[UUID], *, now: datetime) -> dict[UUID, list[Mark]]:
    """The last executions of each of these tasks, oldest first; one query."""
    found: dict[UUID, list[Mark]] = {task_id: [] for task_id in task_ids}
    for line in latest_of_tasks(principal, task_ids, each=SHOWN, since=now - BACK, now=now):
        found[line.task_id].insert(0, mark(line))
    return found
