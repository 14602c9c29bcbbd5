"""A number for each request: in its answer, in the log lines that it caused, and in what a person reports."""

import re
import secrets
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

HEADER = "X-Request-Id"
_current: ContextVar[str] = ContextVar("request_id", default="")
_FIT = re.compile(r"[A-Za-z0-9_.-]{8,64}", re.ASCII)


def current() -> str:
    """The request that is answered here; empty outside of one."""
    return _current.get()


class RequestId:
    """Takes the number that a proxy has given, if it is one, or makes it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        # It stays until the next one begins here: Django logs what went wrong when all middleware is through.
        _current.set(given if _FIT.fullmatch(given) else secrets.token_hex(8))
        response = self._get_response(request)
        response[HEADER] = _current.get()
        return response
