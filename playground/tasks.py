"""A place to try handlers: edit this file, or put another beside it, and running workers load it when it is saved."""

import asyncio
from typing import Any

from apps.worker.handlers import AsyncTaskContext, Interrupted, PermanentError, TaskContext, task_handler


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
async def wait(context: AsyncTaskContext, *, seconds: float = 1.0) -> None:
    """Runs on the worker's event loop: it waits there without a process of its own."""
    await asyncio.sleep(seconds)


@task_handler("playground.import_rows", isolation="async")
async def import_rows(context: AsyncTaskContext, *, rows: int = 600, batch: int = 20) -> dict[str, Any]:
    """Long work in batches. What a batch has done is kept before the next begins, so no attempt repeats one."""
    first = context.checkpoint_data or 0  # where an earlier attempt stopped, on whatever worker
    for row in range(first, rows, batch):
        if context.cancelled:  # somebody cancelled it, or its worker is being replaced
            raise Interrupted(f"stopped before row {row}")
        await asyncio.sleep(1)  # the work
        await context.checkpoint(row + batch)
        context.progress(min(row + batch, rows), rows)  # "40 of 600" on the execution's page
    context.log("all rows are in", rows=rows)
    return {"rows": rows}
