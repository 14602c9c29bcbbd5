"""Freezing: nothing more is dispatched, of one tenant or of all, until a person thaws it. What runs goes on.

It is a hold that each dispatch reads, so it counts from its commit on. Leases are kept, what waits goes on waiting
where it is, and nothing is lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions.models import StandingHold
from apps.executions.states import Hold
from apps.executions.store import named_sql
from apps.tenants import audit
from apps.tenants.models import Tenant
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import Conflict, InvalidInput

EVERYTHING = UUID(int=0)
REASON_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Frozen:
    """Who has frozen what, and why."""

    reason: str
    by: str
    since: datetime


@transaction.atomic
def freeze(*, tenant: Tenant | None, reason: object, actor: str) -> Frozen:
    """Dispatch nothing more of a tenant (None: of all). Repeated, it gets the new reason. Raises InvalidInput."""
    if not isinstance(reason, str) or not reason.strip() or len(reason) > REASON_CHARACTERS or "\0" in reason:
        legal = f"text of 1 to {REASON_CHARACTERS} characters"
        raise InvalidInput("/reason", reason, "says not why it is frozen", legal)
    target = EVERYTHING if tenant is None else tenant.id
    parameters = {"target": target, "reason": int(Hold.FROZEN), "note": reason.strip(), "actor": actor}
    postgres.raw(django_connection).execute(named_sql("hold_set"), parameters)
    _record(tenant, "freeze", actor, reason=reason.strip())
    found = standing(tenant)
    assert found is not None
    return found


@transaction.atomic
def thaw(*, tenant: Tenant | None, actor: str) -> None:
    """Let it go on. Raises Conflict where it is not frozen."""
    found = standing(tenant)
    if found is None:
        raise Conflict("the scheduler is not frozen" if tenant is None else f"the tenant {tenant.slug} is not frozen")
    parameters = {"target": EVERYTHING if tenant is None else tenant.id, "reason": int(Hold.FROZEN)}
    postgres.raw(django_connection).execute(named_sql("hold_clear"), parameters)
    _record(tenant, "thaw", actor, since=found.since.isoformat(), reason=found.reason)
    transaction.on_commit(wakeup.preloader.wake)


def standing(tenant: Tenant | None) -> Frozen | None:
    """How it is frozen; None: it is not."""
    target = EVERYTHING if tenant is None else tenant.id
    return standing_of([target]).get(target)


def standing_of(targets: Sequence[UUID]) -> dict[UUID, Frozen]:
    """The same of many tenants; those that are not frozen are missing."""
    holds = StandingHold.objects.filter(target_id__in=targets, reason=Hold.FROZEN)
    return {hold.target_id: Frozen(hold.note, hold.actor, hold.since) for hold in holds}


def frozen_tenants() -> int:
    """How many are frozen one by one."""
    return StandingHold.objects.filter(reason=Hold.FROZEN).exclude(target_id=EVERYTHING).count()


def frozen_one_by_one(most: int) -> list[tuple[Tenant, Frozen]]:
    """Tenants that are frozen one by one, the last first."""
    holds = StandingHold.objects.filter(reason=Hold.FROZEN).exclude(target_id=EVERYTHING).order_by("-since")[:most]
    found = {hold.target_id: Frozen(hold.note, hold.actor, hold.since) for hold in holds}
    tenants = Tenant.objects.in_bulk(found)
    return [(tenants[target], frozen) for target, frozen in found.items() if target in tenants]


def _record(tenant: Tenant | None, act: str, actor: str, **detail: object) -> None:
    audit.record(
        tenant_id=None if tenant is None else tenant.id,
        actor=actor,
        action=f"{'scheduler' if tenant is None else 'tenant'}.{act}",
        target_type="scheduler" if tenant is None else "tenant",
        target_id="scheduler" if tenant is None else tenant.id,
        detail=detail,
    )
