"""Where an act comes from: which face of chronoweb took the request, and whose address it came from."""

from collections.abc import Callable
from contextvars import ContextVar
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

_ADDRESS_CHARACTERS = 64


class Whence(NamedTuple):
    """via: console, api or admin. Both empty: no request, but a daemon or a command."""

    via: str = ""
    address: str = ""


_NOWHERE = Whence()
_current: ContextVar[Whence] = ContextVar("whence", default=_NOWHERE)


def current() -> Whence:
    return _current.get()


def of(request: HttpRequest) -> Whence:
    """The address is the connection's: behind a proxy, the proxy's, unless the web server puts the client's there."""
    first = request.path.lstrip("/").split("/", 1)[0]
    address = str(request.META.get("REMOTE_ADDR") or "")
    return Whence(first if first in ("api", "admin") else "console", address[:_ADDRESS_CHARACTERS])


class KnowWhence:
    """Makes `current` true while a request is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        mark = _current.set(of(request))
        try:
            return self._get_response(request)
        finally:
            _current.reset(mark)
