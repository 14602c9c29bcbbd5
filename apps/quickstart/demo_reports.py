"""Handlers of examples/nightly-report: a list, work on each of its items, and their sum."""

from typing import Any

from apps.worker.handlers import TaskContext, task_handler


@task_handler("reports.shops")
def shops(context: TaskContext) -> dict[str, Any]:
    """The shops there are."""
    return {"items": [{"id": name} for name in ("Lyon", "Nantes", "Paris")]}


@task_handler("reports.sales")
def sales(context: TaskContext, *, shop: str, place: int, currency: str) -> dict[str, Any]:
    """What a shop has sold: a made-up number that is the same each time."""
    return {"shop": shop, "sum": 100 * (place + 1) + len(shop), "currency": currency}


@task_handler("reports.total")
def total(context: TaskContext) -> dict[str, Any]:
    """The sum over the shops whose sales are known."""
    known = [each for each in context.parents["sales"] or [] if each is not None]
    return {"sum": sum(each["sum"] for each in known), "shops": len(known)}
