"""Errors of servers and of the way to them, in words that say what to do."""

import json
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import httpx

from apps.ctl.answers import ADVICE
from apps.ctl.errors import CtlError, Exit

_BY_STATUS = {
    **dict.fromkeys((401, 403), Exit.NOT_ALLOWED),
    404: Exit.UNKNOWN,
    **dict.fromkeys((409, 412), Exit.CONFLICT),
    **dict.fromkeys((400, 413, 415, 422), Exit.INVALID),
    429: Exit.AWAY,
}
_LONGEST = 2000
"""Characters of one line of what the server says."""
_KNOWN = frozenset({"type", "title", "status", "detail", "errors", "instance"})


def check(answer: httpx.Response) -> None:
    """Raise CtlError unless it is a success."""
    if answer.is_success:
        return
    if answer.has_redirect_location:
        raise _sent_on(answer)
    problem = _problem(answer)
    if problem is None and answer.status_code in (404, 405):
        where = answer.url.copy_with(query=None, username=None, password=None)
        raise CtlError(f"{where} is not chronoweb's API: {ADVICE}", Exit.AWAY)
    code = _BY_STATUS.get(answer.status_code, Exit.AWAY if answer.status_code >= 500 else Exit.REFUSED)
    raise CtlError(_refused(answer, problem), code)


def away(url: str, error: httpx.RequestError) -> CtlError:
    """The error of a request that nobody has answered."""
    said = (str(error) or type(error).__name__).strip().rstrip(".")
    return CtlError(f"{url} does not answer: {said}; {_what_to_do(error)}", Exit.AWAY)


def _what_to_do(error: httpx.RequestError) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "if its certificate is one of your own, name that of its issuer with SSL_CERT_FILE"
    if "SSL" in text or "TLS" in text or isinstance(error.__cause__, ssl.SSLError):
        return "does this port speak TLS? Without it the address begins with http://"
    if isinstance(error, httpx.ProxyError | httpx.UnsupportedProtocol):
        return "look at HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY"
    if isinstance(error, httpx.ReadTimeout | httpx.WriteTimeout):
        return "it may have been done nevertheless: look before you ask again"
    if isinstance(error, httpx.ProtocolError | httpx.DecodingError):
        return f"this is no answer of chronoweb's: {ADVICE}"
    return "is the address right, and is the server running?"


def _sent_on(answer: httpx.Response) -> CtlError:
    where = answer.headers["Location"]
    if httpx.URL(answer.url).path in where:
        where = where.partition("/api/v1/")[0]
        return CtlError(f"the server sends on to {where}; name that address with --url", Exit.REFUSED)
    return CtlError(f"the server sends on to {where} instead of answering: {ADVICE}", Exit.REFUSED)


def _problem(answer: httpx.Response) -> Mapping[str, Any] | None:
    """The problem details of an answer; None: it has none, so that it is hardly chronoweb's."""
    try:
        found = json.loads(answer.content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("detail"), str) else None


def _refused(answer: httpx.Response, problem: Mapping[str, Any] | None) -> str:
    try:
        phrase = HTTPStatus(answer.status_code).phrase
    except ValueError:
        phrase = ""
    headline = f"{answer.status_code} {phrase}".rstrip()
    if problem is None:
        kind = answer.headers.get("Content-Type", "").partition(";")[0] or "no type"
        if answer.status_code >= 500 or answer.status_code == 429:
            return f"{headline}: the answer ({kind}) does not say why; try again later"
        return f"{headline}: the answer ({kind}) does not say why; {ADVICE}"
    return "\n".join([f"{headline}: {_short(problem['detail'])}", *_details(problem)])


def _details(problem: Mapping[str, Any]) -> list[str]:
    """A line for each value that is wrong, and the other members of the problem."""
    errors = problem.get("errors")
    lines = [_wrong_value(error) for error in (errors if isinstance(errors, list) else [])]
    return lines + [f"  {name}: {_short(value)}" for name, value in problem.items() if name not in _KNOWN]


def _wrong_value(error: Any) -> str:
    if not isinstance(error, Mapping):
        return f"  {_short(error)}"
    where = error.get("pointer") or error.get("parameter") or error.get("header") or "the document"
    legal = error.get("legal")
    right = ", ".join(map(str, legal)) if isinstance(legal, list) else legal
    return f"  {where}: {_short(error.get('detail'))}" + (f"; right: {_short(right)}" if right else "")


def _short(value: Any) -> str:
    """On one line, whatever it is."""
    text = " ".join(str(value).splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
