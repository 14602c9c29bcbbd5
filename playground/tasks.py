"""A place to try handlers: edit this file, and running workers load it when it is saved."""

import asyncio
from typing import Any

from apps.worker.handlers import PermanentError, TaskContext, task_handler


@task_handler
def hello(context: TaskContext, *, name: str = "world") -> dict[str, Any]:
    """Called "playground.hello"; what it returns is the execution's result."""
    print(f"hello {name}, attempt {context.attempt} of {context.task_name}")
    return {"greeting": f"hello {name}"}


@task_handler("playground.picky")
def picky(context: TaskContext, *, amount: float) -> dict[str, Any]:
    """A handler that knows when trying again cannot help."""
    if amount < 0:
        raise PermanentError(f"amount is {amount}; it must not be negative")
    return {"doubled": amount * 2}


@task_handler("playground.wait", isolation="async")
async def wait(context: TaskContext, *, seconds: float = 1.0) -> None:
    """Runs on the worker's event loop: it waits there without a process of its own."""
    await asyncio.sleep(seconds)
