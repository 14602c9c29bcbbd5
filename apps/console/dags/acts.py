"""What persons do to DAGs, runs and nodes from the console: the services of the API, by POST, answered in JSON."""

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.urls import reverse

from apps.console.clicks import key_of, once, question_of
from apps.console.dags import parameters
from apps.console.posts import note_of, posted, refuse_unknown
from apps.definitions.dags import selectors, standing
from apps.definitions.dags.triggering import trigger_dag
from apps.executions.dags import operations
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import NotFound

Acts = Mapping[str, Callable[[], object]]


@posted
def run_act(request: HttpRequest, principal: Principal, *, run_id: UUID, act: str) -> JsonResponse:
    """cancel, pause, resume, rerun."""
    note = note_of(request)
    who: dict[str, Any] = {"principal": principal, "run_id": run_id}
    known: Acts = {
        "cancel": lambda: operations.cancel_run(**who, reason=note),
        "pause": lambda: operations.pause_run(**who),
        "resume": lambda: operations.resume_run(**who),
        "rerun": lambda: operations.rerun_from_failed(**who),
    }
    said = {"cancel": "being cancelled", "rerun": "running again"}.get(act, f"{act}d")
    return _done_once(request, principal, act, known, {"said": said})


@posted
def node_act(request: HttpRequest, principal: Principal, *, run_id: UUID, node_id: str, act: str) -> JsonResponse:
    """clear, clear-downstream, success, failed, skip, approve, reject."""
    note = note_of(request)
    where: dict[str, Any] = {"principal": principal, "run_id": run_id, "node_id": node_id}
    known: Acts = {
        "clear": lambda: operations.clear_node(**where, downstream=False),
        "clear-downstream": lambda: operations.clear_node(**where, downstream=True),
        "success": lambda: operations.mark_node(**where, state="success"),
        "failed": lambda: operations.mark_node(**where, state="failed"),
        "skip": lambda: operations.skip_node(**where),
        "approve": lambda: operations.decide_approval(**where, approve=True, note=note),
        "reject": lambda: operations.decide_approval(**where, approve=False, note=note),
    }
    return _done_once(request, principal, act, known, {"said": f"{node_id}: done"})


@posted
def dag_act(request: HttpRequest, principal: Principal, *, dag_id: UUID, act: str) -> JsonResponse:
    """run (with parameters), pause (with a note), resume, delete."""
    if act == "run":
        dag = selectors.dag(principal, dag_id)
        refuse_unknown(request, parameters.fields_of(dag))
        given = parameters.values_of(dag, request.POST)
        run = trigger_dag(principal=principal, dag_id=dag_id, parameters=given, idempotency_key=key_of(request.POST))
        address = reverse("console:run", kwargs={"slug": principal.tenant_slug, "run_id": run})
        return JsonResponse({"said": "started", "go": address})
    note = note_of(request)
    who: dict[str, Any] = {"principal": principal, "dag_id": dag_id}
    known: Acts = {
        "pause": lambda: standing.pause_dag(**who, note=note),
        "resume": lambda: standing.resume_dag(**who),
        "delete": lambda: standing.delete_dag(**who),
    }
    if act == "delete":
        answer: dict[str, Any] = {"said": "deleted", "go": reverse("console:dags", args=[principal.tenant_slug])}
    else:
        answer = {"said": f"{act}d", "reload": True}
    return _done_once(request, principal, act, known, answer)


def _done_once(
    request: HttpRequest, principal: Principal, act: str, known: Acts, answer: dict[str, Any]
) -> JsonResponse:
    """Do it, unless this click has done it before: then answer as then."""
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done here")

    def do() -> dict[str, Any]:
        known[act]()
        return answer

    return JsonResponse(once(principal, key=key_of(request.POST), question=question_of(request), act=do))
