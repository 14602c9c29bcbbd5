"""A tenant's secrets: named, sealed at rest or kept elsewhere, and never shown to anybody. Only workers open them.

Handlers refer to them as {{secret:NAME}}; what a reference stands for is looked up when an attempt starts, so a
replaced secret counts within seconds and no task has to be edited.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.db.models import QuerySet

from apps.tenants import audit
from apps.tenants.models import NotificationChannel, Secret
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from apps.tenants.secret_names import LEGAL, NAME
from apps.tenants.secret_places import FIELDS, Store, read_place, read_store
from chronoweb.runtime.config import config
from chronoweb.runtime.encryption import Unreadable, reseal, seal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

VALUE_BYTES = 32 * 1024
MOST = 1000
_HELD = "SELECT name FROM tenant_secrets WHERE tenant_id = %s AND name = ANY(%s) ORDER BY name FOR KEY SHARE"


def named(principal: Principal) -> QuerySet[Secret]:
    """The secrets that the tenant has given names to; chronoweb's own are not among them."""
    return scoped(Secret.objects.exclude(name__startswith=":"), principal)


@transaction.atomic
def create(*, principal: Principal, name: Any, given: Mapping[str, Any]) -> Secret:
    """Keep a new secret, or where it is. given: "store" and what that needs (secret_places.FIELDS).

    Raises InvalidInput, InvalidInputs; Conflict when the name is taken, or there are `MOST` already.
    """
    check_name(name)
    kept = _kept(principal, name, given)
    if named(principal).count() >= MOST:
        raise Conflict(f"the tenant {principal.tenant_slug} has {MOST} secrets already, the most; delete one first")
    actor = principal.actor
    try:
        with transaction.atomic():
            row = Secret.objects.create(
                tenant_id=principal.tenant_id, name=name, created_by=actor, updated_by=actor, **kept
            )
    except IntegrityError:
        raise Conflict(f"the secret {name} exists; replace it with PUT", pointer="/name") from None
    _record(principal, "create", row)
    return row


@transaction.atomic
def replace(*, principal: Principal, name: str, given: Mapping[str, Any]) -> Secret:
    """Give a secret another value, or another place; workers take it within seconds.

    Raises NotFound, InvalidInput, InvalidInputs.
    """
    row = locked(principal, name)
    for field, value in _kept(principal, name, given).items():
        setattr(row, field, value)
    row.updated_by = principal.actor
    row.save(update_fields=["store", "place", "sealed", "updated_by", "updated_at"])
    _record(principal, "replace", row)
    return row


@transaction.atomic
def delete(*, principal: Principal, name: str) -> None:
    """Forget a secret; attempts that refer to it fail from then on, and say so. Raises NotFound.

    Whether definitions refer to it is asked in apps/definitions/secret_use.py.
    """
    row = locked(principal, name)
    _record(principal, "delete", row)
    row.delete()


def locked(principal: Principal, name: str) -> Secret:
    """The tenant's secret, held until the transaction ends. Raises NotFound."""
    return scoped_get(named(principal).select_for_update(), principal, what="secret", name=name)


def unknown(tenant_id: UUID, names: Iterable[str]) -> set[str]:
    """Those of the names that the tenant has no secret of; the others stay until the transaction ends."""
    wanted = set(names)
    if not wanted:
        return set()
    with connection.cursor() as cursor:
        # Shared, so that definitions do not wait for each other; who deletes one waits for them, and then finds them.
        cursor.execute(_HELD, [tenant_id, sorted(wanted)])
        return wanted - {name for (name,) in cursor.fetchall()}


def reseal_all() -> tuple[int, list[str]]:
    """Seal everything, chronoweb's own and channels too, with the newest key; row by row, so that nobody waits.

    Returns how many were, and "tenant/name" of those that no key opens.
    """
    done, unreadable = 0, []
    models: tuple[type[Any], ...] = (Secret, NotificationChannel)
    for model in models:
        for identity in list(model.objects.exclude(sealed="").order_by("id").values_list("id", flat=True)):
            try:
                done += _resealed(model, identity)
            except Unreadable:
                row = model.objects.select_related("tenant").get(id=identity)
                unreadable.append(f"{row.tenant.slug}/{row}")
    return done, unreadable


@transaction.atomic
def _resealed(model: type[Any], identity: Any) -> bool:
    """False: it has been deleted meanwhile. Raises Unreadable."""
    row = model.objects.select_for_update(of=("self",)).filter(id=identity).exclude(sealed="").first()
    if row is None:
        return False
    # What it says is the same: updated_at stays.
    model.objects.filter(id=identity).update(sealed=reseal(row.sealed))
    return True


def check_name(name: Any) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InvalidInput("/name", name, "is no name of a secret", LEGAL)


def _kept(principal: Principal, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The columns that say what or where the value is."""
    store = read_store(given)
    if strangers := [field for field in given if field not in ("store", *FIELDS[store])]:
        legal = ", ".join(("store", *FIELDS[store]))
        raise InvalidInputs(
            [InvalidInput(f"/{at[:80]}", None, f"is not a field of a secret in {store}", legal) for at in strangers]
        )
    if store is Store.DATABASE:
        return {"store": store, "place": None, "sealed": _sealed(principal.tenant_id, name, given.get("value"))}
    return {
        "store": store,
        "place": read_place(given, store, slug=principal.tenant_slug, config=config()),
        "sealed": "",
    }


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


def _record(principal: Principal, act: str, row: Secret) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"secret.{act}",
        target_type="secret",
        target_id=row.name,
        detail={"store": row.store, **(row.place or {})},
    )
