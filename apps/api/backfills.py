"""/api/v1/backfills, and the backfill of a task or a DAG."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.dag_representations import backfill
from apps.api.filters import Filters, Identity, Words
from apps.api.lists import ListView
from apps.api.openapi.declare import Answer, declared, documented
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.definitions import backfills
from apps.definitions.models import BackfillState
from chronoweb.runtime.errors import InvalidInput

SHOWN = 1000
"""Occurrences of a dry run's answer."""


BEGUN = {
    200: Answer({"application/json": "BackfillPreview"}),
    202: Answer({"application/json": "Backfill"}, headers=("Location",)),
}


class _Begin(ApiView):
    """POST starts a backfill; with dry_run it lists the occurrences and makes nothing."""

    def _begin(self, request: Request, **of: UUID) -> Response:
        data: dict[str, Any] = body_object(request, fields=backfills.FIELDS)
        dry_run = data.get("dry_run")
        if dry_run is not None and not isinstance(dry_run, bool):
            raise InvalidInput("/dry_run", dry_run, "must be true or false", ("true", "false"))
        target = backfills.target(principal(request), **of)
        wanted = backfills.read_request(target, data)
        if dry_run:
            occurrences = [moment(nominal) for nominal in wanted.preview(SHOWN)]
            return Response({"total": wanted.total, "occurrences": occurrences})
        made = backfills.start_backfill(principal=principal(request), of=target, request=wanted)
        return Response(backfill(made), status=202, headers={"Location": f"/api/v1/backfills/{made.id}"})


class BackfillTask(_Begin):
    @documented("Backfill a task", takes="BackfillInput", gives=BEGUN, fails=(409,))
    def post(self, request: Request, task_id: UUID) -> Response:
        return self._begin(request, task_id=task_id)


class BackfillDag(_Begin):
    @documented("Backfill a DAG", takes="BackfillInput", gives=BEGUN, fails=(409,))
    def post(self, request: Request, dag_id: UUID) -> Response:
        return self._begin(request, dag_id=dag_id)


class BackfillFilters(Filters):
    task_id = Identity("task_id")
    dag_id = Identity("dag_id")
    state = Words({state: state for state in BackfillState.values}, "state")


class Backfills(ListView):
    filters = BackfillFilters
    ordering = Ordering({"created_at": "id"}, default="-created_at")
    declares = {"get": declared("List backfills", gives="BackfillPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return backfills.backfills(principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [backfill(row) for row in rows]


class OneBackfill(ApiView):
    @documented("Read a backfill", gives="Backfill")
    def get(self, request: Request, backfill_id: UUID) -> Response:
        return Response(backfill(backfills.backfill(principal(request), backfill_id)))


class StopBackfill(ApiView):
    @documented("Stop a backfill", takes="Empty", body_optional=True, gives="Backfill")
    def post(self, request: Request, backfill_id: UUID) -> Response:
        body_object(request, fields=())
        return Response(backfill(backfills.stop_backfill(principal=principal(request), backfill_id=backfill_id)))
