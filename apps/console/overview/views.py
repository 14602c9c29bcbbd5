"""A tenant's first page, and its socket."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.fragments import PiecesConsumer, polled
from apps.console.overview.page import OverviewPage
from apps.console.views import frame, in_tenant
from apps.tenants.principal import Principal


@in_tenant
def overview(request: HttpRequest, principal: Principal) -> HttpResponse:
    """How the tenant fares."""
    page = OverviewPage(principal, origin=f"{request.scheme}://{request.get_host()}")
    context = frame(request, principal) | {"page": "overview", "pieces": page.pieces()}
    return render(request, "console/overview/overview.html", context)


@in_tenant
def overview_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(OverviewPage(principal, origin=f"{request.scheme}://{request.get_host()}")))


class OverviewConsumer(PiecesConsumer):
    name = "overview"

    def page(self) -> OverviewPage:
        headers = dict(self.scope["headers"])
        return OverviewPage(self.principal, origin=headers.get(b"origin", b"").decode("latin-1"))

    def key(self) -> tuple[bytes]:
        return (dict(self.scope["headers"]).get(b"origin", b""),)
