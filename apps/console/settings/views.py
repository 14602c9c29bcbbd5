"""Pages of the settings; each is a tab with an address of its own. Who may look is as over REST."""

from typing import Any

from django.db import connection as django_connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.console.settings import forms, limits
from apps.console.settings.refusals import users
from apps.console.views import frame, in_tenant
from apps.definitions import secret_use
from apps.executions import person_store
from apps.executions.circuit_services import circuit_of
from apps.executions.ids import to_us
from apps.executions.models import CircuitBreaker
from apps.tenants import channels as tenant_channels
from apps.tenants import members as tenant_members
from apps.tenants import secret_store
from apps.tenants.channel_kinds import KINDS, SEVERITIES
from apps.tenants.key_input import areas
from apps.tenants.models import ApiKey, Role, Tenant
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from apps.tenants.secret_places import Store
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import config
from chronoweb.runtime.uuids import parse_uuid

SHOWN = 100
MOST_CIRCUITS = 100
TABS = (
    ("settings", "Tenant"),
    ("settings_members", "Members"),
    ("settings_keys", "API keys"),
    ("settings_secrets", "Secrets"),
    ("settings_channels", "Channels"),
    ("settings_limits", "Limits and use"),
)


def _show(
    request: HttpRequest, principal: Principal, tab: str, *, change: Role = Role.OWNER, **more: Any
) -> HttpResponse:
    """change: the role that may; others see no button."""
    context = frame(request, principal) | {"page": "settings", "tabs": TABS, "tab": f"settings_{tab}".rstrip("_")}
    template = f"console/settings/{tab or 'tenant'}.html"
    return render(request, template, context | {"may": principal.may(change), "roles": Role.values, **more})


@in_tenant
def tenant(request: HttpRequest, principal: Principal) -> HttpResponse:
    """What it is, and its circuits."""
    now = person_store.database_now(postgres.raw(django_connection))
    rows = scoped(CircuitBreaker.objects.all(), principal).order_by("-changed_at")[:MOST_CIRCUITS]
    circuits = [(row, circuit_of(row).phase(to_us(now)).replace("_", " ")) for row in rows]
    return _show(
        request,
        principal,
        "",
        change=Role.OPERATOR,
        tenant=Tenant.objects.get(id=principal.tenant_id),
        here=config().region,
        circuits=circuits,
    )


@in_tenant
def members(request: HttpRequest, principal: Principal) -> HttpResponse:
    """By name, page by page."""
    after = request.GET.get("after", "").replace("\0", "")[:150]
    rows = tenant_members.members(principal).order_by("user__username").filter(user__username__gt=after)
    found = list(rows[: SHOWN + 1])
    owners = tenant_members.members(principal).filter(role=Role.OWNER)
    return _show(
        request,
        principal,
        "members",
        members=found[:SHOWN],
        after=after,
        more=found[SHOWN - 1].user.get_username() if len(found) > SHOWN else "",
        lone=len(owners[:2]) == 1,
    )


@in_tenant
def keys(request: HttpRequest, principal: Principal) -> HttpResponse:
    """For owners: keys decide who may do what. The latest first, revoked ones too."""
    if not principal.may(Role.OWNER):
        return _refused(request, principal, "keys", "API keys decide who may do what")
    before = parse_uuid(request.GET.get("before", ""))
    rows = scoped(ApiKey.objects.all(), principal).order_by("-id")
    found = list((rows if before is None else rows.filter(id__lt=before))[: SHOWN + 1])
    now = SYSTEM_CLOCK.now()
    return _show(
        request,
        principal,
        "keys",
        keys=[(key, _standing(key, now)) for key in found[:SHOWN]],
        before=before,
        older=found[SHOWN - 1].id if len(found) > SHOWN else None,
        scopes=areas(),
        lives=forms.LIVES,
        usual=forms.USUAL_LIFE,
    )


@in_tenant
def secrets(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Names, where values lie, and who refers to them; no value is ever read."""
    used = secret_use.users_of_secrets(principal.tenant_id)
    rows = secret_store.named(principal).defer("sealed").order_by("name")
    return _show(
        request,
        principal,
        "secrets",
        change=Role.OPERATOR,
        secrets=[(row, users(principal, used.get(row.name, ()))) for row in rows],
        stores=Store.values,
        most=secret_store.MOST,
    )


@in_tenant
def channels(request: HttpRequest, principal: Principal) -> HttpResponse:
    """What may be shown of them, and who names them."""
    used = secret_use.users_of_channels(principal.tenant_id)
    rows = tenant_channels.channels(principal).defer("sealed").order_by("kind", "name")
    return _show(
        request,
        principal,
        "channels",
        change=Role.OPERATOR,
        channels=[(row, users(principal, used.get(row.uri, ()))) for row in rows],
        kinds=tuple(KINDS),
        severities=SEVERITIES,
        most=tenant_channels.MOST,
    )


@in_tenant
def limits_page(request: HttpRequest, principal: Principal) -> HttpResponse:
    """Each limit, its figure now, and what waits because of it."""
    found = limits.read(principal, Tenant.objects.get(id=principal.tenant_id))
    held = any(limit.holds for limit in found)
    waits = limits.waiting(principal, now=SYSTEM_CLOCK.now()) if held else None
    return _show(request, principal, "limits", limits=found, waits=waits)


def _refused(request: HttpRequest, principal: Principal, tab: str, why: str) -> HttpResponse:
    context = frame(request, principal) | {"page": "settings", "tabs": TABS, "tab": f"settings_{tab}"}
    return render(request, "console/settings/refused.html", context | {"why": why, "needed": "owner"}, status=403)


def _standing(key: ApiKey, now: Any) -> str:
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else ""
