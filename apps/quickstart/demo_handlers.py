"""Handlers of the demo tenant, and of whoever wants something to try: nothing here touches the world."""

import asyncio
import threading
from typing import Any

from apps.worker.handlers import AsyncTaskContext, Interrupted, TaskContext, task_handler


@task_handler("demo.noop")
def noop(context: TaskContext, **parameters: Any) -> None:
    """Does nothing, whatever its parameters: what remains is what chronoweb itself costs."""


@task_handler("demo.flaky")
def flaky(context: TaskContext, *, failures: int = 2) -> dict[str, Any]:
    """Fails on its first `failures` attempts, then succeeds; the attempt's number is all that it goes by."""
    if context.attempt <= failures:
        raise ConnectionError(f"attempt {context.attempt}: the pretended upstream is away")
    return {"succeeded_on_attempt": context.attempt}


@task_handler("demo.invoice")
def invoice(context: TaskContext, *, number: str, amount: str) -> dict[str, Any]:
    """Reads an amount with a decimal point; one with a comma is the kind of fault that no retry mends."""
    print(f"invoice {number}: reading the amount {amount!r}")
    try:
        value = float(amount)
    except ValueError:
        raise ValueError(f'amount "{amount}" of invoice {number} is not a number: write 12.50, not 12,50') from None
    return {"invoice": number, "amount": value}


@task_handler("demo.chatter")
def chatter(context: TaskContext, *, lines: int = 1000, width: int = 60) -> int:
    """Prints numbered lines as fast as they are taken."""
    filler = "." * width
    for number in range(1, lines + 1):
        print(f"{number} {filler}")
    return lines


@task_handler("demo.long_haul")
def long_haul(
    context: TaskContext, *, steps: int = 90, seconds_each: float = 0.5, checkpoint_every: int = 10
) -> dict[str, Any]:
    """Long work that need not begin anew: its worker may be killed, stopped or replaced at any step.

    It tells how far it is, leaves a checkpoint now and then, and stops at once, with one, when it is asked to.
    """
    begun_at: int = (context.checkpoint_data or {"done": 0})["done"]
    if begun_at:
        context.log("going on behind the checkpoint", done=begun_at)
    pause = threading.Event()
    for done in range(begun_at, steps):
        context.progress(done, steps)
        if context.cancelled:
            context.checkpoint({"done": done})
            raise Interrupted(f"asked to stop after {done} of {steps} steps")
        pause.wait(seconds_each)  # the work
        print(f"step {done + 1} of {steps} is done")
        if (done + 1) % checkpoint_every == 0:
            context.checkpoint({"done": done + 1})
    return {"steps": steps, "this_attempt_began_at": begun_at}


@task_handler("demo.work", isolation="async")
async def work(context: AsyncTaskContext, *, seconds: float = 1.0) -> None:
    """Takes its time and costs none: many of them are in flight when something breaks."""
    await asyncio.sleep(seconds)
