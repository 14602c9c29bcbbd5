"""Reading tasks: always a tenant's, deleted ones never."""

from typing import TypeVar
from uuid import UUID

from django.db.models import QuerySet

from apps.definitions.models import Dag, Task
from apps.definitions.tasks import find_task, live_tasks
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get

D = TypeVar("D", Task, Dag)


def task(principal: Principal, task_id: UUID) -> Task:
    """One task. Raises NotFound, for ids of other tenants too."""
    return find_task(principal, task_id)


def tasks(principal: Principal) -> QuerySet[Task]:
    """The tenant's tasks."""
    return scoped(live_tasks(), principal)


def refuse_unknown_task(principal: Principal, task_id: UUID) -> None:
    """Raises NotFound unless the tenant has, or had, this task."""
    scoped_get(Task.objects.all(), principal, what="task", id=task_id)


def narrowed(rows: QuerySet[D], *, search: str = "", tag: str = "", paused: bool | None = None) -> QuerySet[D]:
    """Those with the text in any part of the name, capitals or not, and with this tag; empty and None: any."""
    if search:
        rows = rows.filter(name__icontains=search)
    if tag:
        rows = rows.filter(tags__contains=[tag])
    return rows if paused is None else rows.filter(paused_at__isnull=not paused)
