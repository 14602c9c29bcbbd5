"""/api/v1/dags: definitions, their versions, and triggers. Runs stand in dag_runs.py."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import dag_representations as shown_as
from apps.api import queries
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.etags import expected_version
from apps.api.openapi.declare import documented
from apps.api.pagination import page_request
from apps.api.problems import query_error
from apps.definitions.dags import making, selectors, standing, triggering
from apps.definitions.models import Dag

FILTERS = ("search", "tag", "paused", "name")


def _shown(request: Request, dag: Dag, *, status: int = 200) -> Response:
    headers = {"ETag": f'"{dag.version}"'}
    if status == 201:
        headers["Location"] = f"/api/v1/dags/{dag.id}"
    return Response(shown_as.dag(dag, role=principal(request).role), status=status, headers=headers)


class Dags(ApiView):
    query_parameters = (*FILTERS, "limit", "cursor")

    @documented("List DAGs", gives="DagPage")
    def get(self, request: Request) -> Response:
        page = page_request(request, filters=FILTERS)
        rows = selectors.dags(
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
        return Response(page.answer(found, [shown_as.dag_line(row) for row in shown], shown[-1].id if shown else None))

    @documented("Define a DAG", takes="DagInput", gives={201: "Dag"}, headers=("ETag", "Location"), fails=(409,))
    def post(self, request: Request) -> Response:
        return _shown(request, making.create_dag(principal=principal(request), data=request.data), status=201)


class ValidateDag(ApiView):
    """POST a document: what `apply` would change, or every error; nothing is written."""

    @documented("Check a DAG's document", takes="DagInput", gives="DagValidation")
    def post(self, request: Request) -> Response:
        applied = making.apply(principal=principal(request), data=request.data, dry_run=True)
        return Response(
            {
                "id": None if applied.dag is None else str(applied.dag.id),
                "version": applied.version,
                "differences": [difference.to_json() for difference in applied.differences],
            }
        )


class OneDag(ApiView):
    @documented("Read a DAG", gives="Dag", headers=("ETag",))
    def get(self, request: Request, dag_id: UUID) -> Response:
        return _shown(request, selectors.dag(principal(request), dag_id))

    @documented(
        "Replace a DAG's definition",
        takes="DagInput",
        gives="Dag",
        headers=("ETag",),
        fails=(409,),
        request_headers=("If-Match",),
    )
    def put(self, request: Request, dag_id: UUID) -> Response:
        return self._update(request, dag_id, partial=False)

    @documented(
        "Change fields of a DAG",
        takes="DagPatch",
        gives="Dag",
        headers=("ETag",),
        fails=(409,),
        request_headers=("If-Match",),
    )
    def patch(self, request: Request, dag_id: UUID) -> Response:
        return self._update(request, dag_id, partial=True)

    @documented("Delete a DAG", gives={204: None}, fails=(409,))
    def delete(self, request: Request, dag_id: UUID) -> Response:
        standing.delete_dag(principal=principal(request), dag_id=dag_id)
        return Response(status=204)

    def _update(self, request: Request, dag_id: UUID, *, partial: bool) -> Response:
        dag = making.update_dag(
            principal=principal(request),
            dag_id=dag_id,
            data=request.data,
            partial=partial,
            expected_version=expected_version(request),
        )
        return _shown(request, dag)


class PauseDag(ApiView):
    @documented("Pause a DAG", takes="Note", body_optional=True, gives="Dag", headers=("ETag",))
    def post(self, request: Request, dag_id: UUID) -> Response:
        note = body_object(request, fields=("note",)).get("note")
        note = "" if note is None else note
        return _shown(request, standing.pause_dag(principal=principal(request), dag_id=dag_id, note=note))


class ResumeDag(ApiView):
    @documented("Resume a DAG", takes="Empty", body_optional=True, gives="Dag", headers=("ETag",))
    def post(self, request: Request, dag_id: UUID) -> Response:
        body_object(request, fields=())
        return _shown(request, standing.resume_dag(principal=principal(request), dag_id=dag_id))


class TriggerDag(ApiView):
    @documented(
        "Run a DAG",
        takes="DagTrigger",
        body_optional=True,
        gives={202: "TriggeredRun"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request, dag_id: UUID) -> Response:
        given: dict[str, Any] = body_object(request, fields=("run_at", "parameters", "idempotency_key"))
        run = triggering.trigger_dag(principal=principal(request), dag_id=dag_id, **given)
        answer = {"id": str(run), "dag_id": str(dag_id)}
        return Response(answer, status=202, headers={"Location": f"/api/v1/dags/executions/{run}"})


class DagVersions(ApiView):
    """Newest first; `?before=12` goes on below version 12."""

    query_parameters = ("limit", "before")

    @documented("List a DAG's versions", gives="DagVersions")
    def get(self, request: Request, dag_id: UUID) -> Response:
        rows = selectors.versions(principal(request), dag_id)
        limit = _number(request, "limit", default=50, largest=200)
        if (before := _number(request, "before")) is not None:
            rows = rows.filter(number__lt=before)
        return Response({"items": [shown_as.version_line(row) for row in rows[:limit]]})


class DagVersion(ApiView):
    """One version's document; `?compare=3` adds what has changed since version 3."""

    query_parameters = ("compare",)

    @documented("Read a version of a DAG", gives="DagVersion")
    def get(self, request: Request, dag_id: UUID, number: int) -> Response:
        role = principal(request).role
        row = selectors.version(principal(request), dag_id, number)
        shown = shown_as.version(row, role=role)
        if (other := _number(request, "compare")) is not None:
            before = selectors.version(principal(request), dag_id, other)
            shown["differences"] = shown_as.differences(before.definition, row.definition, role=role)
        return Response(shown)


def _number(request: Request, name: str, *, default: int | None = None, largest: int = 2**31 - 1) -> int | None:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= largest):
        raise query_error(name, text, "is not a number here", f"1 to {largest}")
    return int(text)
