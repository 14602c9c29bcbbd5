"""Handlers that the runner's tests run."""

import os
from typing import Any

from apps.worker.handlers import TaskContext, task_handler


@task_handler("t.noop")
def noop(context: TaskContext, **parameters: Any) -> None:
    return None


@task_handler("t.echo")
def echo(context: TaskContext, **parameters: Any) -> Any:
    return {
        "execution_id": str(context.execution_id),
        "attempt": context.attempt,
        "token": context.fencing_token,
        "key": context.idempotency_key,
        "scheduled_at": context.scheduled_at.isoformat(),
        "nominal_at": context.nominal_at and context.nominal_at.isoformat(),
        "seconds_left": (context.deadline - context.scheduled_at).total_seconds(),
        "parameters": context.parameters,
        "pid": os.getpid(),
    }
