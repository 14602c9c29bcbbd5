"""/api/v1/tenants/me: the tenant that asks, its limits, and how much of them is used."""

from collections.abc import Sequence
from typing import Any

from django.db import connection as django_connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.executions import usage
from apps.executions.models import Outstanding
from apps.tenants.limits import name_of
from apps.tenants.models import LIMITS, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.rate_limit import limiter


class OwnTenant(ApiView):
    @documented("Read the tenant that asks", gives="Tenant")
    def get(self, request: Request) -> Response:
        who = principal(request)
        row = Tenant.objects.get(id=who.tenant_id)
        quotas = usage.quotas_of(postgres.raw(django_connection), [row.id])
        return Response(
            {
                "id": str(row.id),
                "slug": row.slug,
                "name": row.name,
                "tier": row.tier,
                "home_region": row.home_region,
                "weight": row.weight,
                "created_at": moment(row.created_at),
                "role": who.role.value,
                "limits": {name: getattr(row, name) for name in LIMITS},
                "use": _use(who, quotas),
                "used_up": [_used_up(quota) for quota in quotas if quota.is_over],
            }
        )


def _used_up(quota: usage.Quota) -> dict[str, Any]:
    """What makes the tenant's work wait. told_at: when its owners were told, by an entry in the audit log."""
    return {
        "quota": quota.use.quota,
        "window_start": None if quota.until is None else moment(quota.since),
        "window_end": moment(quota.until),
        "told_at": moment(quota.told_at),
    }


def _use(who: Principal, quotas: Sequence[usage.Quota]) -> dict[str, Any]:
    """By the names of the limits; null where it is not counted, or Redis is away."""
    taken = None
    if who.api_requests_per_minute is not None:
        taken = limiter().take(name_of(who), who.api_requests_per_minute, count=0)
    return dict.fromkeys(LIMITS) | {
        "api_requests_per_minute": None if taken is None else taken.used,
        "max_concurrent_workers": Outstanding.objects.filter(tenant_id=who.tenant_id).count(),
        **{quota.use.quota: quota.use.shown(quota.used) for quota in quotas},
    }
