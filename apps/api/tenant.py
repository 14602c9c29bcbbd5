"""/api/v1/tenants/me: the tenant that asks, its limits, and how much of them is used."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.executions import tenant_use, usage
from apps.tenants.models import LIMITS, Tenant


class OwnTenant(ApiView):
    @documented("Read the tenant that asks", gives="Tenant")
    def get(self, request: Request) -> Response:
        who = principal(request)
        row = Tenant.objects.get(id=who.tenant_id)
        quotas = tenant_use.quotas(who)
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
                "use": tenant_use.use(who, quotas),
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
