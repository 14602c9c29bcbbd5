"""/api/v1/tasks"""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import definitions, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.definitions import EDITED, DefinitionFilters, Kind, standing_act
from apps.api.filters import Words
from apps.api.openapi.declare import declared, documented
from apps.api.pagination import Ordering
from apps.definitions import advice, selectors, services
from apps.executions import selectors as ledger
from apps.executions.handler_spec import TYPES

TASKS = Kind(
    path="tasks",
    show=representations.task,
    show_line=representations.task,
    all=selectors.tasks,
    find=selectors.task,
    create=services.create_task,
    update=services.update_task,
    delete=services.delete_task,
    pause=services.pause_task,
    resume=services.resume_task,
    warnings=advice.warnings_of,
)


class TaskFilters(DefinitionFilters):
    handler_type = Words({name: name for name in TYPES}, "handler__type")


class Tasks(definitions.DefinitionList):
    kind = TASKS
    filters = TaskFilters
    ordering = Ordering(
        {"name": "name", "created_at": "id", "updated_at": "updated_at", "priority": "priority"},
        default="-created_at",
    )
    declares = {
        "get": declared("List tasks", gives="TaskPage"),
        "post": declared(
            "Define a task",
            takes="TaskInput",
            gives={201: "DefinedTask"},
            headers=("ETag", "Location"),
            fails=(409,),
        ),
    }


class OneTask(definitions.OneDefinition):
    kind = TASKS
    declares = {
        "get": declared("Read a task", gives="Task", headers=("ETag",)),
        "put": declared("Replace a task's definition", takes="TaskInput", gives="DefinedTask", **EDITED),
        "patch": declared(
            "Change fields of a task", takes="TaskPatch", body_optional=True, gives="DefinedTask", **EDITED
        ),
        "delete": declared("Delete a task", gives={204: None}, fails=(409,), request_headers=("If-Match",)),
    }


class PauseTask(definitions.PauseDefinition):
    kind = TASKS
    declares = standing_act("Pause a task", takes="Note", gives="Task")


class ResumeTask(definitions.ResumeDefinition):
    kind = TASKS
    declares = standing_act("Resume a task", takes="Empty", gives="Task")


class TriggerTask(ApiView):
    @documented(
        "Run a task",
        takes="Trigger",
        body_optional=True,
        gives={202: "Execution"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, task_id: UUID) -> Response:
        given: dict[str, Any] = body_object(request, fields=("run_at", "parameters", "idempotency_key"))
        made = services.trigger(principal=principal(request), task_id=task_id, **given)
        row = ledger.execution(principal(request), made)
        location = {"Location": f"/api/v1/executions/{made}"}
        return Response(representations.executions([row], principal(request))[0], status=202, headers=location)


class TriggerBatch(ApiView):
    @documented("Run a task many times", takes="TriggerBatch", gives={202: "TriggeredBatch"}, fails=(409,))
    def post(self, request: Request, task_id: UUID) -> Response:
        items = body_object(request, fields=("items",)).get("items")
        made = services.trigger_batch(principal=principal(request), task_id=task_id, items=items)
        return Response({"items": [{"id": str(identity)} for identity in made]}, status=202)
