"""Replaying a dead letter otherwise than it failed: with other parameters, under its task as that is now."""

from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions import json_values, renewing
from apps.definitions.models import Task
from apps.definitions.validation import check_parameters
from apps.executions import concurrency, selectors, services
from apps.executions.models import Execution
from apps.executions.services import Edited
from apps.executions.states import Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


@transaction.atomic
def replay_edited(
    *, principal: Principal, execution_id: UUID, parameters: Any, from_start: bool = False, renewed: bool = False
) -> UUID:
    """As services.replay, with `parameters` instead of its own if they differ from them.

    renewed: under the version of its task that is in force now, with what that says of handler, attempts, priority,
    overlap, concurrency and time limits, and with its parameters, if it has none of its own and `parameters` are those
    that it failed with. One of a run of a DAG keeps the version that its run has.
    Raises InvalidInputs (pointers below "/parameters"), NotFound, Conflict.
    """
    found = selectors.execution(principal, execution_id)
    task = _newer(principal, found) if renewed else None
    declared = task.concurrency if task else found.task_version.definition.get("concurrency")
    edited = None if parameters == found.parameters else read_edited(found, parameters, declared=declared)
    made = services.replay(principal=principal, execution_id=execution_id, from_start=from_start, edited=edited)
    if task:
        follows = edited is None and found.payload is None
        _renew(principal, task, execution_id, task.parameters if follows else parameters)
    return made


def replay_renewed(*, principal: Principal, execution_id: UUID, from_start: bool = False) -> UUID:
    """Its parameters as they are, under its task as that is now."""
    parameters = selectors.execution(principal, execution_id).parameters
    return replay_edited(
        principal=principal, execution_id=execution_id, parameters=parameters, from_start=from_start, renewed=True
    )


@transaction.atomic
def retry_renewed(*, principal: Principal, execution_id: UUID) -> UUID:
    """As services.retry, under its task as that is now; of a run of a DAG under the version that its run has.

    Raises NotFound; Conflict while it has not ended; InvalidInputs where its parameters do not fit its task any more.
    """
    found = selectors.execution(principal, execution_id)
    if found.state is Status.DEAD_LETTER:
        return replay_renewed(principal=principal, execution_id=execution_id)
    made = services.retry(principal=principal, execution_id=execution_id)
    task = _newer(principal, found)
    if task is not None:
        _renew(principal, task, made, task.parameters if found.payload is None else found.payload)
    return made


def read_edited(execution: Execution, parameters: Any, *, declared: Any) -> Edited:
    """What a trigger takes as parameters, this takes. declared: the concurrency that it will run under."""
    errors = list(json_values.problems({"parameters": parameters}))
    if not errors and (error := check_parameters(parameters, "/parameters")):
        errors.append(error)
    if errors:
        raise InvalidInputs(errors)
    return Edited(json_values.compact(parameters), _key(execution, declared, parameters))


def _key(execution: Execution, declared: Any, parameters: Any) -> str | None:
    try:
        return concurrency.key_of(declared, parameters, tenant_id=execution.tenant_id.bytes)
    except InvalidInputs as found:
        raise InvalidInputs(
            [InvalidInput(f"/parameters{one.pointer}", one.value, one.problem, one.legal) for one in found.errors]
        ) from found


def _newer(principal: Principal, execution: Execution) -> Task | None:
    """Its task, where that has another version in force than the execution has, and no run of a DAG decides."""
    if execution.dag_run_id is not None:
        return None
    task = scoped(Task.objects.all(), principal).filter(id=execution.task_id).first()
    return task if task is not None and task.version_id != execution.task_version_id else None


def _renew(principal: Principal, task: Task, execution_id: UUID, parameters: Any) -> None:
    """Give what was just replayed, and so is locked, the terms of the task's version; its attempts go on counting."""
    key = concurrency.key_of(task.concurrency, parameters, tenant_id=task.tenant_id.bytes)
    renewing.rewrite(
        postgres.raw(django_connection),
        task,
        [execution_id],
        keys={execution_id.bytes: key},
        tenant_id=principal.tenant_id,
        actor=principal.actor,
    )
