"""/api/v1/dags: definitions, their versions, and triggers. Runs stand in dag_runs.py."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import dag_representations as shown_as
from apps.api import definitions, queries
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.definitions import EDITED, Kind, standing_act
from apps.api.openapi.declare import declared, documented
from apps.definitions.dags import making, selectors, standing, triggering

DAGS = Kind(
    path="dags",
    show=shown_as.dag,
    show_line=shown_as.dag_line,
    all=selectors.dags,
    find=selectors.dag,
    create=making.create_dag,
    update=making.update_dag,
    delete=standing.delete_dag,
    pause=standing.pause_dag,
    resume=standing.resume_dag,
)


class Dags(definitions.DefinitionList):
    kind = DAGS
    declares = {
        "get": declared("List DAGs", gives="DagPage"),
        "post": declared(
            "Define a DAG", takes="DagInput", gives={201: "Dag"}, headers=("ETag", "Location"), fails=(409,)
        ),
    }


class OneDag(definitions.OneDefinition):
    kind = DAGS
    declares = {
        "get": declared("Read a DAG", gives="Dag", headers=("ETag",)),
        "put": declared("Replace a DAG's definition", takes="DagInput", gives="Dag", **EDITED),
        "patch": declared("Change fields of a DAG", takes="DagPatch", body_optional=True, gives="Dag", **EDITED),
        "delete": declared("Delete a DAG", gives={204: None}, request_headers=("If-Match",)),
    }


class PauseDag(definitions.PauseDefinition):
    kind = DAGS
    declares = standing_act("Pause a DAG", takes="Note", gives="Dag")


class ResumeDag(definitions.ResumeDefinition):
    kind = DAGS
    declares = standing_act("Resume a DAG", takes="Empty", gives="Dag")


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
        limit = queries.whole(request, "limit", default=50, largest=200)
        if (before := queries.optional_whole(request, "before")) is not None:
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
        if (other := queries.optional_whole(request, "compare")) is not None:
            before = selectors.version(principal(request), dag_id, other)
            shown["differences"] = shown_as.differences(before.definition, row.definition, role=role)
        return Response(shown)
