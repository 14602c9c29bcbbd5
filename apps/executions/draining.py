"""Draining a worker by hand: it takes nothing more, what fits in its grace ends, the rest goes on elsewhere, it leaves.

It is a mark on the worker's row, which the worker reads each second (worker/presence.py), and is not taken back: a
worker that has begun to leave has given back what it held.
"""

from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions.models import Worker, WorkerState
from apps.executions.store import named_sql
from apps.tenants import audit
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import Conflict, NotAllowed, NotFound

HIGHEST_ID = 2**63 - 1


def may_drain(principal: Principal, tenant_id: UUID | None) -> bool:
    """Owners drain: the platform's any worker, a tenant's those that serve it alone (tenant_id; None: everybody's)."""
    return principal.may(Role.OWNER) and (principal.is_platform or principal.tenant_id == tenant_id)


def drain(*, principal: Principal, worker_id: int) -> Worker:
    """Ask a worker to drain; one that has been asked is left alone. Raises NotFound, NotAllowed, Conflict."""
    worker = _worker(worker_id)
    if not principal.is_platform and worker.tenant_id not in (None, principal.tenant_id):
        raise NotFound(f"no worker with id {worker_id}")
    if not may_drain(principal, worker.tenant_id):
        raise NotAllowed(
            f"worker {worker_id} runs everybody's work: owners of the platform's own tenant drain it"
            if worker.tenant_id is None
            else f"this needs the role {Role.OWNER.value}; yours is {principal.role.value}"
        )
    return ask(worker_id=worker_id, actor=principal.actor)


@transaction.atomic
def ask(*, worker_id: int, actor: str) -> Worker:
    """The same for who may drain every worker. Raises NotFound, and Conflict for one that has ended."""
    worker = _worker(worker_id)
    parameters = {"worker": worker.pk, "actor": actor}
    asked = postgres.raw(django_connection).execute(named_sql("worker_ask_to_drain"), parameters).fetchone()
    worker.refresh_from_db()
    if asked:
        audit.record(
            tenant_id=Tenant.objects.filter(id__in=[worker.tenant_id]).values_list("id", flat=True).first(),
            actor=actor,
            action="worker.drain",
            target_type="worker",
            target_id=worker.pk,
            detail={"active": worker.active, "labels": worker.labels},
        )
    elif worker.state in (WorkerState.STOPPED, WorkerState.LOST):
        raise Conflict(f"worker {worker_id} has ended already: it is {worker.state}")
    return worker


def _worker(worker_id: int) -> Worker:
    found = Worker.objects.filter(pk=worker_id).first() if 0 < worker_id <= HIGHEST_ID else None
    if found is None:
        raise NotFound(f"no worker with id {worker_id}")
    return found
