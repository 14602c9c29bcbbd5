"""A tenant's secrets: named, sealed at rest, and never shown again to anybody. Only workers open them.

Handlers refer to them as {"secret": "NAME"}; what a reference stands for is looked up when an attempt starts, so a
replaced secret counts within seconds and no task has to be edited.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from apps.tenants import audit
from apps.tenants.models import Secret
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from apps.tenants.secret_names import LEGAL, NAME
from chronoweb.runtime.encryption import Unreadable, reseal, seal
from chronoweb.runtime.errors import Conflict, InvalidInput

VALUE_BYTES = 32 * 1024
MOST = 1000


def named(principal: Principal) -> QuerySet[Secret]:
    """The secrets that the tenant has given names to; chronoweb's own are not among them."""
    return scoped(Secret.objects.exclude(name__startswith=":"), principal)


@transaction.atomic
def create(*, principal: Principal, name: Any, value: Any) -> Secret:
    """Keep a new secret. Raises InvalidInput; Conflict when the name is taken, or there are `MOST` already."""
    check_name(name)
    sealed = _sealed(principal.tenant_id, name, value)
    if named(principal).count() >= MOST:
        raise Conflict(f"the tenant {principal.tenant_slug} has {MOST} secrets already, the most; delete one first")
    actor = principal.actor
    try:
        with transaction.atomic():
            row = Secret.objects.create(
                tenant_id=principal.tenant_id, name=name, sealed=sealed, created_by=actor, updated_by=actor
            )
    except IntegrityError:
        raise Conflict(f"the secret {name} exists; replace it with PUT", pointer="/name") from None
    _record(principal, "create", name)
    return row


@transaction.atomic
def replace(*, principal: Principal, name: str, value: Any) -> Secret:
    """Give a secret another value; workers take it within seconds. Raises NotFound, InvalidInput."""
    row = scoped_get(named(principal).select_for_update(), principal, what="secret", name=name)
    row.sealed, row.updated_by = _sealed(principal.tenant_id, name, value), principal.actor
    row.save(update_fields=["sealed", "updated_by", "updated_at"])
    _record(principal, "replace", name)
    return row


@transaction.atomic
def delete(*, principal: Principal, name: str) -> None:
    """Forget a secret; attempts that refer to it fail from then on, and say so. Raises NotFound."""
    scoped_get(named(principal).select_for_update(), principal, what="secret", name=name).delete()
    _record(principal, "delete", name)


def unknown(tenant_id: UUID, names: Iterable[str]) -> set[str]:
    """Those of the names that the tenant has no secret of."""
    wanted = set(names)
    if not wanted:
        return set()
    return wanted - set(Secret.objects.filter(tenant_id=tenant_id, name__in=wanted).values_list("name", flat=True))


def reseal_all() -> tuple[int, list[str]]:
    """Seal everything, chronoweb's own too, with the newest key; row by row, so that nobody waits.

    Returns how many were, and "tenant/name" of those that no key opens.
    """
    done, unreadable = 0, []
    for identity in list(Secret.objects.order_by("id").values_list("id", flat=True)):
        with transaction.atomic():
            row = Secret.objects.select_for_update(of=("self",)).select_related("tenant").filter(id=identity).first()
            if row is None:
                continue  # deleted meanwhile
            try:
                row.sealed = reseal(row.sealed)
            except Unreadable:
                unreadable.append(f"{row.tenant.slug}/{row.name}")
                continue
            Secret.objects.filter(id=identity).update(sealed=row.sealed)  # its value is the same: updated_at stays
            done += 1
    return done, unreadable


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput("/name", name, "is no name of a secret", LEGAL)


def _sealed(tenant_id: UUID, name: str, value: Any) -> str:
    """Sealed for this tenant and name. What is wrong with a value is said without it."""
    legal = f"text of 1 to {VALUE_BYTES} bytes without NUL characters"
    if not isinstance(value, str) or not value:
        raise InvalidInput("/value", None, "must be text that is not empty", legal)
    if "\0" in value or value != value.encode("utf-8", "replace").decode():
        raise InvalidInput("/value", None, "contains a NUL character or a lone surrogate", legal)
    if len(value.encode()) > VALUE_BYTES:
        raise InvalidInput("/value", None, f"has {len(value.encode())} bytes", legal)
    return seal(value, str(tenant_id), name)


def _record(principal: Principal, act: str, name: str) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"secret.{act}",
        target_type="secret",
        target_id=name,
    )
