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
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, NotFound
from chronoweb.runtime.rows import Rows


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


_TASKS = Rows(Task)
_ONE = f"""
SELECT {_TASKS.columns("t")} FROM tasks t WHERE t.id = %s AND t.tenant_id = %s AND t.deleted_at IS NULL
"""  # noqa: S608 - names of columns


def find_task(principal: Principal, task_id: UUID, *, lock: str = "") -> Task:
    """The principal's task that is not deleted, read under this lock. Raises NotFound, for ids of other tenants too."""
    found = _TASKS.read(f"{_ONE} {lock}", (task_id, principal.tenant_id))
    if not found:
        raise NotFound(f"no task with id {task_id} in tenant {principal.tenant_slug}")
    return found[0]


def locked_task(principal: Principal, task_id: UUID) -> Task:
    """The principal's task, locked until the transaction ends, against triggers too. Raises NotFound."""
    return find_task(principal, task_id, lock="FOR UPDATE")


def held_task(principal: Principal, task_id: UUID) -> Task:
    """The principal's task, kept from being edited or deleted until the transaction ends; triggers do not hinder each
    other, nor the preloader. Raises NotFound.
    """
    return find_task(principal, task_id, lock="FOR KEY SHARE")


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
    same = "SELECT id FROM tasks WHERE tenant_id = %s AND name = %s AND deleted_at IS NULL AND id <> %s"
    found = postgres.reads(django_connection).read(same, (principal.tenant_id, task.name, task.id))
    if found:
        raise Conflict(
            f"the name {task.name!r} is taken by task {found[0][0]}; choose another name or edit that task",
            existing_id=str(found[0][0]),
            pointer="/name",
        )
