"""Circuits as people see and reset them."""

from django.db import connection as django_connection
from django.db import transaction

from apps.executions.circuits import Circuit
from apps.executions.ids import to_us
from apps.executions.models import CircuitBreaker
from apps.executions.store import named_sql
from apps.tenants import audit
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped_get
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import NotFound

HIGHEST_ID = 2**63 - 1


def circuit_of(row: CircuitBreaker) -> Circuit:
    """The row as the rules know it."""
    return Circuit(
        recent=tuple((at, failed) for at, failed in row.recent),
        trips=row.trips,
        quarantine_until_us=None if row.quarantine_until is None else to_us(row.quarantine_until),
        slow_until_us=None if row.slow_start_until is None else to_us(row.slow_start_until),
        proven=row.proven,
    )


@transaction.atomic
def reset(*, principal: Principal, circuit_id: int) -> CircuitBreaker:
    """Close a circuit and forget its failures; what waits for it goes on within a second. Raises NotFound."""
    if circuit_id > HIGHEST_ID:
        raise NotFound(f"no circuit with id {circuit_id}")
    parameters = {"circuit": circuit_id, "tenant": principal.tenant_id}
    row = postgres.raw(django_connection).execute(named_sql("circuit_reset"), parameters).fetchone()
    if row is None:
        raise NotFound(f"no circuit with id {circuit_id} in tenant {principal.tenant_slug}")
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action="circuit.reset",
        target_type="circuit",
        target_id=circuit_id,
        detail={"key": row[0]},
    )
    found: CircuitBreaker = scoped_get(CircuitBreaker.objects.all(), principal, what="circuit", id=circuit_id)
    return found
