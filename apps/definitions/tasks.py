"""Making tasks, and finding them."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db import connection as django_connection

from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.definitions.scheduling import first_fire_at, jitter_ms
from apps.definitions.secret_references import check_names
from apps.definitions.validation import read_document
from apps.definitions.versions import document_of, put_document, write_version
from apps.executions import person_store
from apps.tenants import audit
from apps.tenants.identity import new_uuid
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict


@transaction.atomic
def create_task(*, principal: Principal, data: Any) -> Task:
    """Define a task from its JSON document, in force at once.

    Raises InvalidInputs with every error, Conflict (extra: existing_id) when the name is taken.
    """
    now = person_store.database_now(postgres.raw(django_connection))
    task = Task(id=new_uuid(), tenant_id=principal.tenant_id)
    put_document(task, read_document(data, now=now))
    check_names(document_of(task), principal.tenant_id)
    schedule = Schedule.parse(task.schedule)
    task.jitter_ms = jitter_ms(task, schedule)
    task.next_fire_at = first_fire_at(schedule, after=now)
    write_version(task, actor=principal.actor)
    save_named(task, principal, lambda: task.save(force_insert=True))
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action="task.create",
        target_type="task",
        target_id=task.id,
        detail={"name": task.name},
    )
    transaction.on_commit(wakeup.preloader.wake)
    return task


def live_tasks() -> Any:
    """Tasks that are not deleted."""
    return Task.objects.filter(deleted_at=None)


def locked_task(principal: Principal, task_id: UUID) -> Task:
    """The principal's task, locked until the transaction ends, against triggers too. Raises NotFound."""
    return scoped_get(live_tasks().select_for_update(), principal, what="task", id=task_id)


def save_named(task: Task, principal: Principal, save: Callable[[], None]) -> None:
    """Save a task whose name may be taken: Conflict instead of the database's words."""
    _refuse_taken(task, principal)
    try:
        with transaction.atomic():
            save()
    except IntegrityError as error:
        _refuse_taken(task, principal)
        raise error


def _refuse_taken(task: Task, principal: Principal) -> None:
    other = scoped(live_tasks(), principal).filter(name=task.name).exclude(id=task.id).first()
    if other is not None:
        raise Conflict(
            f"the name {task.name!r} is taken by task {other.id}; choose another name or edit that task",
            existing_id=str(other.id),
            pointer="/name",
        )
    return
