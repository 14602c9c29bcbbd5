"""API keys: made once, shown once, kept as a hash."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from apps.tenants import audit
from apps.tenants.models import ApiKey, Role, Tenant
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped_get

_MARK = "cw_"
USE_IS_NOTED = timedelta(minutes=5)
"""A key's last use is written no more often: most requests write nothing."""


def issue(
    *,
    tenant: Tenant,
    name: str,
    role: Role = Role.OPERATOR,
    expires_at: datetime | None = None,
    scopes: Sequence[str] = (),
    created_by: str = "",
) -> str:
    """Make a key and return its text; it cannot be read again afterwards."""
    return make(tenant=tenant, name=name, role=role, expires_at=expires_at, scopes=scopes, created_by=created_by).text


class Made(NamedTuple):
    """A new key, and its text for the only time."""

    key: ApiKey
    text: str


def make(
    *,
    tenant: Tenant,
    name: str,
    role: Role,
    expires_at: datetime | None = None,
    scopes: Sequence[str] = (),
    created_by: str = "",
) -> Made:
    """scopes: the parts of the API that it may use; none named: all."""
    text = _MARK + secrets.token_urlsafe(32)
    key = ApiKey.objects.create(
        tenant=tenant,
        name=name,
        role=role,
        expires_at=expires_at,
        prefix=text[:11],
        key_hash=_hash(text),
        scopes=sorted(scopes),
        created_by=created_by,
    )
    return Made(key, text)


@transaction.atomic
def make_over_rest(
    *, principal: Principal, name: str, role: Role, expires_at: datetime | None, scopes: Sequence[str]
) -> Made:
    """A key of the principal's tenant, with no more than the principal's own rights."""
    tenant = Tenant.objects.get(id=principal.tenant_id)
    made = make(tenant=tenant, name=name, role=role, expires_at=expires_at, scopes=scopes, created_by=principal.actor)
    _record(principal, "create", made.key)
    return made


@transaction.atomic
def revoke(*, principal: Principal, key_id: UUID, now: datetime) -> None:
    """Refuse a key from now on; one that is revoked already stays so. Raises NotFound."""
    key = scoped_get(ApiKey.objects.select_for_update(), principal, what="API key", id=key_id)
    if key.revoked_at is None:
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        _record(principal, "revoke", key)


def looks_like_key(text: str) -> bool:
    return text.startswith(_MARK)


def principal_of(text: str, *, now: datetime) -> Principal | None:
    """Whose key this is; None for unknown, expired and revoked keys alike."""
    if not looks_like_key(text) or len(text) > 100:
        return None
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
    key = ApiKey.objects.select_related("tenant").filter(live, key_hash=_hash(text)).first()
    if key is None:
        return None
    _note_use(key, now)
    return Principal.in_tenant(key.tenant, role=Role(key.role), actor=f"key:{key.prefix}", scopes=frozenset(key.scopes))


def _note_use(key: ApiKey, now: datetime) -> None:
    if key.last_used_at is not None and now - key.last_used_at < USE_IS_NOTED:
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_IS_NOTED)
    ApiKey.objects.filter(stale, pk=key.pk).update(last_used_at=now)


def _hash(text: str) -> str:
    # The key has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
    return hashlib.sha256(text.encode()).hexdigest()


def _record(principal: Principal, act: str, key: ApiKey) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"api_key.{act}",
        target_type="api_key",
        target_id=key.id,
        detail={"name": key.name, "prefix": key.prefix, "role": key.role, "scopes": key.scopes},
    )
