"""/api/v1/executions and /api/v1/admin/dlq"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.filters import Filters, Identity, Moment, Text, Words, read
from apps.api.lists import ListView
from apps.api.openapi.declare import declared, documented
from apps.api.openapi.shapes import text
from apps.api.pagination import Ordering, PageRequest
from apps.definitions.replaying import replay_edited, replay_renewed, retry_renewed
from apps.definitions.selectors import refuse_unknown_task
from apps.executions import selectors, services
from apps.executions.models import DeadLetter as DeadLetterRow
from apps.executions.models import Execution
from apps.executions.searching import Found
from apps.executions.states import Origin, Status
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput


class ExecutionFilters(Filters):
    task_id = Identity("task_id")
    dag_run_id = Identity("dag_run_id")
    status = Words(Status, "status")
    origin = Words(Origin, "origin")
    since = Moment("scheduled_at", "gte", about="scheduled then or later")
    until = Moment("scheduled_at", "lt", about="scheduled before")


def wanted(values: Mapping[str, Any]) -> selectors.Filter:
    """Which executions the values of ExecutionFilters ask for."""
    return selectors.Filter(
        task_id=values["task_id"],
        dag_run_id=values["dag_run_id"],
        statuses=frozenset(Status(number) for number in values["status"] or ()),
        origins=frozenset(Origin(number) for number in values["origin"] or ()),
        since=values["since"],
        until=values["until"],
    )


class Executions(ListView):
    """Latest scheduled first; without `since`, of the last 35 days and all that is ahead."""

    filters = ExecutionFilters
    ordering = Ordering({"scheduled_at": "id"}, default="-scheduled_at")
    declares = {"get": declared("List executions", gives="ExecutionPage")}

    def get(self, request: Request, **where: Any) -> Response:
        page = self.asked(request)
        found = self.page_of(request, page, self.wanted(request))
        answer = page.answer(found.rows, self.shown(request, found.rows[: page.limit]), stopped=found.stopped)
        return Response(answer | {"searched_to": representations.moment(found.searched_to)})

    def wanted(self, request: Request) -> selectors.Filter:
        return wanted(read(self.filters, request.query_params))

    @staticmethod
    def page_of(request: Request, page: PageRequest, which: selectors.Filter) -> Found[Execution]:
        now = SYSTEM_CLOCK.now()
        return selectors.executions(
            principal(request), which, now=now, behind=page.last, descending=page.descends, limit=page.limit + 1
        )

    def shown(self, request: Request, rows: Sequence[Execution]) -> list[dict[str, Any]]:
        return representations.executions(rows, principal(request))


class ExecutionsOfTaskFilters(Filters):
    status = Words(Status, "status")
    origin = Words(Origin, "origin")
    since = Moment("scheduled_at", "gte", about="scheduled then or later")
    until = Moment("scheduled_at", "lt", about="scheduled before")


class ExecutionsOfTask(Executions):
    """Executions of one task, as in the list of all; a deleted task is known by its executions."""

    filters = ExecutionsOfTaskFilters
    declares = {"get": declared("List executions of a task", gives="ExecutionPage")}

    def get(self, request: Request, **where: Any) -> Response:
        answer = super().get(request, **where)
        if not answer.data["items"]:
            refuse_unknown_task(principal(request), self.kwargs["task_id"])
        return answer

    def wanted(self, request: Request) -> selectors.Filter:
        values = {**dict.fromkeys(ExecutionFilters.base_filters), **read(self.filters, request.query_params)}
        return wanted({**values, **self.kwargs})


class OneExecution(ApiView):
    @documented("Read an execution", gives="ExecutionDetail")
    def get(self, request: Request, execution_id: UUID) -> Response:
        return _detail(request, execution_id)


class RetryExecution(ApiView):
    """A dead letter goes round again under its id; what ended otherwise gets a new execution. Under the version that it
    had, or, if `current_version` is true, the one that its task has now.
    """

    @documented(
        "Run an execution again",
        takes="RunAgain",
        body_optional=True,
        gives={202: "ExecutionDetail"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, execution_id: UUID) -> Response:
        renewed = flag(body_object(request, fields=("current_version",)), "current_version")
        retry = retry_renewed if renewed else services.retry
        return _detail(request, retry(principal=principal(request), execution_id=execution_id), status=202)


class CancelExecution(ApiView):
    @documented("Cancel an execution", takes="Empty", body_optional=True, gives="ExecutionDetail", fails=(409,))
    def post(self, request: Request, execution_id: UUID) -> Response:
        body_object(request, fields=())
        services.cancel(principal=principal(request), execution_id=execution_id)
        return _detail(request, execution_id)


class DeadLetterFilters(Filters):
    task_id = Identity("task_id")
    fingerprint = Text("fingerprint", about="failed alike")
    since = Moment("since", "gte", about="dead since then or later")
    until = Moment("since", "lt", about="dead before")


class DeadLetters(ListView):
    filters = DeadLetterFilters
    ordering = Ordering({"scheduled_at": "execution_id"}, default="-scheduled_at", tie="execution_id")
    declares = {"get": declared("List dead letters", gives="DeadLetterPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return selectors.dead_letters(principal(request))

    def shown(self, request: Request, rows: Sequence[DeadLetterRow]) -> list[dict[str, Any]]:
        pairs = selectors.with_executions(rows)
        executions = representations.executions([execution for _, execution in pairs], principal(request))
        return [
            {
                **execution,
                "fingerprint": letter.fingerprint,
                "since": representations.moment(letter.since),
            }
            for execution, (letter, _) in zip(executions, pairs, strict=True)
        ]


class DeadLetter(ApiView):
    query_parameters = ("reason",)

    @documented(
        "Discard a dead letter",
        takes="Discard",
        body_optional=True,
        gives={204: None},
        fails=(409, 413, 415, 422),
        parameters={"reason": text(200)},
    )
    def delete(self, request: Request, execution_id: UUID) -> Response:
        reason = body_object(request, fields=("reason",)).get("reason")
        if reason is None:
            reason = queries.text(request, "reason") or ""
        services.discard(principal=principal(request), execution_id=execution_id, reason=reason)
        return Response(status=204)


class ReplayDeadLetter(ApiView):
    """It goes on behind its checkpoint, unless `from_start` is true; with other `parameters`, if they are given;
    under the version that it failed under, or, if `current_version` is true, the one that its task has now.
    """

    @documented(
        "Replay a dead letter",
        takes="Replay",
        body_optional=True,
        gives={202: "ExecutionDetail"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, execution_id: UUID) -> Response:
        data = body_object(request, fields=("from_start", "parameters", "current_version"))
        from_start, renewed = flag(data, "from_start"), flag(data, "current_version")
        who: dict[str, Any] = {"principal": principal(request), "execution_id": execution_id, "from_start": from_start}
        if data.get("parameters") is not None:
            again = replay_edited(parameters=data["parameters"], renewed=renewed, **who)
        else:
            again = replay_renewed(**who) if renewed else services.replay(**who)
        return _detail(request, again, status=202)


def flag(data: Mapping[str, Any], name: str) -> bool:
    """A field that is true or false; false where it is missing. Raises InvalidInput."""
    value = data.get(name, False)
    if not isinstance(value, bool):
        raise InvalidInput(f"/{name}", value, "must be true or false", "true, false")
    return value


def _detail(request: Request, execution_id: UUID, *, status: int = 200) -> Response:
    row = selectors.execution(principal(request), execution_id)
    location = {"Location": f"/api/v1/executions/{execution_id}"} if status == 202 else None
    return Response(representations.execution_detail(row, principal(request)), status=status, headers=location)
