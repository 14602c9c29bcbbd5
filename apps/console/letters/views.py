"""Pages of dead letters."""

from uuid import UUID

from django.db import connection as django_connection
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.shortcuts import redirect, render

from apps.console.fragments import may_act, origin_of, polled
from apps.console.letters import live, one
from apps.console.letters.filters import WORDS, Chosen, chosen_ids
from apps.console.views import frame, in_tenant
from apps.definitions.models import Task
from apps.executions import dead_letters, person_store, selectors
from apps.executions.dead_letter_acts import MOST_CANARIES
from apps.executions.dead_letters import DEFAULT_PER_SECOND, MOST_PER_SECOND, DeadLetterFilter
from apps.executions.states import Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import InvalidInput, NotFound


@in_tenant
def letters(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Groups, or the letters of one group. An address that says what no filter is shows all."""
    try:
        page = live.page_of(principal, request.GET.dict(), origin=origin_of(request))
    except InvalidInput:
        return redirect("console:letters", slug=principal.tenant_slug)
    chosen = page.chosen
    task = chosen.task_id and scoped(Task.objects.all(), principal).filter(id=chosen.task_id).values_list(
        "name", flat=True
    )
    context = frame(request, principal) | {
        "page": "dead_letters",
        "chosen": chosen,
        "any_task": chosen.but(task_id=None, fingerprint=None).query,
        "span": WORDS.get(chosen.died, ""),
        "task_name": (task.first() if task else "") or str(chosen.task_id or ""),
        "pieces": page.pieces(),
        "may": may_act(principal),
        "picks": may_act(principal) and chosen.is_listed,
        "canaries": MOST_CANARIES,
        "pace": DEFAULT_PER_SECOND,
        "most_pace": MOST_PER_SECOND,
    }
    return render(request, "console/letters/list.html", context)


@in_tenant
def letters_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    try:
        return JsonResponse(polled(live.page_of(principal, request.GET.dict(), origin=origin_of(request))))
    except InvalidInput as error:
        raise NotFound(str(error)) from error


@in_tenant
def letters_count(request: HttpRequest, principal: Principal) -> HttpResponse:
    """How many a filter means now, or of the ids in the address; an act that names this moment means the same ones."""
    now = person_store.database_now(postgres.raw(django_connection))
    try:
        if "chosen" in request.GET:
            wanted = DeadLetterFilter(ids=chosen_ids(request.GET))
        else:
            wanted = Chosen.of(request.GET.dict()).wanted(now)
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")
    return JsonResponse({"count": dead_letters.count(principal, wanted), "counted_at": now.isoformat()})


@in_tenant
def letter(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponse:
    """One; what is no dead letter any more is looked at as an execution."""
    if selectors.execution(principal, identity).state is not Status.DEAD_LETTER:
        return redirect("console:execution", slug=principal.tenant_slug, identity=identity)
    found = one.read(principal, identity)
    group = Chosen(found.letter.task_id, found.letter.fingerprint)
    context = frame(request, principal) | {"page": "dead_letters", "found": found, "group": group}
    return render(request, "console/letters/one.html", context | {"may": may_act(principal)})
