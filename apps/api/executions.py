"""/api/v1/executions and /api/v1/admin/dlq"""

from uuid import UUID

from django.db import connection as django_connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.api.openapi.shapes import many, text, words
from apps.api.pagination import page_request
from apps.executions import person_store, selectors, services
from apps.executions.states import Status
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import InvalidInput

FILTERS = ("task_id", "status", "since", "until")


class Executions(ApiView):
    """Latest scheduled first; without `since`, of the last selectors.DEFAULT_DAYS_BACK days and all that is ahead."""

    query_parameters = (*FILTERS, "limit", "cursor")

    @documented("List executions", gives="ExecutionPage", parameters={"status": many(words(Status))})
    def get(self, request: Request) -> Response:
        page = page_request(request, filters=FILTERS)
        wanted = selectors.Filter(
            task_id=queries.identity(request, "task_id"),
            statuses=queries.statuses(request, "status"),
            since=queries.moment(request, "since"),
            until=queries.moment(request, "until"),
        )
        now = person_store.database_now(postgres.raw(django_connection))
        found = selectors.executions(principal(request), wanted, now=now, below=page.below, limit=page.limit + 1)
        shown = found[: page.limit]
        items = representations.executions(shown)
        return Response(page.answer(found, items, shown[-1].id if shown else None))


class OneExecution(ApiView):
    @documented("Read an execution", gives="ExecutionDetail")
    def get(self, request: Request, execution_id: UUID) -> Response:
        return _detail(request, execution_id)


class RetryExecution(ApiView):
    """A dead letter goes round again under its id; what ended otherwise gets a new execution."""

    @documented(
        "Run an execution again",
        takes="Empty",
        body_optional=True,
        gives={202: "ExecutionDetail"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, execution_id: UUID) -> Response:
        body_object(request, fields=())
        return _detail(request, services.retry(principal=principal(request), execution_id=execution_id), status=202)


class CancelExecution(ApiView):
    @documented("Cancel an execution", takes="Empty", body_optional=True, gives="ExecutionDetail", fails=(409,))
    def post(self, request: Request, execution_id: UUID) -> Response:
        body_object(request, fields=())
        services.cancel(principal=principal(request), execution_id=execution_id)
        return _detail(request, execution_id)


class DeadLetters(ApiView):
    query_parameters = ("task_id", "limit", "cursor")

    @documented("List dead letters", gives="DeadLetterPage")
    def get(self, request: Request) -> Response:
        page = page_request(request, filters=("task_id",))
        found = selectors.dead_letters(
            principal(request),
            task_id=queries.identity(request, "task_id"),
            below=page.below,
            limit=page.limit + 1,
        )
        shown = found[: page.limit]
        executions = representations.executions([row.execution for row in shown])
        items = [
            {
                **execution,
                "fingerprint": row.letter.fingerprint,
                "since": representations.moment(row.letter.since),
            }
            for execution, row in zip(executions, shown, strict=True)
        ]
        return Response(page.answer(found, items, shown[-1].letter.execution_id if shown else None))


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
    """It goes on behind its checkpoint, unless `from_start` is true."""

    @documented(
        "Replay a dead letter",
        takes="Replay",
        body_optional=True,
        gives={202: "ExecutionDetail"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, execution_id: UUID) -> Response:
        from_start = body_object(request, fields=("from_start",)).get("from_start", False)
        if not isinstance(from_start, bool):
            raise InvalidInput("/from_start", from_start, "must be true or false", "true, false")
        again = services.replay(principal=principal(request), execution_id=execution_id, from_start=from_start)
        return _detail(request, again, status=202)


def _detail(request: Request, execution_id: UUID, *, status: int = 200) -> Response:
    row = selectors.execution(principal(request), execution_id)
    location = {"Location": f"/api/v1/executions/{execution_id}"} if status == 202 else None
    return Response(representations.execution_detail(row), status=status, headers=location)
