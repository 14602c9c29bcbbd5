"""/api/v1/admin/tenants: all tenants, for the platform's own. To everybody else none of them is there."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.filters import Filters, Text, Words
from apps.api.lists import ListView
from apps.api.openapi.declare import declared, documented
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.api.scheduler import PlatformView, frozen
from apps.executions import freezing, usage
from apps.tenants import tenants
from apps.tenants.models import LIMITS, Role, Tenant, Tier
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import NotFound


class _Search(Text):
    def filter(self, qs: Any, value: Any) -> Any:
        return qs if value is None else tenants.found_by(qs, value)


class TenantFilters(Filters):
    search = _Search(about="in any part of slug or name")
    tier = Words({tier: tier for tier in Tier.values}, "tier")


class Tenants(PlatformView, ListView):
    filters = TenantFilters
    ordering = Ordering({"slug": "slug", "created_at": "id"}, default="-created_at")
    declares = {"get": declared("List tenants", gives="ManagedTenantPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return Tenant.objects.all()

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return shown(rows)

    @documented(
        "Make a tenant",
        takes="ManagedTenantInput",
        gives={201: "ManagedTenant"},
        headers=("Location",),
        fails=(409,),
    )
    def post(self, request: Request) -> Response:
        data = body_object(request, fields=tenants.FIELDS)
        made = tenants.create(principal=principal(request), data=data)
        return Response(shown([made])[0], status=201, headers={"Location": f"/api/v1/admin/tenants/{made.id}"})


class _OfOne(ApiView):
    """Who is not of the platform cannot tell whether a tenant is there."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not principal(request).is_platform:
            raise NotFound(f"no tenant with id {kwargs['tenant_id']}")
        tenants.tenant(kwargs["tenant_id"])

    def needed_role(self, request: Request) -> Role:
        who = principal(request)
        return Role.OWNER if who.is_platform and request.method not in ("GET", "HEAD") else Role.VIEWER


class OneTenant(_OfOne):
    @documented("Read a tenant", gives="ManagedTenant")
    def get(self, request: Request, tenant_id: UUID) -> Response:
        return Response(shown([tenants.tenant(tenant_id)])[0])

    @documented("Change a tenant", takes="ManagedTenantPatch", body_optional=True, gives="ManagedTenant")
    def patch(self, request: Request, tenant_id: UUID) -> Response:
        """Dispatchers follow new limits within a moment; work that waited for a quota goes on."""
        data = body_object(request, fields=tenants.CHANGEABLE)
        return Response(shown([tenants.update(principal=principal(request), tenant_id=tenant_id, data=data)])[0])


class FreezeTenant(_OfOne):
    """Nothing more of it is dispatched until it is thawed. What runs goes on, what waits is kept."""

    @documented("Freeze a tenant", takes="FreezeInput", gives="Freezing")
    def post(self, request: Request, tenant_id: UUID) -> Response:
        reason = body_object(request, fields=("reason",)).get("reason")
        tenant = tenants.tenant(tenant_id)
        made = freezing.freeze(tenant=tenant, reason=reason, actor=principal(request).actor)
        return Response({"frozen": frozen(made)})


class ThawTenant(_OfOne):
    @documented("Thaw a tenant", takes="Empty", body_optional=True, gives="Freezing", fails=(409,))
    def post(self, request: Request, tenant_id: UUID) -> Response:
        body_object(request, fields=())
        freezing.thaw(tenant=tenants.tenant(tenant_id), actor=principal(request).actor)
        return Response({"frozen": None})


def shown(rows: Sequence[Tenant]) -> list[dict[str, Any]]:
    """With what they have used of their quotas: two queries for all."""
    quotas = usage.quotas_of(postgres.raw(django_connection), [row.id for row in rows])
    standing = freezing.standing_of([row.id for row in rows])
    return [
        {
            "id": str(row.id),
            "slug": row.slug,
            "name": row.name,
            "tier": row.tier,
            "home_region": row.home_region,
            "weight": row.weight,
            "created_at": moment(row.created_at),
            "limits": {name: getattr(row, name) for name in LIMITS},
            "use": {q.use.quota: q.use.shown(q.used) for q in quotas if q.tenant_id == row.id},
            "frozen": frozen(standing.get(row.id)),
        }
        for row in rows
    ]
