"""One dead letter: its error, its attempts, and its parameters, to be mended."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.console import reasons
from apps.console.detail import fault, readable
from apps.console.rows import short_token
from apps.console.wording import duration
from apps.definitions.models import Task
from apps.executions import selectors
from apps.executions.models import Attempt, DeadLetter, Execution
from apps.executions.states import Outcome
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import NotFound

MOST_ATTEMPTS = 50


@dataclass(frozen=True)
class AttemptLine:
    """One try in words."""

    number: int
    outcome: str
    icon: str
    began: datetime | None
    took: str
    worker: str
    token: str
    error: str


@dataclass(frozen=True)
class Letter:
    """What `letters/one.html` shows. checkpoint: whether one was left. task: None where none is."""

    letter: DeadLetter
    execution: Execution
    error_title: str
    error_text: str
    attempts: list[AttemptLine]
    parameters: str
    may_edit: bool
    checkpoint: bool
    task: Task | None

    @property
    def newer(self) -> int | None:
        """The version of its task that is in force, where it failed under another one."""
        theirs = self.task is not None and self.may_edit and self.task.version_id != self.execution.task_version_id
        return self.task.version if self.task is not None and theirs else None

    @property
    def follows(self) -> bool:
        """Whether its parameters, left as they are, become those of the task under the newer version."""
        mine, task = self.execution, self.task
        return bool(self.newer) and mine.payload is None and task is not None and task.parameters != mine.parameters


def read(principal: Principal, identity: UUID) -> Letter:
    """Five queries. Raises NotFound, also when it is no dead letter any more."""
    execution = selectors.execution(principal, identity)
    letter = scoped(DeadLetter.objects.all(), principal).filter(execution_id=identity).first()
    if letter is None:
        raise NotFound(f"{identity} is no dead letter")
    progress = selectors.progress_of(execution)
    return Letter(
        letter=letter,
        execution=execution,
        error_title=reasons.error_line(execution.error) or "it is out of attempts, and said nothing",
        error_text=fault(execution.error),
        attempts=[_line(one) for one in reversed(selectors.attempts_of(execution)[-MOST_ATTEMPTS:])],
        parameters=readable(execution.parameters),
        may_edit=execution.dag_run_id is None,
        task=scoped(Task.objects.all(), principal).filter(id=execution.task_id, deleted_at=None).first(),
        checkpoint=progress is not None and progress.checkpoint is not None,
    )


def _line(attempt: Attempt) -> AttemptLine:
    outcome = Outcome(attempt.outcome)
    icon = {Outcome.SUCCEEDED: "completed", Outcome.CANCELLED: "cancelled", Outcome.RELEASED: "preloaded"}
    return AttemptLine(
        attempt.attempt,
        outcome.word.replace("_", " "),
        icon.get(outcome, "failed"),
        attempt.started_at,
        duration(attempt.finished_at - attempt.started_at if attempt.started_at else None),
        f"worker-{attempt.worker_id}",
        short_token(attempt.token),
        reasons.error_line(attempt.error),
    )
