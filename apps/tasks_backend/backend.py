"""The backend: validates, enqueues, and finds results again.

It is imported with the project's `tasks` modules, before Django's models are ready: what touches those is imported
where it is used.
"""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.core import checks
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task, TaskResult
from django_tasks.exceptions import InvalidTaskError
from django_tasks.signals import task_enqueued

from apps.tasks_backend.task import ChronowebTask
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

OPTIONS = ("tenant", "task", "queues")


class ChronowebBackend(BaseTaskBackend):
    """OPTIONS: tenant, the slug of whose tasks they are; task, fields of the tasks' definitions that differ from
    chronoweb's defaults; queues, such fields by the name of the queue.

    Enqueueing is a row in the default database: in a transaction it counts when that commits, and never if it does
    not. Priorities are kept as given, and rounded to chronoweb's ten.
    """

    task_class = ChronowebTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Task, args: Any, kwargs: Any) -> TaskResult:
        """Raises InvalidTaskError for what chronoweb does not accept, such as arguments that are too large."""
        from apps.definitions import told
        from apps.tasks_backend import ledger

        self.validate_task(task)
        try:
            result = ledger.enqueue(self, task, list(args), dict(kwargs))
        except (InvalidInput, InvalidInputs) as error:
            raise InvalidTaskError("; ".join(told.lines(error, source=task.module_path))) from error
        task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> TaskResult:
        """Raises TaskResultDoesNotExist, for what is no result of this backend's tenant too."""
        from apps.tasks_backend import results

        return results.find(self, result_id)

    def check(self, **kwargs: Any) -> Iterable[checks.CheckMessage]:
        where = f"TASKS[{self.alias!r}]['OPTIONS']"
        if not isinstance(self.options.get("tenant"), str):
            yield checks.Error(f"{where} names no tenant", hint='"tenant": "SLUG"', id="chronoweb.E020")
        if unknown := sorted(set(self.options) - set(OPTIONS)):
            yield checks.Error(f"{where} has {', '.join(unknown)}", hint=", ".join(OPTIONS), id="chronoweb.E021")
        if strangers := sorted(set(self.options.get("queues", {})) - self.queues):
            hint = f"name them in TASKS[{self.alias!r}]['QUEUES']"
            yield checks.Error(
                f"{where} has options of queues that are none: {', '.join(strangers)}", hint=hint, id="chronoweb.E022"
            )
        if not settings.USE_TZ:
            yield checks.Error("chronoweb needs USE_TZ = True", id="chronoweb.E023")
