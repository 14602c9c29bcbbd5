"""Who asks: an API key or a token in `Authorization: Bearer …`, or the session of a page of this site."""

from typing import Any

from rest_framework.authentication import BaseAuthentication, CSRFCheck, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from apps.tenants import keys, onlookers, people
from apps.tenants.principal import Principal
from apps.tenants.tokens import TokenRefused, principal_of_token
from chronoweb.runtime.clock import SYSTEM_CLOCK

TENANT_HEADER = "X-Chronoweb-Tenant"


class Bearer(BaseAuthentication):
    """request.user is the Principal, request.auth the kind of proof."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != b"bearer":
            return None
        if len(words) != 2:
            raise AuthenticationFailed("the header must read: Authorization: Bearer <API key or access token>")
        text = words[1].decode("latin-1")
        if not keys.looks_like_key(text) and text.count(".") == 2:
            try:
                return principal_of_token(text), "token"
            except TokenRefused as refused:
                raise AuthenticationFailed(str(refused)) from None
        principal = keys.principal_of(text, now=SYSTEM_CLOCK.now())
        if principal is None:
            raise AuthenticationFailed("this API key is unknown, expired or revoked")
        return principal, "key"

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="chronoweb"'


class BrowserSession(BaseAuthentication):
    """A page of this site names its tenant in a header, which no form of another site can send, and its CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, str] | None:
        slug = request.headers.get(TENANT_HEADER)
        person = getattr(request._request, "user", None)
        if slug is None or person is None or not person.is_authenticated:
            return None
        _refuse_forged(request)
        return people.principal_of(person, slug), "session"


def _refuse_forged(request: Request) -> None:
    check = CSRFCheck(lambda _: None)  # type: ignore[arg-type]
    check.process_request(request._request)
    reason = check.process_view(request._request, None, (), {})  # type: ignore[arg-type]
    if reason:
        raise PermissionDenied(f"the CSRF check failed: {reason}")


def still_may(request: Request) -> bool:
    """Whether an answer that goes on for long may go on: what proved who asks is asked again."""
    if request.auth == "session":
        asked = onlookers.onlooker(request._request.user, request._request.session, principal(request).tenant_slug)
        return asked in onlookers.roles_of({asked})
    try:
        return Bearer().authenticate(request) is not None
    except AuthenticationFailed:
        return False


def principal(request: Request) -> Principal:
    """Who asks, after authentication."""
    found = request.user
    assert isinstance(found, Principal)
    return found
