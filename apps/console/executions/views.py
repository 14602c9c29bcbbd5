"""Pages of executions: the list, one, and one's log."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from apps.console import rows, summary
from apps.console.executions import acts, buttons, chips, page, socket
from apps.console.executions.asked import Asked
from apps.console.executions.one_live import OnePage
from apps.console.fragments import may_act, origin_of, polled
from apps.console.views import frame, in_tenant
from apps.executions import bulk, selectors
from apps.executions.models import TaskVersion
from apps.logs import answers
from apps.tenants.onlookers import NoPlace, onlooker, roles_of
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound
from chronoweb.runtime.uuids import parse_uuid


@in_tenant
def executions(request: HttpRequest, principal: Principal) -> HttpResponse:
    """The live list. An id in its search is opened; an address that says what no question is shows all."""
    if opened := parse_uuid(request.GET.get("q", "").strip()):
        return redirect("console:execution", slug=principal.tenant_slug, identity=opened)
    try:
        asked = Asked.of(request.GET)
    except InvalidInput:
        return redirect("console:executions", slug=principal.tenant_slug)
    found = page.read(principal, asked, now=SYSTEM_CLOCK.now())
    state = socket.chosen_state(asked)
    index, slug = found.index, principal.tenant_slug
    context = frame(request, principal) | {
        "page": "executions",
        "asked": asked,
        "rows": found.rows,
        "picks": may_act(principal),
        "may": may_act(principal),
        "state_label": ", ".join(rows.label(one) for one in sorted(asked.states)),
        "older": found.older and asked.query(before=found.older),
        "further": found.further and asked.query(before=found.further),
        "searched_to": found.searched_to,
        "summary": index and summary.render(index, tenant_slug=slug, chosen=state),
        "states": [
            (one.word, rows.label(one), asked.query(state=one.word), one in asked.states) for one in summary.ORDER
        ],
        "without_states": asked.query(state=None),
        "bulk": buttons.MANY,
        "large": acts.LARGE,
        "menus": chips.menus(asked),
        "chips": chips.chips(asked, task_name=_task_name(principal, asked)),
        "hidden": chips.hidden(asked, "q"),
        "hidden_more": chips.hidden(asked, "error", "worker", "run", "since", "until", "due"),
        "nothing_yet": index and not index.newest and not index.upcoming and asked.is_open and asked.before is None,
        "origin": origin_of(request),
    }
    return render(request, "console/executions/list.html", context)


def _task_name(principal: Principal, asked: Asked) -> str:
    if asked.task is None:
        return ""
    versions = scoped(TaskVersion.objects.all(), principal).filter(task_id=asked.task)
    return versions.order_by("-number").values_list("name", flat=True).first() or ""


@in_tenant
def executions_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the live page's socket sends first, for pages whose socket does not open."""
    try:
        return JsonResponse(socket.snapshot(principal, Asked.of(request.GET)))
    except InvalidInput as error:
        raise NotFound(str(error)) from error


@in_tenant
def executions_count(request: HttpRequest, principal: Principal, *, act: str) -> HttpResponse:
    """How many of what the filter finds an act would be for now."""
    if act not in bulk.ACTIONS:
        raise NotFound(f"{act} is nothing that can be done to executions")
    try:
        return JsonResponse(acts.count(principal, act, Asked.of(request.GET)))
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")


@in_tenant
def execution(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponse:
    """One execution."""
    shown = OnePage(principal, identity)
    pieces, may = shown.pieces(), may_act(principal)
    detail = shown.detail
    assert detail is not None
    context = frame(request, principal) | {"page": "executions", "detail": detail, "pieces": pieces, "may": may}
    context |= {"acts": [(act, act.shown(detail.standing)) for act in buttons.ONE] if may else []}
    return render(request, "console/executions/one.html", context | {"origin": origin_of(request)})


@in_tenant
def execution_state(request: HttpRequest, principal: Principal, *, identity: UUID) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(OnePage(principal, identity)))


@in_tenant
def logs(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponseBase:
    """The live tail of one execution's log, or a page of it."""
    found = selectors.execution(principal, identity)
    try:
        if answers.wants_events(request):
            who = onlooker(request.user, request.session, principal.tenant_slug)
            return answers.events(request, principal, found, may_look=lambda: who in roles_of({who}))
        return JsonResponse(answers.page(request, principal, found))
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")
    except NoPlace as full:
        return HttpResponse(str(full), status=429, content_type="text/plain")


@in_tenant
def download_logs(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponseBase:
    """The whole log of one execution."""
    try:
        return answers.download(request, principal, selectors.execution(principal, identity))
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")
