"""Reading tasks: always a tenant's, deleted ones never."""

from uuid import UUID

from django.db.models import QuerySet

from apps.definitions.models import Task
from apps.definitions.tasks import live_tasks
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get


def task(principal: Principal, task_id: UUID) -> Task:
    """One task. Raises NotFound, for ids of other tenants too."""
    return scoped_get(live_tasks(), principal, what="task", id=task_id)


def tasks(
    principal: Principal,
    *,
    search: str | None = None,
    name: str | None = None,
    tag: str | None = None,
    paused: bool | None = None,
) -> QuerySet[Task]:
    """The tenant's tasks. search: in any part of the name, capitals or not. name: exactly. paused: None is both."""
    rows = scoped(live_tasks(), principal)
    if search:
        rows = rows.filter(name__icontains=search)
    if name is not None:
        rows = rows.filter(name=name)
    if tag is not None:
        rows = rows.filter(tags__contains=[tag])
    if paused is not None:
        rows = rows.filter(paused_at__isnull=not paused)
    return rows
