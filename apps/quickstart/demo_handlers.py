"""Handlers of the demo tenant, and of whoever wants something to try: nothing here touches the world."""

from typing import Any

from apps.worker.handlers import TaskContext, task_handler


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
