"""Who asks: `Authorization: Bearer <API key>`, and what that key's role may do."""

from typing import Any

from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.tenants.keys import principal_of
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK


class BearerKey(BaseAuthentication):
    """request.user is the Principal, request.auth the kind of proof."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("the header must read: Authorization: Bearer <API key>")
        principal = principal_of(words[1].decode("latin-1"), now=SYSTEM_CLOCK.now())
        if principal is None:
            raise AuthenticationFailed("this API key is unknown, expired or revoked")
        return principal, "key"

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="chronoweb"'


def principal(request: Request) -> Principal:
    """Who asks, after authentication."""
    found = request.user
    assert isinstance(found, Principal)
    return found
