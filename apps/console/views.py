"""Pages. Each reads through a principal made from the person's membership; a foreign tenant or id is a 404."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import redis
from django.contrib.auth import login
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from apps.console import finding, listing, login_links
from apps.console.access import first_tenant_of, principal_of, tenants_at_home, tenants_of
from apps.console.errors import error_page
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.tenants.regions import WrongRegion
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import NotFound

_MOST_TENANTS_LISTED = 50
_MOST_LED_TO = 8


def in_tenant(view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
    """Log in, then turn the URL's slug into a principal; NotFound becomes a 404, WrongRegion leads there."""

    @require_GET
    @never_cache
    @login_required
    @wraps(view)
    def wrapped(request: HttpRequest, slug: str, **arguments: Any) -> HttpResponseBase:
        try:
            return view(request, principal_of(request.user, slug), **arguments)
        except NotFound as error:
            raise Http404(str(error)) from error
        except WrongRegion as error:
            return elsewhere(request, slug, error)

    return wrapped


def elsewhere(request: HttpRequest, slug: str, error: WrongRegion) -> HttpResponse:
    """The tenant is at home in another region: the same page there, and those of the person's tenants that are here."""
    here = tenants_at_home(request.user).order_by("slug")[:_MOST_LED_TO]
    context = {
        "tenant_slug": slug,
        "region": error.region,
        "address": None if error.base_url is None else error.base_url + request.get_full_path(),
        "here": list(here),
    }
    return render(request, "console/elsewhere.html", context, status=421)


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
    login(request, found, backend="apps.tenants.passwords.CountedPasswords")
    return redirect(reverse("console:home"))
