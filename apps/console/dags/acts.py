"""What persons do to DAGs, runs and nodes from the console: the services of the API, by POST, answered in JSON."""

from collections.abc import Callable, Collection, Mapping
from functools import wraps
from typing import Any
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponseBase, JsonResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache

from apps.console.access import principal_of
from apps.console.dags import parameters
from apps.console.whole_forms import needs_whole_form
from apps.definitions.dags import selectors, standing
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.json_values import escape
from apps.executions.dags import operations
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import ChronowebError, Conflict, InvalidInput, InvalidInputs, NotFound

NOTE_CHARACTERS = 1000
_OF_EVERY_FORM = ("csrfmiddlewaretoken", "key")
"""What a dialog sends by itself; key: of one click."""


def posted(view: Callable[..., JsonResponse]) -> Callable[..., HttpResponseBase]:
    """For operators of the tenant, by POST; everything that is refused is JSON that says why."""
    return posted_by(Role.OPERATOR)(view)


def posted_by(needed: Role) -> Callable[[Callable[..., JsonResponse]], Callable[..., HttpResponseBase]]:
    """The same for those whose role includes `needed`."""

    def decorate(view: Callable[..., JsonResponse]) -> Callable[..., HttpResponseBase]:
        @needs_whole_form
        @never_cache
        @login_required
        @wraps(view)
        def wrapped(request: HttpRequest, slug: str, **arguments: Any) -> HttpResponseBase:
            try:
                principal = principal_of(request.user, slug)
                if request.method != "POST":
                    raise NotFound("there is nothing to read here")
                if not principal.may(needed):
                    problem = f"This needs the role {needed.value}; yours is {principal.role.value}."
                    return JsonResponse({"problem": problem}, status=403)
                return view(request, principal, **arguments)
            except NotFound as error:
                raise Http404(str(error)) from error
            except (InvalidInput, InvalidInputs) as error:
                return JsonResponse({"problem": "Nothing was done.", "errors": _errors(error)}, status=422)
            except Conflict as error:
                return JsonResponse({"problem": str(error)}, status=409)

        return wrapped

    return decorate


def _errors(error: ChronowebError) -> list[dict[str, str]]:
    """field: the first step of the pointer below /parameters, or the pointer's own."""
    found = error.errors if isinstance(error, InvalidInputs) else [error]
    told = []
    for one in found:
        assert isinstance(one, InvalidInput)
        steps = one.pointer.strip("/").split("/")
        field = steps[1] if steps[0] == "parameters" and len(steps) > 1 else steps[0]
        told.append({"field": field.replace("~1", "/").replace("~0", "~"), "problem": f"{one.pointer}: {one.problem}"})
    return told


@posted
def run_act(request: HttpRequest, principal: Principal, *, run_id: UUID, act: str) -> JsonResponse:
    """cancel, pause, resume, rerun."""
    note = _note(request)
    who: dict[str, Any] = {"principal": principal, "run_id": run_id}
    _one_of(
        act,
        {
            "cancel": lambda: operations.cancel_run(**who, reason=note),
            "pause": lambda: operations.pause_run(**who),
            "resume": lambda: operations.resume_run(**who),
            "rerun": lambda: operations.rerun_from_failed(**who),
        },
    )
    return JsonResponse({"said": {"cancel": "being cancelled", "rerun": "running again"}.get(act, f"{act}d")})


@posted
def node_act(request: HttpRequest, principal: Principal, *, run_id: UUID, node_id: str, act: str) -> JsonResponse:
    """clear, clear-downstream, success, failed, skip, approve, reject."""
    note = _note(request)
    where: dict[str, Any] = {"principal": principal, "run_id": run_id, "node_id": node_id}
    _one_of(
        act,
        {
            "clear": lambda: operations.clear_node(**where, downstream=False),
            "clear-downstream": lambda: operations.clear_node(**where, downstream=True),
            "success": lambda: operations.mark_node(**where, state="success"),
            "failed": lambda: operations.mark_node(**where, state="failed"),
            "skip": lambda: operations.skip_node(**where),
            "approve": lambda: operations.decide_approval(**where, approve=True, note=note),
            "reject": lambda: operations.decide_approval(**where, approve=False, note=note),
        },
    )
    return JsonResponse({"said": f"{node_id}: done"})


@posted
def dag_act(request: HttpRequest, principal: Principal, *, dag_id: UUID, act: str) -> JsonResponse:
    """run (with parameters), pause (with a note), resume."""
    if act == "run":
        dag = selectors.dag(principal, dag_id)
        _refuse_unknown(request, parameters.fields_of(dag))
        given = parameters.values_of(dag, request.POST)
        run = trigger_dag(principal=principal, dag_id=dag_id, parameters=given)
        address = reverse("console:run", kwargs={"slug": principal.tenant_slug, "run_id": run})
        return JsonResponse({"said": "started", "go": address})
    note = _note(request)
    who: dict[str, Any] = {"principal": principal, "dag_id": dag_id}
    _one_of(
        act,
        {"pause": lambda: standing.pause_dag(**who, note=note), "resume": lambda: standing.resume_dag(**who)},
    )
    return JsonResponse({"said": f"{act}d", "reload": True})


def _one_of(act: str, known: Mapping[str, Callable[[], object]]) -> None:
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done here")
    known[act]()


def _note(request: HttpRequest) -> str:
    """The one field of every form but a run's."""
    _refuse_unknown(request, {"note"})
    note = request.POST.get("note", "").strip()
    if "\0" in note:
        raise InvalidInput("/note", None, "has a NUL character", "a text without it")
    if len(note) > NOTE_CHARACTERS:
        raise InvalidInput("/note", None, "is too long", f"at most {NOTE_CHARACTERS} characters")
    return note


def _refuse_unknown(request: HttpRequest, known: Collection[str]) -> None:
    """As the API does. Raises InvalidInputs."""
    legal = ", ".join(sorted(known))
    names = [*request.POST, *request.FILES]
    wrong = [
        InvalidInput(f"/{escape(n)}", None, "is no field here", legal)
        for n in names
        if n not in {*known, *_OF_EVERY_FORM}
    ]
    twice = [n for n, values in request.POST.lists() if len(values) > 1]
    wrong += [InvalidInput(f"/{escape(n)}", None, "is given twice", "one value") for n in twice]
    if wrong:
        raise InvalidInputs(wrong)
