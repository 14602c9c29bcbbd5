"""The workers that live, as their rows tell: what the API and the console show of them."""

from datetime import datetime

from django.db.models import Q, QuerySet

from apps.executions.models import Worker, WorkerState
from apps.tenants.principal import Principal

MOST = 1000
MOST_ENDED = 10
LIVING = (WorkerState.ACTIVE, WorkerState.DRAINING)


def workers_for(principal: Principal) -> QuerySet[Worker]:
    """Living workers that may run the principal's work, the newest first; the platform sees all. At most MOST."""
    return _seen_by(principal, Worker.objects.filter(state__in=LIVING))[:MOST]


def ended_for(principal: Principal, *, since: datetime) -> QuerySet[Worker]:
    """Those of them that have left, or were given up, since then; at most MOST_ENDED."""
    ended = Worker.objects.filter(state__in=(WorkerState.STOPPED, WorkerState.LOST), heartbeat_at__gte=since)
    return _seen_by(principal, ended)[:MOST_ENDED]


def is_whole(principal: Principal, worker: Worker) -> bool:
    """Whether it may see the worker's machine and load: the platform of all, a tenant of those that serve it alone."""
    return principal.is_platform or worker.tenant_id == principal.tenant_id


def _seen_by(principal: Principal, workers: QuerySet[Worker]) -> QuerySet[Worker]:
    if not principal.is_platform:
        workers = workers.filter(Q(tenant_id=None) | Q(tenant_id=principal.tenant_id))
    return workers.order_by("-id")
