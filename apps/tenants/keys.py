"""API keys: made once, shown once, kept as a hash."""

import hashlib
import secrets
from datetime import datetime

from django.db.models import Q

from apps.tenants.models import ApiKey, Role, Tenant, Tier
from apps.tenants.principal import Principal

_MARK = "cw_"


def issue(*, tenant: Tenant, name: str, role: Role = Role.OPERATOR, expires_at: datetime | None = None) -> str:
    """Make a key and return its text; it cannot be read again afterwards."""
    text = _MARK + secrets.token_urlsafe(32)
    ApiKey.objects.create(
        tenant=tenant, name=name, role=role, expires_at=expires_at, prefix=text[:11], key_hash=_hash(text)
    )
    return text


def principal_of(text: str, *, now: datetime) -> Principal | None:
    """Whose key this is; None for unknown, expired and revoked keys alike."""
    if not text.startswith(_MARK) or len(text) > 100:
        return None
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
    key = ApiKey.objects.select_related("tenant").filter(live, key_hash=_hash(text)).first()
    if key is None:
        return None
    return Principal(
        tenant_id=key.tenant.id,
        tenant_slug=key.tenant.slug,
        role=Role(key.role),
        actor=f"key:{key.prefix}",
        is_platform=key.tenant.tier == Tier.SYSTEM,
    )


def _hash(text: str) -> str:
    # The key has 256 random bits, so one round of SHA-256 is enough: there is nothing to guess.
    return hashlib.sha256(text.encode()).hexdigest()
