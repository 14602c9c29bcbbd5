"""/api/v1/executions/{id}/logs and /api/v1/logs"""

from uuid import UUID

from django.db import connection as django_connection
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries
from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.executions import person_store, selectors
from apps.logs import answers, search
from chronoweb.runtime import postgres


class ExecutionLogs(ApiView):
    """Server-sent events where Accept asks for them, else a page of lines."""

    query_parameters = answers.PARAMETERS

    def get(self, request: Request, execution_id: UUID) -> HttpResponseBase:
        queries.text(request, "search")
        execution = selectors.execution(principal(request), execution_id)
        if answers.wants_events(request._request):
            return answers.events(request._request, principal(request), execution)
        return Response(answers.page(request._request, principal(request), execution))


class DownloadLogs(ApiView):
    query_parameters = ("format", "attempt")

    def get(self, request: Request, execution_id: UUID) -> HttpResponseBase:
        execution = selectors.execution(principal(request), execution_id)
        return answers.download(request._request, principal(request), execution)


class SearchLogs(ApiView):
    """Lines of all executions of the tenant, latest executions first; by default of the last week."""

    query_parameters = ("search", "since", "until", "cursor", "limit")

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
