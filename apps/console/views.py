"""Pages. Each reads through a principal made from the person's membership; a foreign tenant or id is a 404."""

from collections.abc import Callable
from functools import wraps
from typing import Any
from uuid import UUID

import redis
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBadRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.console import consumers, detail, finding, listing, login_links, rows, summary
from apps.console.access import first_tenant_of, principal_of, tenants_of
from apps.console.consumers import parse_state
from apps.console.errors import error_page
from apps.executions import fleet, selectors
from apps.logs import answers
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound
from chronoweb.runtime.uuids import parse_uuid

_MOST_TENANTS_LISTED = 50


def in_tenant(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Log in, then turn the URL's slug into a principal; NotFound becomes a 404."""

    @require_GET
    @never_cache
    @login_required
    @wraps(view)
    def wrapped(request: HttpRequest, slug: str, **arguments: Any) -> HttpResponseBase:
        try:
            return view(request, principal_of(request.user, slug), **arguments)
        except NotFound as error:
            raise Http404(str(error)) from error

    return wrapped


def frame(request: HttpRequest, principal: Principal) -> dict[str, Any]:
    """What every page's rail and header need; two queries."""
    others = tenants_of(request.user).exclude(slug=principal.tenant_slug).order_by("slug")[:_MOST_TENANTS_LISTED]
    letters = listing.count_dead_letters(principal)
    badge = f"{listing.MOST_COUNTED}+" if letters > listing.MOST_COUNTED else (str(letters) if letters else "")
    return {
        "principal": principal,
        "tenant_slug": principal.tenant_slug,
        "other_tenants": list(others),
        "dead_letters": badge,
        "operates": principal.may(Role.OPERATOR),
    }


@require_GET
@never_cache
@login_required
def home(request: HttpRequest) -> HttpResponse:
    """To the overview of the person's first tenant."""
    tenant = first_tenant_of(request.user)
    if tenant is None:
        return render(request, "console/no_tenant.html")
    return redirect("console:overview", slug=tenant.slug)


@in_tenant
def found(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the palette finds for `q`."""
    text = request.GET.get("q", "")
    return JsonResponse({"found": finding.find(principal, request.user, text, now=SYSTEM_CLOCK.now())})


@in_tenant
def executions(request: HttpRequest, principal: Principal, **_: Any) -> HttpResponse:
    """The live page."""
    state = parse_state(request.GET.get("state", ""))
    before = parse_uuid(request.GET.get("before", ""))
    index, presented = rows.page(principal, now=SYSTEM_CLOCK.now(), state=state, before=before)
    full = len(presented) == listing.SHOWN
    context = frame(request, principal) | {
        "page": "executions",
        "rows": presented,
        "state": state,
        "state_label": rows.label(state) if state is not None else "",
        "before": before,
        "older": presented[-1].id if full else None,
        "summary": summary.render(index, tenant_slug=principal.tenant_slug, chosen=state),
        "nothing_yet": not index.newest and not index.upcoming and before is None,
        "origin": f"{request.scheme}://{request.get_host()}",
    }
    return render(request, "console/executions.html", context)


@in_tenant
def executions_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the live page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(consumers.snapshot(principal, parse_state(request.GET.get("state", ""))))


@in_tenant
def execution(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponse:
    """One execution."""
    found = detail.read(principal, identity, now=SYSTEM_CLOCK.now())
    may = principal.may(Role.OPERATOR)
    context = frame(request, principal) | {"page": "executions", "detail": found, "may": may}
    return render(request, "console/execution.html", context)


@in_tenant
def workers(request: HttpRequest, principal: Principal, **_: Any) -> HttpResponse:
    """Who may run the tenant's work."""
    context = {"page": "workers", "workers": list(fleet.workers_for(principal)), "whole": principal.is_platform}
    return render(request, "console/workers.html", frame(request, principal) | context)


@in_tenant
def logs(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponseBase:
    """The live tail of one execution's log, or a page of it."""
    found = selectors.execution(principal, identity)
    try:
        if answers.wants_events(request):
            return answers.events(request, principal, found)
        return JsonResponse(answers.page(request, principal, found))
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")


@in_tenant
def download_logs(request: HttpRequest, principal: Principal, *, identity: UUID) -> HttpResponseBase:
    """The whole log of one execution."""
    try:
        return answers.download(request, principal, selectors.execution(principal, identity))
    except InvalidInput as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")


@require_GET
@never_cache
def login_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Log the holder of a one-time link in and show them the live page."""
    try:
        found = login_links.redeem(token)
    except redis.RedisError:
        found = login_links.Refused("login links do not work while Redis is away; log in by password")
    if isinstance(found, login_links.Refused):
        return error_page(request, 403, happened=f"Not logged in: {found.why}.")
    login(request, found, backend="django.contrib.auth.backends.ModelBackend")
    return redirect(reverse("console:home"))
