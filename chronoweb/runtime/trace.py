"""The trace that a request belongs to (W3C Trace Context): kept with what the request starts, handed on to its work."""

import re
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

HEADER = "traceparent"
_current: ContextVar[str | None] = ContextVar("traceparent", default=None)
_VERSION_0 = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def current() -> str | None:
    """The traceparent that the request which is answered here came with; None: it is not traced, or there is none."""
    return _current.get()


def trace_id(traceparent: str | None) -> str:
    """Its 32 hexadecimal digits; empty for what is no traceparent."""
    return traceparent.split("-")[1] if traceparent and _VERSION_0.fullmatch(traceparent) else ""


class TraceContext:
    """Takes the trace that the caller says it is part of; what is malformed counts as none, as the standard has it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "").strip()
        mark = _current.set(given if _VERSION_0.fullmatch(given) else None)
        try:
            return self._get_response(request)
        finally:
            _current.reset(mark)
