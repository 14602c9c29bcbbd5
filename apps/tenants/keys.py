"""API keys: made once, shown once, kept as a hash."""

import hashlib
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction
from django.db.models import Q

from apps.tenants import audit
from apps.tenants.models import ApiKey, Role, Tenant, Tier
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped_get
from chronoweb.runtime import postgres

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


_PRINCIPAL = """
SELECT k.id, k.last_used_at, k.role, k.prefix, k.scopes, t.id, t.slug, t.tier, t.api_requests_per_minute, t.home_region
FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
WHERE k.key_hash = %s AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > %s)
"""
"""Every request asks this, so it is one prepared statement; nothing is remembered, or a revoked key would go on."""


def principal_of(text: str, *, now: datetime) -> Principal | None:
    """Whose key this is; None for unknown, expired and revoked keys alike."""
    if not looks_like_key(text) or len(text) > 100:
        return None
    found = postgres.reads(django_connection).read(_PRINCIPAL, (_hash(text), now))
    if not found:
        return None
    key_id, last_used_at, role, prefix, scopes, tenant_id, slug, tier, requests_per_minute, home_region = found[0]
    if last_used_at is None or now - last_used_at >= USE_IS_NOTED:
        _note_use(key_id, now)
    return Principal(
        tenant_id=tenant_id,
        tenant_slug=slug,
        role=Role(role),
        actor=f"key:{prefix}",
        is_platform=tier == Tier.SYSTEM,
        scopes=frozenset(scopes),
        api_requests_per_minute=requests_per_minute,
        home_region=home_region,
    )


def _note_use(key_id: UUID, now: datetime) -> None:
    stale = Q(last_used_at=None) | Q(last_used_at__lte=now - USE_IS_NOTED)
    ApiKey.objects.filter(stale, pk=key_id).update(last_used_at=now)


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
