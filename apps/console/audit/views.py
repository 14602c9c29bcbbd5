"""The audit log: for operators and owners, as over REST."""

from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from apps.console.audit import download, page
from apps.console.audit.asked import Asked
from apps.console.settings.refusals import told
from apps.console.views import frame, in_tenant
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

NEEDED = Role.OPERATOR


@in_tenant
def audit(request: HttpRequest, principal: Principal) -> HttpResponse:
    """A page of it; a filter that cannot be meant shows what is wrong with it, and no entry."""
    context = frame(request, principal) | {"page": "audit", "given": request.GET, "most": download.MOST}
    if not principal.may(NEEDED):
        return render(request, "console/audit/list.html", context | {"needed": NEEDED.value}, status=403)
    try:
        found = page.read(principal, Asked.of(request.GET.dict()), now=SYSTEM_CLOCK.now())
    except InvalidInputs as wrong:
        return render(request, "console/audit/list.html", context | {"wrong": told(wrong)}, status=400)
    return render(request, "console/audit/list.html", context | {"found": found})


@in_tenant
def audit_download(request: HttpRequest, principal: Principal) -> HttpResponseBase:
    """What the filter finds, as a file."""
    if not principal.may(NEEDED):
        problem = f"this needs the role {NEEDED.value}; yours is {principal.role.value}"
        return HttpResponse(problem, status=403, content_type="text/plain")
    try:
        asked = Asked.of(request.GET.dict())
        return download.respond(principal, asked, request.GET.get("format", "csv"), now=SYSTEM_CLOCK.now())
    except (InvalidInput, InvalidInputs) as error:
        return HttpResponseBadRequest(str(error), content_type="text/plain")
