"""A tenant's first page, and its socket."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.fragments import PiecesConsumer, origin_of, polled
from apps.console.overview import first_steps
from apps.console.overview.page import OverviewPage
from apps.console.views import frame, in_tenant
from apps.tenants.principal import Principal


@in_tenant
def overview(request: HttpRequest, principal: Principal) -> HttpResponse:
    """How the tenant fares."""
    page = OverviewPage(principal, origin=origin_of(request))
    context = frame(request, principal) | {"page": "overview", "pieces": page.pieces()}
    context["steps"] = first_steps.steps(request, principal)
    return render(request, "console/overview/overview.html", context)


@in_tenant
def overview_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(OverviewPage(principal, origin=origin_of(request))))


class OverviewConsumer(PiecesConsumer):
    name = "overview"

    def page(self) -> OverviewPage:
        return OverviewPage(self.principal, origin=self.origin)

    def key(self) -> tuple[str]:
        return (self.origin,)
