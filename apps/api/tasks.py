"""/api/v1/tasks"""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.etags import expected_version
from apps.api.openapi.declare import documented
from apps.api.pagination import page_request
from apps.definitions import advice, selectors, services
from apps.definitions.models import Task
from apps.executions import selectors as ledger

FILTERS = ("search", "tag", "paused", "name")


def _defined(request: Request, task: Task, *, status: int = 200) -> Response:
    """The answer to a definition: what is worth saying about it stands in `warnings`."""
    shown = _shown(request, task, status=status)
    shown.data = {**shown.data, "warnings": advice.warnings_of(shown.data)}
    return shown


def _shown(request: Request, task: Task, *, status: int = 200) -> Response:
    headers = {"ETag": f'"{task.version}"'}
    if status == 201:
        headers["Location"] = f"/api/v1/tasks/{task.id}"
    return Response(representations.task(task, role=principal(request).role), status=status, headers=headers)


class Tasks(ApiView):
    query_parameters = (*FILTERS, "limit", "cursor")

    @documented("List tasks", gives="TaskPage")
    def get(self, request: Request) -> Response:
        page = page_request(request, filters=FILTERS)
        rows = selectors.tasks(
            principal(request),
            search=queries.text(request, "search"),
            name=queries.text(request, "name"),
            tag=queries.text(request, "tag"),
            paused=queries.boolean(request, "paused"),
        )
        if page.below is not None:
            rows = rows.filter(id__lt=page.below)
        found = list(rows.order_by("-id")[: page.limit + 1])
        shown = found[: page.limit]
        items = [representations.task(row, role=principal(request).role) for row in shown]
        return Response(page.answer(found, items, shown[-1].id if shown else None))

    @documented(
        "Define a task", takes="TaskInput", gives={201: "DefinedTask"}, headers=("ETag", "Location"), fails=(409,)
    )
    def post(self, request: Request) -> Response:
        return _defined(request, services.create_task(principal=principal(request), data=request.data), status=201)


class OneTask(ApiView):
    @documented("Read a task", gives="Task", headers=("ETag",))
    def get(self, request: Request, task_id: UUID) -> Response:
        return _shown(request, selectors.task(principal(request), task_id))

    @documented(
        "Replace a task's definition",
        takes="TaskInput",
        gives="DefinedTask",
        headers=("ETag",),
        fails=(409,),
        request_headers=("If-Match",),
    )
    def put(self, request: Request, task_id: UUID) -> Response:
        return self._update(request, task_id, partial=False)

    @documented(
        "Change fields of a task",
        takes="TaskPatch",
        gives="DefinedTask",
        headers=("ETag",),
        fails=(409,),
        request_headers=("If-Match",),
    )
    def patch(self, request: Request, task_id: UUID) -> Response:
        return self._update(request, task_id, partial=True)

    @documented("Delete a task", gives={204: None}, fails=(409,))
    def delete(self, request: Request, task_id: UUID) -> Response:
        services.delete_task(principal=principal(request), task_id=task_id)
        return Response(status=204)

    def _update(self, request: Request, task_id: UUID, *, partial: bool) -> Response:
        task = services.update_task(
            principal=principal(request),
            task_id=task_id,
            data=request.data,
            partial=partial,
            expected_version=expected_version(request),
        )
        return _defined(request, task)


class PauseTask(ApiView):
    @documented("Pause a task", takes="Note", body_optional=True, gives="Task", headers=("ETag",))
    def post(self, request: Request, task_id: UUID) -> Response:
        note = body_object(request, fields=("note",)).get("note")
        note = "" if note is None else note
        return _shown(request, services.pause_task(principal=principal(request), task_id=task_id, note=note))


class ResumeTask(ApiView):
    @documented("Resume a task", takes="Empty", body_optional=True, gives="Task", headers=("ETag",))
    def post(self, request: Request, task_id: UUID) -> Response:
        body_object(request, fields=())
        return _shown(request, services.resume_task(principal=principal(request), task_id=task_id))


class TriggerTask(ApiView):
    @documented(
        "Run a task", takes="Trigger", body_optional=True, gives={202: "Execution"}, headers=("Location",), fails=(409,)
    )
    def post(self, request: Request, task_id: UUID) -> Response:
        given: dict[str, Any] = body_object(request, fields=("run_at", "parameters", "idempotency_key"))
        made = services.trigger(principal=principal(request), task_id=task_id, **given)
        row = ledger.execution(principal(request), made)
        location = {"Location": f"/api/v1/executions/{made}"}
        return Response(representations.executions([row])[0], status=202, headers=location)


class TriggerBatch(ApiView):
    @documented("Run a task many times", takes="TriggerBatch", gives={202: "TriggeredBatch"}, fails=(409,))
    def post(self, request: Request, task_id: UUID) -> Response:
        items = body_object(request, fields=("items",)).get("items")
        made = services.trigger_batch(principal=principal(request), task_id=task_id, items=items)
        return Response({"items": [{"id": str(identity)} for identity in made]}, status=202)
