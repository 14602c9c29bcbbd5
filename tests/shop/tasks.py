"""What the project's pages enqueue."""

import os
from pathlib import Path
from typing import Any

from django.dispatch import receiver
from django_tasks import TaskContext, task
from django_tasks.signals import task_finished, task_started

from apps.tasks_backend.backend import ChronowebBackend
from apps.worker.handlers import PermanentError


class OutOfStock(Exception):
    """Of the project's own."""


@task
def add(a: int, b: int = 1) -> int:
    return a + b


@task()
async def add_async(a: int, b: int = 1) -> int:
    return a + b


@task(priority=80, queue_name="mail", takes_context=True)
def whoami(context: TaskContext, name: str) -> dict[str, Any]:
    result = context.task_result
    return {"name": name, "id": result.id, "attempt": context.attempt, "priority": result.task.priority}


@task
def buy(thing: str) -> None:
    raise OutOfStock(f"there is no {thing}")


@task(queue_name="patient")
def buy_patiently(thing: str) -> None:
    raise OutOfStock(f"there is no {thing}")


@task(queue_name="patient")
def give_up(thing: str) -> None:
    raise PermanentError(thing)


@task
def not_json() -> object:
    return object()


@receiver([task_started, task_finished], sender=ChronowebBackend)
def note(signal: object, task_result: Any, **_: object) -> None:
    """The project's own receivers run on the worker."""
    if folder := os.environ.get("SHOP_FOLDER"):
        word = "started" if signal is task_started else "finished"
        with Path(folder, task_result.id).open("a") as file:
            file.write(f"{word} {task_result.status}\n")
