"""The page of workers, its socket, and draining one."""

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.fragments import PiecesConsumer, polled
from apps.console.posts import no_fields, posted_by
from apps.console.views import frame, in_tenant
from apps.console.workers.page import WorkersPage
from apps.executions import draining
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import NotFound


@in_tenant
def workers(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Who may run the tenant's work."""
    context = {"page": "workers", "pieces": WorkersPage(principal).pieces(), "owner": principal.may(Role.OWNER)}
    return render(request, "console/workers/workers.html", frame(request, principal) | context)


@in_tenant
def workers_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(WorkersPage(principal)))


@posted_by(Role.OWNER)
def worker_act(request: HttpRequest, principal: Principal, *, worker_id: int, act: str) -> JsonResponse:
    """drain. Which workers an owner may is said by the service, as for the API."""
    if act != "drain":
        raise NotFound(f"{act} is nothing that can be done to a worker")
    no_fields(request)
    worker = draining.drain(principal=principal, worker_id=worker_id)
    return JsonResponse({"said": f"{worker} drains, and leaves"})


class WorkersConsumer(PiecesConsumer):
    """Owners have a button that others have not."""

    name = "workers"

    def page(self) -> WorkersPage:
        return WorkersPage(self.principal)

    def key(self) -> tuple[Any, ...]:
        return (self.principal.may(Role.OWNER),)
