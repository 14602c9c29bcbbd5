"""A task function, and the handler that workers call for it."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
from django_tasks.signals import task_finished, task_started
from django_tasks.utils import get_exception_traceback, get_module_path, normalize_json

from apps.worker.handlers.context import TaskContext as AttemptContext
from apps.worker.handlers.registry import REGISTRY, Handler, PermanentError
from chronoweb.runtime.clock import SYSTEM_CLOCK

GIVEN = "django_task"
"""The parameter that tells an execution of this backend: priority, queue_name, backend and run_after as given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChronowebTask(Task):
    """Being defined makes the function a handler of this process, under its dotted path."""

    def __post_init__(self) -> None:
        Task.__post_init__(self)
        REGISTRY.add(Handler(self.module_path, handler_of(self), "process", self.func.__module__))


def as_given(task: Task) -> dict[str, Any]:
    return {
        "priority": task.priority,
        "queue_name": task.queue_name,
        "backend": task.backend,
        "run_after": None if task.run_after is None else task.run_after.isoformat(),
    }


def given_again(task: Task, given: dict[str, Any]) -> Task:
    """The task as it was enqueued."""
    run_after = given.get("run_after")
    return task.using(
        priority=given.get("priority"),
        queue_name=given.get("queue_name"),
        backend=given.get("backend"),
        run_after=None if run_after is None else datetime.fromisoformat(run_after),
    )


def handler_of(task: Task) -> Callable[..., Any]:
    """What workers call. Triggered by hand, it takes `args` and `kwargs` alone."""

    def run(
        context: AttemptContext,
        *,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        django_task: dict[str, Any] | None = None,
    ) -> Any:
        result = _begun(given_again(task, django_task or {}), context, args or [], kwargs or {})
        task_started.send(type(task.get_backend()), task_result=result)
        first = [TaskContext(task_result=result)] if task.takes_context else []
        try:
            value = normalize_json(task.call(*first, *result.args, **result.kwargs))
        except BaseException as raised:
            if context.attempt >= context.max_attempts or isinstance(raised, PermanentError):
                error = TaskError(
                    exception_class_path=get_module_path(type(raised)), traceback=get_exception_traceback(raised)
                )
                result.errors.append(error)
                _end(task, result, TaskResultStatus.FAILED)
            raise
        object.__setattr__(result, "_return_value", value)
        _end(task, result, TaskResultStatus.SUCCESSFUL)
        return value

    run.__module__, run.__qualname__ = task.func.__module__, task.func.__qualname__
    return run


def _begun(task: Task, context: AttemptContext, args: list[Any], kwargs: dict[str, Any]) -> TaskResult:
    now = SYSTEM_CLOCK.now()
    return TaskResult(
        task=task,
        id=str(context.execution_id),
        status=TaskResultStatus.RUNNING,
        enqueued_at=context.scheduled_at,
        started_at=now,
        finished_at=None,
        last_attempted_at=now,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        errors=[],
        # As many as there were attempts, which is what people count them by.
        worker_ids=[f"{socket.gethostname()}:{os.getpid()}"] * context.attempt,
    )


def _end(task: Task, result: TaskResult, status: TaskResultStatus) -> None:
    object.__setattr__(result, "status", status)
    object.__setattr__(result, "finished_at", SYSTEM_CLOCK.now())
    task_finished.send(type(task.get_backend()), task_result=result)
