"""The scheduler's page, its socket, and what the platform's owners do to it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from apps.console.access import tenants_of
from apps.console.clicks import key_of, once, question_of
from apps.console.fragments import PiecesConsumer, polled
from apps.console.posts import no_fields, note_of, posted
from apps.console.scheduler.page import SchedulerPage, may_move
from apps.console.views import frame, in_tenant
from apps.executions import failover, freezing
from apps.tenants import tenants
from apps.tenants.models import Tier
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import NotAllowed, NotFound


@in_tenant
def scheduler(request: HttpRequest, principal: Principal) -> HttpResponse:
    """How the scheduler is."""
    elsewhere = None if principal.is_platform else tenants_of(request.user).filter(tier=Tier.SYSTEM).first()
    context = {
        "page": "scheduler",
        "pieces": SchedulerPage(principal).pieces(),
        "moves": may_move(principal),
        "elsewhere": elsewhere,
    }
    return render(request, "console/scheduler/scheduler.html", frame(request, principal) | context)


@in_tenant
def scheduler_state(request: HttpRequest, principal: Principal) -> JsonResponse:
    """What the page's socket sends first, for pages whose socket does not open."""
    return JsonResponse(polled(SchedulerPage(principal)))


@posted
def scheduler_act(request: HttpRequest, principal: Principal, *, act: str) -> JsonResponse:
    """freeze (with a note), thaw, failover-ROLE: for owners of the platform's own tenant."""
    known: dict[str, Callable[[str], str]] = {
        "freeze": lambda note: _freeze(principal, note),
        "thaw": lambda _: _thaw(principal),
        **{f"failover-{role}": lambda _, role=role: _depose(principal, role) for role in failover.ROLES},  # type: ignore[misc]
    }
    if act not in known:
        raise NotFound(f"{act} is nothing that can be done to the scheduler")
    note = note_of(request)
    if not may_move(principal):
        raise NotAllowed("the scheduler serves all tenants, so owners of the platform’s own tenant alone move it")
    key = key_of(request.POST)
    return JsonResponse(once(principal, key=key, question=question_of(request), act=lambda: {"said": known[act](note)}))


@posted
def frozen_tenant_act(request: HttpRequest, principal: Principal, *, tenant_id: UUID, act: str) -> JsonResponse:
    """thaw: a tenant that is frozen alone, for owners of the platform's own tenant."""
    if act != "thaw":
        raise NotFound(f"{act} is nothing that can be done to a frozen tenant")
    no_fields(request)
    if not principal.is_platform:
        raise NotFound(f"no tenant with id {tenant_id}")
    if not may_move(principal):
        raise NotAllowed("a tenant that the platform has frozen is thawed by owners of the platform’s own tenant")
    tenant = tenants.tenant(tenant_id)

    def thawed() -> dict[str, Any]:
        freezing.thaw(tenant=tenant, actor=principal.actor)
        return {"said": f"{tenant.slug} thawed"}

    return JsonResponse(once(principal, key=key_of(request.POST), question=question_of(request), act=thawed))


def _freeze(principal: Principal, note: str) -> str:
    freezing.freeze(tenant=None, reason=note, actor=principal.actor)
    return "frozen: nothing more is dispatched"


def _thaw(principal: Principal) -> str:
    freezing.thaw(tenant=None, actor=principal.actor)
    return "thawed"


def _depose(principal: Principal, role: str) -> str:
    return f"{role} deposed" if failover.depose(role, actor=principal.actor) else f"nobody has led as {role} yet"


class SchedulerConsumer(PiecesConsumer):
    """What owners of the platform see has buttons."""

    name = "scheduler"

    def page(self) -> SchedulerPage:
        return SchedulerPage(self.principal)

    def key(self) -> tuple[Any, ...]:
        return (may_move(self.principal),)
