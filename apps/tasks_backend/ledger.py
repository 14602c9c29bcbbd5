"""Enqueueing: a definition for each function, queue and priority, and an execution for each call."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connection as django_connection
from django.db import transaction
from django_tasks.backends.base import BaseTaskBackend
from django_tasks.base import Task as DjangoTask
from django_tasks.base import TaskResult, TaskResultStatus
from django_tasks.utils import normalize_json

from apps.definitions import services
from apps.definitions.models import Task
from apps.definitions.tasks import live_tasks
from apps.definitions.validation import FIELDS, read_document
from apps.definitions.versions import document_of
from apps.executions import person_store
from apps.executions.models import Execution
from apps.tasks_backend.definition import definition_of
from apps.tasks_backend.task import GIVEN, as_given
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import Conflict, NotFound

_definitions: dict[tuple[Any, ...], Any] = {}
"""(database, tenant, name) → (document, id) of what this process has seen in force. A transaction that is undone, or
somebody else, may have taken it away: then the trigger finds nothing, and the definition is made again."""


def principal_of(backend: BaseTaskBackend) -> Principal:
    """An operator of the tenant that the options name. Raises ImproperlyConfigured."""
    slug = backend.options.get("tenant")
    tenant = Tenant.objects.filter(slug=slug).first()
    if tenant is None:
        raise ImproperlyConfigured(
            f"TASKS[{backend.alias!r}]['OPTIONS']['tenant'] is {slug!r}, and there is no such tenant"
        )
    return Principal.in_tenant(tenant, role=Role.OPERATOR, actor=f"django-tasks:{backend.alias}")


@transaction.atomic
def enqueue(backend: BaseTaskBackend, task: DjangoTask, args: list[Any], kwargs: dict[str, Any]) -> TaskResult:
    """One execution, due now or at the task's run_after. Raises InvalidInputs; TypeError for what is not JSON."""
    principal = principal_of(backend)
    now = person_store.database_now(postgres.raw(django_connection))
    parameters = {"args": normalize_json(args), "kwargs": normalize_json(kwargs), GIVEN: as_given(task)}
    # What is over is due at once, however long ago it was.
    run_at = task.run_after if task.run_after is not None and task.run_after > now else None
    try:
        identity = _trigger(principal, _definition(backend, principal, task), run_at, parameters)
    except NotFound:
        identity = _trigger(principal, _definition(backend, principal, task, known=False), run_at, parameters)
    return TaskResult(
        task=task,
        id=str(identity),
        status=TaskResultStatus.READY,
        enqueued_at=Execution.objects.with_id(identity).values_list("created_at", flat=True).get(),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=args,
        kwargs=kwargs,
        backend=backend.alias,
        errors=[],
        worker_ids=[],
    )


def _trigger(principal: Principal, task_id: Any, run_at: Any, parameters: dict[str, Any]) -> Any:
    return services.trigger(principal=principal, task_id=task_id, run_at=run_at, parameters=parameters)


def name_of(task: DjangoTask, priority: int) -> str:
    """Of the definition: the function's path, and what differs from the defaults."""
    more = [] if task.queue_name == "default" else [f"queue {task.queue_name}"]
    more += [] if priority == 5 else [f"priority {priority}"]
    return f"{task.module_path} ({', '.join(more)})" if more else task.module_path


def _definition(backend: BaseTaskBackend, principal: Principal, task: DjangoTask, *, known: bool = True) -> Any:
    """The id of the definition in force, made or edited first where it is not what the settings say."""
    wanted = definition_of(task, backend.options)
    wanted["name"] = name_of(task, wanted["priority"])
    place = (django_connection.settings_dict["NAME"], principal.tenant_id, wanted["name"])
    if known and (seen := _definitions.get(place)) is not None and seen[0] == wanted:
        return seen[1]
    found = _in_force(principal, wanted)
    _definitions[place] = (wanted, found)
    return found


def _in_force(principal: Principal, wanted: dict[str, Any]) -> Any:
    row = _find(principal, wanted["name"])
    if row is None:
        try:
            return services.create_task(principal=principal, data=wanted).id
        except Conflict:  # another process was quicker
            row = _find(principal, wanted["name"])
            if row is None:
                raise
    now = person_store.database_now(postgres.raw(django_connection))
    document, before = read_document(wanted, now=now), document_of(row)
    changed = {name: wanted[name] for name in FIELDS if name in wanted and document[name] != before[name]}
    if changed:
        services.update_task(principal=principal, task_id=row.id, data=changed, partial=True)
    return row.id


def _find(principal: Principal, name: str) -> Task | None:
    found: Task | None = scoped(live_tasks(), principal).filter(name=name).first()
    return found
