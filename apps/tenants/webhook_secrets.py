"""What a tenant's webhooks are signed with: made with the tenant, shown to its owners, changed by them.

In the form of Standard Webhooks: "whsec_" and 32 random bytes in base64. Only the two functions here and the workers
read it; no list, log or admin page has it.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from apps.tenants import audit
from apps.tenants.identity import new_webhook_secret
from apps.tenants.models import Tenant
from apps.tenants.principal import Principal

OVERLAP = timedelta(days=1)
"""After a rotation both secrets sign for so long, so that receivers can follow."""


class Shown(NamedTuple):
    """A tenant's secret. valid_until: the end of the one before; None when only one is in force."""

    secret: str
    before: str | None
    valid_until: datetime | None


@transaction.atomic
def show(*, principal: Principal, now: datetime) -> Shown:
    """The secret in force; the look is recorded. now: aware."""
    tenant = Tenant.objects.get(id=principal.tenant_id)
    _record(principal, "webhook_secret.show")
    return _shown(tenant, now)


@transaction.atomic
def rotate(*, principal: Principal, now: datetime) -> Shown:
    """A new secret, in force within seconds; the one before signs beside it until `OVERLAP` has passed."""
    tenant = Tenant.objects.select_for_update().get(id=principal.tenant_id)
    tenant.webhook_secret_before, tenant.webhook_secret = tenant.webhook_secret, new_webhook_secret()
    tenant.webhook_secret_rotated_at = now
    tenant.save(update_fields=["webhook_secret", "webhook_secret_before", "webhook_secret_rotated_at"])
    _record(principal, "webhook_secret.rotate")
    return _shown(tenant, now)


def _shown(tenant: Tenant, now: datetime) -> Shown:
    until = tenant.webhook_secret_rotated_at and tenant.webhook_secret_rotated_at + OVERLAP
    if until is None or until <= now:
        return Shown(tenant.webhook_secret, None, None)
    return Shown(tenant.webhook_secret, tenant.webhook_secret_before, until)


def _record(principal: Principal, action: str) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="tenant",
        target_id=principal.tenant_id,
        detail={},
    )
