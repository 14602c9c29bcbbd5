"""JSON Web Tokens of persons: short ones to ask with, long ones that are exchanged for the next pair, once each.

A refresh token that comes a second time was stolen, or its holder lost an answer: nobody can tell, so the whole sign-in
ends. What the claims say of tenant and role is for clients; each request asks the database whether it still holds.
"""

from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from rest_framework_simplejwt.exceptions import TokenError
from rest_framework_simplejwt.tokens import AccessToken, RefreshToken, Token

from apps.tenants import audit
from apps.tenants.models import Role, SignIn
from apps.tenants.people import principal_of
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import ChronowebError, NotFound

_MARK_CHARACTERS = 16


class Pair(NamedTuple):
    """Two tokens and whom they speak for. Lifetimes in seconds."""

    access: str
    refresh: str
    access_seconds: int
    refresh_seconds: int
    principal: Principal


class TokenRefused(ChronowebError):
    """It is no token of ours, or it is over, used or revoked."""


@transaction.atomic
def obtain(*, user: User, slug: str, now: datetime) -> Pair:
    """A first pair for a person whose password was right. Raises NotFound when the tenant is not theirs."""
    principal = principal_of(user, slug)
    SignIn.objects.filter(user=user, expires_at__lt=now).delete()
    row = SignIn(tenant_id=principal.tenant_id, user=user)
    pair = _pair(row, user, principal, now)
    row.save(force_insert=True)
    _record(principal, "sign_in.create", row)
    return pair


def refresh(text: str, *, now: datetime) -> Pair:
    """The next pair; the token is used up. Raises TokenRefused."""
    token = _read(RefreshToken, text)
    with transaction.atomic():
        row = _row_of(token, lock=True)
        person = _holder(row, token)
        if row.refresh_id == token["jti"]:
            pair = _pair(row, row.user, person, now)
            row.save(update_fields=["refresh_id", "expires_at"])
            return pair
        row.revoked_at = now
        row.save(update_fields=["revoked_at"])
        _record(person, "sign_in.reused", row)
    raise TokenRefused("this refresh token has been used before, so its sign-in has ended; sign in again")


def revoke(text: str, *, now: datetime) -> None:
    """End the sign-in of a refresh or access token, at once. What is no token of ours is over anyhow."""
    try:
        row = _row_of(_read(_kind_of(text), text))
    except TokenRefused:
        return
    with transaction.atomic():
        SignIn.objects.filter(id=row.id).update(revoked_at=now)
        actor = f"user:{row.user.get_username()}"
        _record(Principal.in_tenant(row.tenant, role=Role.VIEWER, actor=actor), "sign_in.revoke", row)


def principal_of_token(text: str) -> Principal:
    """Whom an access token speaks for: with the role of today, but never more than the token's. Raises TokenRefused."""
    token = _read(AccessToken, text)
    return _holder(_row_of(token), token)


def _kind_of(text: str) -> type[Token]:
    try:
        AccessToken(text)  # type: ignore[arg-type]
    except TokenError:
        return RefreshToken
    return AccessToken


def _read(kind: type[Token], text: str) -> Token:
    try:
        return kind(text)  # type: ignore[arg-type]
    except (TokenError, UnicodeError, ValueError):
        raise TokenRefused("this token is not ours, altered or expired") from None


def _row_of(token: Token, *, lock: bool = False) -> SignIn:
    rows = SignIn.objects.select_related("tenant", "user")
    if lock:
        rows = rows.select_for_update(of=("self",))
    try:
        row = rows.filter(id=UUID(str(token.get("sign_in"))), revoked_at=None).first()
    except ValueError:
        row = None
    if row is None:
        raise TokenRefused("the sign-in of this token has ended; sign in again")
    return row


def _holder(row: SignIn, token: Token) -> Principal:
    if token.get("mark") != _mark(row.user):
        raise TokenRefused("the password has been changed since; sign in again")
    try:
        return principal_of(row.user, row.tenant.slug).at_most(Role(token.get("role")))
    except (NotFound, ValueError):
        raise TokenRefused("the person of this token is no longer a member of its tenant") from None


def _pair(row: SignIn, user: User, principal: Principal, now: datetime) -> Pair:
    claims: dict[str, Any] = {
        "sub": str(user.pk),
        "sign_in": str(row.id),
        "tenant": str(principal.tenant_id),
        "tenant_slug": principal.tenant_slug,
        "role": principal.role.value,
        "mark": _mark(user),
    }
    long = RefreshToken()
    for name, value in claims.items():
        long[name] = value
    short = long.access_token
    row.refresh_id = long["jti"]
    row.expires_at = now + long.lifetime
    access_seconds, refresh_seconds = (int(token.lifetime.total_seconds()) for token in (short, long))
    return Pair(str(short), str(long), access_seconds, refresh_seconds, principal)


def _mark(user: User) -> str:
    """Changes with the password, as sessions do; tells nothing about it."""
    return user.get_session_auth_hash()[:_MARK_CHARACTERS]


def _record(principal: Principal, action: str, row: SignIn) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="sign_in",
        target_id=row.id,
    )
