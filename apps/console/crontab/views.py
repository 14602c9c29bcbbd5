"""The page where a crontab is pasted. Reading and importing are the same as the API's and the command's."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from apps.console.crontab.lines import shown
from apps.console.fragments import may_act
from apps.console.posts import posted
from apps.console.views import frame, in_tenant
from apps.definitions.crontab import importing, reading
from apps.definitions.crontab.importing import Import
from apps.definitions.crontab.lines import SYSTEM, USER
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput

FORMS = {"": "found by itself", USER: "a user's: times, command", SYSTEM: "the system's: times, user, command"}
SOURCE = "crontab"


@in_tenant
def page(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Viewers are told which role it takes."""
    may = may_act(principal)
    context = frame(request, principal) | {"page": "tasks", "may": may, "forms": FORMS.items(), "source": SOURCE}
    return render(request, "console/crontab/page.html", context, status=200 if may else 403)


@posted
def check(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What an import would do. Writes nothing."""
    return JsonResponse(_answer(principal, _imported(request, principal, dry_run=True)))


@posted
def take(request: HttpRequest, principal: Principal) -> JsonResponse:
    """The import. Sent twice it changes nothing twice, for a line is known by what it runs."""
    done = _imported(request, principal, dry_run=False)
    created, updated = done.count(importing.CREATED), done.count(importing.UPDATED)
    said = f"{created:,} created, {updated:,} changed" if created or updated else "nothing to change"
    return JsonResponse(_answer(principal, done) | {"said": said})


def _imported(request: HttpRequest, principal: Principal, *, dry_run: bool) -> Import:
    given = request.POST
    text = given.get("text", "").replace("\r\n", "\n")
    if len(text.encode("utf-8", "replace")) > reading.MOST_BYTES:
        raise InvalidInput("/text", None, "is too long", f"at most {reading.MOST_BYTES:,} bytes")
    form = given.get("form", "")
    if form not in FORMS:
        raise InvalidInput("/form", form[:80], "is no form of a crontab", ", ".join(filter(None, FORMS)))
    return importing.import_crontab(
        principal=principal,
        crontab=reading.read_crontab(text, form=form or None),
        source=given.get("source", "").strip() or SOURCE,
        timezone=given.get("timezone", "").strip() or "UTC",
        strict_timing="strict_timing" in given,
        dry_run=dry_run,
    )


def _answer(principal: Principal, done: Import) -> dict[str, Any]:
    context = shown(principal, done) | {"tenant_slug": principal.tenant_slug}
    return {"html": render_to_string("console/crontab/_lines.html", context), "writes": context["writes"]}
