"""Replaying a dead letter with other parameters than it failed with."""

from typing import Any
from uuid import UUID

from apps.definitions import json_values
from apps.definitions.validation import check_parameters
from apps.executions import concurrency, selectors, services
from apps.executions.models import Execution
from apps.executions.services import Edited
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


def replay_edited(*, principal: Principal, execution_id: UUID, parameters: Any, from_start: bool = False) -> UUID:
    """As services.replay, with `parameters` instead of its own if they differ from them.

    Raises InvalidInputs (pointers below "/parameters"), NotFound, Conflict.
    """
    found = selectors.execution(principal, execution_id)
    edited = None if parameters == found.parameters else read_edited(found, parameters)
    return services.replay(principal=principal, execution_id=execution_id, from_start=from_start, edited=edited)


def read_edited(execution: Execution, parameters: Any) -> Edited:
    """What a trigger takes as parameters, this takes."""
    errors = list(json_values.problems({"parameters": parameters}))
    if not errors and (error := check_parameters(parameters, "/parameters")):
        errors.append(error)
    if errors:
        raise InvalidInputs(errors)
    declared = execution.task_version.definition.get("concurrency")
    try:
        key = concurrency.key_of(declared, parameters, tenant_id=execution.tenant_id.bytes)
    except InvalidInputs as found:
        raise InvalidInputs(
            [InvalidInput(f"/parameters{one.pointer}", one.value, one.problem, one.legal) for one in found.errors]
        ) from found
    return Edited(json_values.compact(parameters), key)
