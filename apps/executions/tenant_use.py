"""A tenant's limits and how much of each is used now, for the API and the console alike."""

from collections.abc import Sequence
from typing import Any

from django.db import connection as django_connection

from apps.executions import usage
from apps.executions.models import Outstanding
from apps.tenants.limits import name_of
from apps.tenants.models import LIMITS
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.rate_limit import limiter


def quotas(who: Principal) -> list[usage.Quota]:
    """Its scheduling quotas; one query."""
    return usage.quotas_of(postgres.raw(django_connection), [who.tenant_id])


def use(who: Principal, found: Sequence[usage.Quota]) -> dict[str, Any]:
    """By the names of the limits; None where it is not counted, or Redis is away. found: from `quotas`."""
    taken = None
    if who.api_requests_per_minute is not None:
        taken = limiter().take(name_of(who), who.api_requests_per_minute, count=0)
    return dict.fromkeys(LIMITS) | {
        "api_requests_per_minute": None if taken is None else taken.used,
        "max_concurrent_workers": Outstanding.objects.filter(tenant_id=who.tenant_id).count(),
        **{quota.use.quota: quota.use.shown(quota.used) for quota in found},
    }
