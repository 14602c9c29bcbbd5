"""/api/v1/auth: a person's password becomes tokens, a refresh token the next ones, and signing out ends them."""

from typing import Any

from django.contrib.auth import authenticate
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.base import PublicView
from apps.api.openapi.declare import documented
from apps.api.secrets import given_privately
from apps.tenants import people, tokens
from apps.tenants.limits import count_attempt
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.errors import InvalidInput, NotFound

LONGEST = 4096


class TokenView(PublicView):
    """What is refused here is a 401, although nobody was asked who they are."""

    def get_authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="chronoweb"'


class ObtainToken(TokenView):
    """`tenant` may be left out by members of one tenant alone."""

    @documented("Obtain tokens", takes="Credentials", gives="Tokens", headers=("Cache-Control",), fails=(401, 429))
    def post(self, request: Request) -> Response:
        body = given_privately(request, ("username", "password", "tenant"))
        username, password = _text(body, "username"), _text(body, "password")
        slug = _text(body, "tenant") if body.get("tenant") is not None else None
        count_attempt(address=request.META.get("REMOTE_ADDR", ""), username=username)
        user: Any = authenticate(request._request, username=username, password=password)
        if user is None:
            raise AuthenticationFailed("no account has this name and password")
        try:
            return _answer(tokens.obtain(user=user, slug=slug or _only_tenant(user), now=SYSTEM_CLOCK.now()))
        except NotFound:
            raise InvalidInput("/tenant", slug, "is no tenant that you are a member of", _slugs(user)) from None


class RefreshToken(TokenView):
    @documented("Refresh tokens", takes="RefreshInput", gives="Tokens", headers=("Cache-Control",), fails=(401, 429))
    def post(self, request: Request) -> Response:
        text = _text(given_privately(request, ("refresh",)), "refresh")
        count_attempt(address=request.META.get("REMOTE_ADDR", ""), username=f"refresh:{text[-32:]}")
        try:
            return _answer(tokens.refresh(text, now=SYSTEM_CLOCK.now()))
        except tokens.TokenRefused as refused:
            raise AuthenticationFailed(str(refused)) from None


class RevokeToken(PublicView):
    """Sign out with either token; a token that is no more is signed out already."""

    @documented("Sign out", takes="RevokeInput", gives={204: None})
    def post(self, request: Request) -> Response:
        text = _text(given_privately(request, ("token",)), "token")
        tokens.revoke(text, now=SYSTEM_CLOCK.now())
        return Response(status=204)


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST:
        raise InvalidInput(f"/{name}", None, "must be text that is not empty", f"1 to {LONGEST} characters")
    return value


def _slugs(user: Any) -> list[str]:
    return list(people.tenants_of(user).order_by("slug").values_list("slug", flat=True)[:50])


def _only_tenant(user: Any) -> str:
    slugs = _slugs(user)
    if len(slugs) != 1:
        problem = (
            "must be named, since you are a member of several" if slugs else "is missing: you are a member of none"
        )
        raise InvalidInput("/tenant", None, problem, slugs)
    return slugs[0]


def _answer(pair: tokens.Pair) -> Response:
    body = {
        "token_type": "Bearer",
        "access": pair.access,
        "access_expires_in": pair.access_seconds,
        "refresh": pair.refresh,
        "refresh_expires_in": pair.refresh_seconds,
        "tenant": pair.principal.tenant_slug,
        "role": pair.principal.role.value,
    }
    return Response(body, headers={"Cache-Control": "no-store"})
