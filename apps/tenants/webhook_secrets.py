"""What a tenant's webhooks are signed with: made when an owner first looks, shown to owners, changed by them.

In the form of Standard Webhooks: "whsec_" and 32 random bytes in base64. It lies sealed among the tenant's secrets,
under names of chronoweb's own. Only the two functions here and the workers open it; no list, log or admin page has it.
"""

from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import transaction

from apps.tenants import audit
from apps.tenants.identity import new_webhook_secret
from apps.tenants.models import Secret, Tenant
from apps.tenants.principal import Principal
from apps.tenants.secret_names import WEBHOOK, WEBHOOK_BEFORE
from chronoweb.runtime.encryption import seal, unseal

OVERLAP = timedelta(days=1)
"""After a rotation both secrets sign for so long, so that receivers can follow."""


class Shown(NamedTuple):
    """A tenant's secret. valid_until: the end of the one before; None when only one is in force."""

    secret: str
    before: str | None
    valid_until: datetime | None


@transaction.atomic
def show(*, principal: Principal, now: datetime) -> Shown:
    """The secret in force, made if there is none yet; the look is recorded. now: aware."""
    _lock(principal)
    _record(principal, "webhook_secret.show")
    if WEBHOOK not in _opened(principal, now):
        _put(principal, WEBHOOK, new_webhook_secret())
    return _shown(principal, now)


@transaction.atomic
def rotate(*, principal: Principal, now: datetime) -> Shown:
    """A new secret, in force within seconds; the one before signs beside it until `OVERLAP` has passed."""
    _lock(principal)
    _record(principal, "webhook_secret.rotate")
    before = _opened(principal, now).get(WEBHOOK)
    if before is not None:
        _put(principal, WEBHOOK_BEFORE, before[0], valid_until=now + OVERLAP)
    _put(principal, WEBHOOK, new_webhook_secret())
    return _shown(principal, now)


def _lock(principal: Principal) -> None:
    """Two owners at once make one secret."""
    Tenant.objects.select_for_update().get(id=principal.tenant_id)


def _opened(principal: Principal, now: datetime) -> dict[str, tuple[str, datetime | None]]:
    rows = Secret.objects.filter(tenant_id=principal.tenant_id, name__in=(WEBHOOK, WEBHOOK_BEFORE))
    return {
        row.name: (unseal(row.sealed, str(principal.tenant_id), row.name), row.valid_until)
        for row in rows
        if row.valid_until is None or row.valid_until > now
    }


def _put(principal: Principal, name: str, value: str, *, valid_until: datetime | None = None) -> None:
    Secret.objects.update_or_create(
        tenant_id=principal.tenant_id,
        name=name,
        defaults={
            "sealed": seal(value, str(principal.tenant_id), name),
            "valid_until": valid_until,
            "updated_by": principal.actor,
        },
        create_defaults={
            "sealed": seal(value, str(principal.tenant_id), name),
            "valid_until": valid_until,
            "created_by": principal.actor,
            "updated_by": principal.actor,
        },
    )


def _shown(principal: Principal, now: datetime) -> Shown:
    found = _opened(principal, now)
    before, until = found.get(WEBHOOK_BEFORE, (None, None))
    return Shown(found[WEBHOOK][0], before, until)


def _record(principal: Principal, action: str) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="tenant",
        target_id=principal.tenant_id,
        detail={},
    )
