"""Who may open a socket: pages of this very site, host and port, and of no other on the same machine."""

from typing import Any
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host


class SameOrigin:
    """Refuses a handshake whose Origin is not the Host that it was sent to, or whose Host is not ours."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1").lower()
        origin = headers.get(b"origin", b"").decode("latin-1").lower()
        domain, _ = split_domain_port(host)
        allowed = settings.ALLOWED_HOSTS or ["localhost", "127.0.0.1", "[::1]"]
        if host and domain and validate_host(domain, allowed) and _place(origin) == host:
            return await self._application(scope, receive, send)
        return await WebsocketDenier()(scope, receive, send)


def _place(origin: str) -> str:
    """host[:port] of an origin; empty when it is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""
