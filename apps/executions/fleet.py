"""The workers that live, as their rows tell: what the API and the console show of them."""

from django.db.models import Q, QuerySet

from apps.executions.models import Worker, WorkerState
from apps.tenants.principal import Principal

MOST = 1000
LIVING = (WorkerState.ACTIVE, WorkerState.DRAINING)


def workers_for(principal: Principal) -> QuerySet[Worker]:
    """Living workers that may run the principal's work, the newest first; the platform sees all. At most MOST."""
    living = Worker.objects.filter(state__in=LIVING)
    if not principal.is_platform:
        living = living.filter(Q(tenant_id=None) | Q(tenant_id=principal.tenant_id))
    return living.order_by("-id")[:MOST]
