"""Pages of DAGs and of their runs, and the pieces that these ask for."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.dags import buttons, definition, gantt, grid, head, listing, panel, runs_live, strips, svg
from apps.console.dags.run_page import Folding, conditions_of, drawing_of, snapshot
from apps.console.dags.run_state import RunSource
from apps.console.detail import readable
from apps.console.views import frame, in_tenant
from apps.definitions.confidential import masked_dag
from apps.definitions.dags import selectors as definitions
from apps.definitions.dags.files import write
from apps.executions.dags import selectors
from apps.executions.dags.states import NodeState
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK


@in_tenant
def dags(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The list."""
    found = listing.read(principal, request.GET, now=SYSTEM_CLOCK.now())
    context = frame(request, principal) | {"page": "dags", "found": found, "origin": _origin(request)}
    context["may"] = principal.may(Role.OPERATOR)
    return render(request, "console/dags/list.html", context)


@in_tenant
def dag(request: HttpRequest, principal: Principal, *, dag_id: UUID) -> HttpResponse:
    """One DAG."""
    row = definitions.dag(principal, dag_id)
    folding = Folding.of(request.META.get("QUERY_STRING", ""))
    found = definition.read(principal, row, folding, now=SYSTEM_CLOCK.now(), origin=_origin(request))
    standing = "paused" if row.paused_at else ""
    may = principal.may(Role.OPERATOR)
    context = frame(request, principal) | {"page": "dags", "found": found, "may": may}
    context["acts"] = [(act, act.shown(standing)) for act in buttons.DAG_ACTS] if may else []
    return render(request, "console/dags/dag.html", context)


@in_tenant
def dag_yaml(request: HttpRequest, principal: Principal, *, dag_id: UUID) -> HttpResponse:
    """The document in force, as `dag apply` reads it and the principal's role may see it."""
    row = definitions.dag(principal, dag_id)
    newest = definitions.version(principal, dag_id, row.version)
    text = write(masked_dag(newest.definition, role=principal.role))
    return HttpResponse(text, content_type="text/plain; charset=utf-8")


@in_tenant
def dag_grid(request: HttpRequest, principal: Principal, *, dag_id: UUID) -> JsonResponse:
    """Runs × nodes."""
    row = definitions.dag(principal, dag_id)
    newest = definitions.version(principal, dag_id, row.version)
    marks = strips.of_dags(principal, [row.id], now=SYSTEM_CLOCK.now(), each=grid.RUNS)[row.id]
    return JsonResponse(grid.read(principal, [node["id"] for node in newest.definition["nodes"]], marks))


@in_tenant
def run(request: HttpRequest, principal: Principal, *, run_id: UUID) -> HttpResponse:
    """One run."""
    source = RunSource.read_now(principal, run_id)
    folding = Folding.of(request.META.get("QUERY_STRING", ""))
    drawing, update = drawing_of(source, folding), source.everything()
    shown = head.read(principal, source.run, update.views.values())
    may = principal.may(Role.OPERATOR)
    context = frame(request, principal) | {
        "page": "dags",
        "run": source.run,
        "head": shown,
        "may": may,
        "version": update.run_version,
    }
    context |= {
        "boxes": svg.boxes(drawing.boxes(update.views, update.outcomes), of_run=True),
        "edges": svg.edges(drawing.edges(update.outcomes, conditions_of(source.run))),
        "width": drawing.layout.width,
        "height": drawing.layout.height,
        "is_folded": drawing.is_folded,
        "may_fold": drawing.may_fold,
        "parameters": readable(source.run.parameters),
        "gantt": gantt.read(source.run, now=SYSTEM_CLOCK.now()),
        "acts": [(act, act.shown(shown.standing)) for act in buttons.RUN_ACTS] if may else [],
    }
    return render(request, "console/dags/run.html", context)


@in_tenant
def run_state(request: HttpRequest, principal: Principal, *, run_id: UUID) -> JsonResponse:
    """What the run's socket sends first, for pages whose socket does not open."""
    folding = Folding.of(request.META.get("QUERY_STRING", ""))
    return JsonResponse(snapshot(RunSource.read_now(principal, run_id), folding))


@in_tenant
def run_gantt(request: HttpRequest, principal: Principal, *, run_id: UUID) -> HttpResponse:
    """When each node ran."""
    found = gantt.read(selectors.run(principal, run_id), now=SYSTEM_CLOCK.now())
    return render(request, "console/dags/_gantt.html", {"gantt": found})


@in_tenant
def run_node(request: HttpRequest, principal: Principal, *, run_id: UUID, node_id: str) -> HttpResponse:
    """One node of a run, to be shown beside the graph."""
    row = selectors.run(principal, run_id)
    found = panel.read(principal, row, node_id, now=SYSTEM_CLOCK.now())
    may = principal.may(Role.OPERATOR)
    context: dict[str, Any] = {"panel": found, "run": row, "tenant_slug": principal.tenant_slug, "may": may}
    context["acts"] = [act for act in buttons.NODE_ACTS if act.shown(_standing(found))] if may else []
    return render(request, "console/dags/_node_panel.html", context)


@in_tenant
def runs_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the socket of runs sends first, for pages whose socket does not open."""
    return JsonResponse(runs_live.snapshot(principal))


def _standing(found: panel.Panel) -> str:
    words = {NodeState.SUCCEEDED: "good", NodeState.FAILED: "failed", NodeState.SKIPPED: "skipped"}
    own = words.get(NodeState(found.node.state), "")
    return f"{own} {'asks' if found.waits_for_answer else ''}"


def _origin(request: HttpRequest) -> str:
    return f"{request.scheme}://{request.get_host()}"
