"""Executions as the results of Django's Tasks framework."""

from collections.abc import Sequence
from uuid import UUID

from django.core.exceptions import SuspiciousOperation
from django.utils.module_loading import import_string
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskError, TaskResult, TaskResultStatus
from django_tasks.exceptions import TaskResultDoesNotExist

from apps.executions import selectors
from apps.executions.models import Attempt, Execution
from apps.executions.states import Outcome, Status
from apps.tasks_backend.ledger import principal_of
from apps.tasks_backend.task import GIVEN, given_again
from chronoweb.runtime.errors import ChronowebError, NotFound

STATUSES = {
    Status.RUNNING: TaskResultStatus.RUNNING,
    Status.COMPLETED: TaskResultStatus.SUCCESSFUL,
    Status.DEAD_LETTER: TaskResultStatus.FAILED,
    Status.CANCELLED: TaskResultStatus.FAILED,
    Status.SKIPPED: TaskResultStatus.FAILED,
}
"""All others are READY: enqueued, or waiting to be tried again."""


class NotRun(ChronowebError):
    """The error of what failed without an exception of its own: cancelled, out of time, its worker lost."""


def find(backend: BaseTaskBackend, result_id: str) -> TaskResult:
    """Raises TaskResultDoesNotExist."""
    try:
        row = selectors.execution(principal_of(backend), UUID(str(result_id)))
    except (ValueError, NotFound):
        raise TaskResultDoesNotExist(result_id) from None
    given = row.parameters.get(GIVEN)
    if not isinstance(given, dict):
        raise TaskResultDoesNotExist(result_id)
    attempts = [each for each in selectors.attempts_of(row) if each.outcome != Outcome.RELEASED]
    result: TaskResult = TaskResult(
        task=given_again(_task(row.task_version.definition["handler"]["name"]), given),
        id=str(row.id),
        status=STATUSES.get(row.state, TaskResultStatus.READY),
        enqueued_at=row.created_at,
        started_at=attempts[0].started_at if attempts else row.started_at,
        finished_at=row.finished_at,
        last_attempted_at=row.started_at,
        args=row.parameters["args"],
        kwargs=row.parameters["kwargs"],
        backend=backend.alias,
        errors=_errors(row, attempts),
        worker_ids=_workers(row, attempts),
    )
    object.__setattr__(result, "_return_value", row.result)
    return result


def _task(path: str) -> Task:
    """Raises ImportError where the function is gone, SuspiciousOperation where something else has its name."""
    found = import_string(path)
    if not isinstance(found, Task):
        raise SuspiciousOperation(f"{path} is not a task")
    return found


def _errors(row: Execution, attempts: Sequence[Attempt]) -> list[TaskError]:
    errors = [_error(each.error) for each in attempts if each.error]
    if not errors and STATUSES.get(row.state) is TaskResultStatus.FAILED:
        events = selectors.events_of(row)
        errors = [_error({"message": f"{row.state.word}: {events[-1].reason}" if events else row.state.word})]
    return errors


def _error(error: dict[str, str]) -> TaskError:
    path = error.get("exception") or f"{NotRun.__module__}.{NotRun.__qualname__}"
    return TaskError(exception_class_path=path, traceback=error.get("traceback") or error.get("message", ""))


def _workers(row: Execution, attempts: Sequence[Attempt]) -> list[str]:
    """One for each attempt, the one under way included."""
    running = [str(row.worker_id)] if row.state is Status.RUNNING else []
    return [str(each.worker_id) for each in attempts] + running
