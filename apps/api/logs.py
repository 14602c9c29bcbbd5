"""/api/v1/executions/{id}/logs and /api/v1/logs"""

from uuid import UUID

from django.db import connection as django_connection
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries
from apps.api.authentication import principal, still_may
from apps.api.base import ApiView
from apps.api.openapi.declare import Answer, documented
from apps.api.openapi.shapes import TEXT, many, one_of, text, whole
from apps.executions import person_store, selectors
from apps.logs import answers, search
from apps.logs.records import STREAMS
from chronoweb.runtime import postgres

LOG = Answer({"application/json": "LogPage", "text/event-stream": TEXT})
DOWNLOAD = Answer({"application/jsonl": TEXT, "text/plain": TEXT}, headers=("Content-Disposition",))
LOG_PARAMETERS = {
    "cursor": {**TEXT, "description": "the id of a line: go on behind it"},
    "limit": {**whole(1, answers.LARGEST_LIMIT), "default": answers.DEFAULT_LIMIT},
    "search": {**text(200), "description": "lines with all these words"},
    "stream": many(one_of(STREAMS.values()), least=1),
}
SEARCH_PARAMETERS = {
    **{name: shape for name, shape in LOG_PARAMETERS.items() if name != "stream"},
    "search": {**text(200, 1), "description": "lines with all these words", "required": True},
}


class ExecutionLogs(ApiView):
    """Server-sent events where Accept asks for them, else a page of lines."""

    query_parameters = answers.PARAMETERS

    @documented(
        "Read or follow an execution's log",
        gives={200: LOG},
        parameters=LOG_PARAMETERS,
        request_headers=("Last-Event-ID",),
    )
    def get(self, request: Request, execution_id: UUID) -> HttpResponseBase:
        queries.text(request, "search")
        queries.read_boolean("grouped", request.query_params.get("grouped", "false"))
        execution = selectors.execution(principal(request), execution_id)
        if answers.wants_events(request._request):
            return answers.events(request._request, principal(request), execution, may_look=lambda: still_may(request))
        return Response(answers.page(request._request, principal(request), execution))


class DownloadLogs(ApiView):
    query_parameters = ("format", "attempt")

    @documented("Download an execution's log", gives={200: DOWNLOAD})
    def get(self, request: Request, execution_id: UUID) -> HttpResponseBase:
        execution = selectors.execution(principal(request), execution_id)
        return answers.download(request._request, principal(request), execution)


class SearchLogs(ApiView):
    """Lines of all executions of the tenant, latest executions first; by default of the last week."""

    query_parameters = ("search", "since", "until", "cursor", "limit")

    @documented("Search logs", gives="FoundLogPage", parameters=SEARCH_PARAMETERS)
    def get(self, request: Request) -> Response:
        text = queries.text(request, "cursor")
        try:
            after = search.Place.parse(text) if text else None
        except ValueError:
            legal = "a next_cursor of this very search"
            raise answers.query_error("cursor", text, "is not a cursor of a search", legal) from None
        found = search.search(
            principal(request),
            answers.wanted(queries.text(request, "search"), needed=True),
            since=queries.moment(request, "since"),
            until=queries.moment(request, "until"),
            after=after,
            limit=answers.limit(request._request),
            now=person_store.database_now(postgres.raw(django_connection)),
        )
        return Response({"items": found.lines, "next_cursor": None if found.after is None else str(found.after)})
