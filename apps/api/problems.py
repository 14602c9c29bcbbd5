"""Errors as RFC 9457 problem details: each 4xx and 5xx below /api/ is one, and none shows SQL, paths or secrets."""

import json
import logging
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import psycopg
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse
from django.views import defaults
from rest_framework import exceptions
from rest_framework.response import Response

from apps.definitions.confidential import repeatable
from apps.definitions.services import VersionMismatch
from apps.tenants.onlookers import NoPlace
from apps.tenants.regions import WrongRegion
from chronoweb.runtime import request_id, statement_limit
from chronoweb.runtime.away import is_away
from chronoweb.runtime.errors import (
    Conflict,
    Contradiction,
    InvalidInput,
    InvalidInputs,
    NotAllowed,
    NotFound,
    ServiceUnavailable,
    TooSlow,
)
from chronoweb.runtime.rate_limit import TooMany

logger = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
MOST_ERRORS = 100
"""Errors of one answer; a batch of 10,000 may have more, and says how many."""

FAILED = "chronoweb failed, and its log says why: look for the request_id"

TOO_SLOW = (
    "this takes longer than a request may; ask for less: a shorter time, one task, fewer rows; nothing was written"
)

_SHOWN = 200  # characters of a value
_HEADER, _QUERY = "header:", "query:"


class BodyTooLarge(exceptions.APIException):
    status_code = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    default_detail = "the body is too large"


def header_error(name: str, value: Any, problem: str, legal: str) -> InvalidInput:
    """A wrong request header."""
    return InvalidInput(f"{_HEADER}{name}", value, problem, legal)


def query_error(name: str, value: Any, problem: str, legal: Any) -> InvalidInput:
    """A wrong parameter in the URL's query."""
    return InvalidInput(f"{_QUERY}{name}", value, problem, legal)


def parameter_of(error: InvalidInput) -> str:
    """Which parameter of the query a `query_error` is about."""
    return error.pointer.removeprefix(_QUERY)


def problem(
    status: int, kind: str, detail: str, *, errors: Sequence[dict[str, Any]] = (), headers: Any = None, **extra: Any
) -> Response:
    """The answer: type, title, status, detail, and what belongs to the kind."""
    body: dict[str, Any] = {
        "type": f"urn:chronoweb:problem:{kind}",
        "title": HTTPStatus(status).phrase,
        "status": int(status),
        "detail": detail,
        **extra,
    }
    if errors:
        body["errors"] = list(errors)
    return Response(body, status=status, headers=headers, content_type=CONTENT_TYPE)


def handle(error: Exception, context: dict[str, Any]) -> Response:
    """DRF's exception handler."""
    if isinstance(error, InvalidInput):
        return _invalid([error])
    if isinstance(error, Contradiction):
        shown = [_error(one) for one in error.errors[:MOST_ERRORS]]
        detail = f"{shown[0]['pointer']} {error.errors[0].problem}"
        return problem(400, "contradiction", detail, errors=shown)
    if isinstance(error, InvalidInputs):
        return _invalid(error.errors)
    if isinstance(error, VersionMismatch):
        return problem(412, "version-mismatch", str(error), **error.extra)
    if isinstance(error, Conflict):
        return problem(409, "conflict", str(error), **error.extra)
    if isinstance(error, NotAllowed):
        return problem(403, "forbidden", str(error))
    if isinstance(error, WrongRegion):
        return problem(421, "wrong-region", str(error), region=error.region, base_url=error.base_url)
    if isinstance(error, NotFound | Http404):
        return problem(404, "not-found", str(error) or "no such resource")
    if isinstance(error, RequestDataTooBig):
        return problem(413, "body-too-large", "the body is too large")
    if isinstance(error, TooMany):
        return problem(429, "too-many-requests", str(error), headers=error.taken.headers())
    if isinstance(error, NoPlace):
        return problem(429, "too-many-live-views", str(error), headers={"Retry-After": "10"})
    if isinstance(error, exceptions.APIException):
        return _of_drf(error)
    if statement_limit.is_too_slow(error):
        logger.warning("a request takes too long", extra={"action": "api.too_slow", "error": str(error)})
        detail = str(error) if isinstance(error, TooSlow) else TOO_SLOW
        return problem(503, "too-slow", detail, headers={"Retry-After": str(statement_limit.RETRY_SECONDS)})
    if isinstance(error, ServiceUnavailable) or is_away(error):
        logger.warning("a service is away", extra={"action": "api.unavailable", "error": str(error)})
        detail = "a service that this needs does not answer; nothing was written, try again"
        return problem(503, "unavailable", detail, headers={"Retry-After": "1"})
    logger.error(
        "a request failed",
        exc_info=error,
        extra={"action": "api.failed", "database": isinstance(error, DatabaseError | psycopg.Error)},
    )
    return problem(500, "internal", FAILED, request_id=request_id.current())


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view, such as a wrong Host header: a problem below /api/, a page elsewhere."""
    if not request.path.startswith("/api/"):
        return defaults.bad_request(request, exception)
    answer = problem(400, "malformed", "the request's Host header, path or size is refused")
    return HttpResponse(json.dumps(answer.data), status=400, content_type=CONTENT_TYPE)


def server_error(request: HttpRequest) -> HttpResponse:
    """What failed outside of the API's views: a problem below /api/, a page elsewhere, and never a trace."""
    number = request_id.current()
    if request.path.startswith("/api/"):
        answer = problem(500, "internal", FAILED, request_id=number)
        return HttpResponse(json.dumps(answer.data), status=500, content_type=CONTENT_TYPE)
    text = f"chronoweb failed, and its log says why: look for request {number}."
    return HttpResponse(text, status=500, content_type="text/plain; charset=utf-8")


def _of_drf(error: exceptions.APIException) -> Response:
    headers = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = error.auth_header  # type: ignore[attr-defined]
    kinds = {400: "malformed", 401: "unauthenticated", 403: "forbidden", 405: "method-not-allowed"}
    kinds |= {413: "body-too-large", 415: "unsupported-media-type"}
    status = int(error.status_code)
    detail = str(error.detail)
    if isinstance(error, exceptions.UnsupportedMediaType):
        headers["Accept-Encoding"] = "identity"
        detail = f"{detail.rstrip('.')}; send Content-Type: application/json, in UTF-8, without a Content-Encoding"
    return problem(status, kinds.get(status, "refused"), detail, headers=headers)


def _invalid(errors: Sequence[InvalidInput]) -> Response:
    shown = [_error(error) for error in errors[:MOST_ERRORS]]
    of_query = all(error.pointer.startswith(_QUERY) for error in errors)
    count = f"{len(errors)} value{'s are' if len(errors) != 1 else ' is'} wrong"
    detail = f"{count}: {_where(shown[0])} {errors[0].problem}" if errors else count
    kind = "invalid-query" if of_query else "invalid-input"
    return problem(400 if of_query else 422, kind, detail, errors=shown)


def _error(error: InvalidInput) -> dict[str, Any]:
    shown: dict[str, Any] = {"pointer": error.pointer, "detail": error.problem}
    for prefix, member in ((_HEADER, "header"), (_QUERY, "parameter")):
        if error.pointer.startswith(prefix):
            shown = {"pointer": "", member: error.pointer.removeprefix(prefix), "detail": error.problem}
    if error.value is not None:
        shown["value"] = _cut(repeatable(error.pointer, error.value))
    if error.legal is not None:
        shown["legal"] = error.legal if isinstance(error.legal, str) else [str(value) for value in error.legal]
    return shown


def _where(error: dict[str, Any]) -> str:
    return error.get("header") or error.get("parameter") or error["pointer"] or "the document"


def _cut(value: Any) -> Any:
    """The value, or the beginning of its JSON text when it is long or no JSON."""
    text = value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=True)
    if len(text) > _SHOWN:
        return text[:_SHOWN] + "…"
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else json.loads(text)
