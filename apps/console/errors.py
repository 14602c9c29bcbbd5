"""Pages that say what went wrong: what happened, and what to do next. None asks the database for anything."""

import logging
from dataclasses import dataclass
from typing import Any

import redis
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render

from chronoweb.runtime import request_id, statement_limit
from chronoweb.runtime.away import is_away
from chronoweb.runtime.errors import ServiceUnavailable, TooSlow

logger = logging.getLogger(__name__)

AWAY_SECONDS = 5
"""How soon the page of a service that is away loads itself again."""
_AWAY = (ServiceUnavailable, redis.ConnectionError)


@dataclass(frozen=True)
class Words:
    """The sentences of one status. act: the button's; empty: no button but the way home."""

    title: str
    happened: str
    next: str
    act: str = ""


WORDS = {
    400: Words("This cannot be answered", "The address or the request is not well formed.", "Go on from the overview."),
    403: Words(
        "You may not do this here",
        "Your account or its role does not include it.",
        "Ask an owner of the tenant for the role, or log in as somebody else.",
        "Log in",
    ),
    404: Words(
        "There is nothing at this address",
        "It is wrong, or what it led to is gone, or belongs to a tenant that you are not a member of.",
        "Look for it by its name or id (Ctrl K on any page), or ask the sender of the link which tenant it is in.",
    ),
    429: Words(
        "Too many tries",
        "Tries of a password are counted, by address and by account.",
        "Wait for as long as is said above; then try again. An administrator can set a new password.",
        "Back to the login",
    ),
    500: Words(
        "chronoweb failed",
        "Its log says why; nothing that was accepted before is lost.",
        "Load the page again. If it fails again, tell whoever runs this installation the number below.",
        "Load again",
    ),
    503: Words(
        "A service does not answer",
        "The database or Redis cannot be reached at the moment. Nothing was written; what is scheduled is kept.",
        f"This page tries again by itself every {AWAY_SECONDS} seconds.",
        "Try now",
    ),
}


SLOW = Words(
    "This takes too long",
    "What was asked for would read more than a page may. It was stopped, and nothing was written.",
    "Narrow it: a shorter time, one task, another filter beside. Or try again when less goes on.",
    "Try again",
)


def error_page(
    request: HttpRequest, status: int, *, happened: str = "", words: Words | None = None, **more: Any
) -> HttpResponse:
    """The page of a status. words: others than its general ones; happened: instead of one sentence of theirs."""
    said = words or WORDS[status]
    context = {
        "status": status,
        "words": said,
        "happened": happened or said.happened,
        "request_id": request_id.current() if status >= 500 else "",
        "again": AWAY_SECONDS if said is WORDS[503] else 0,
        "logs_in": status in (403, 429),
        **more,
    }
    return render(request, "console/error.html", context, status=status)


def forbidden_form(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A POST whose CSRF token is missing or old."""
    if "application/json" in request.headers.get("Accept", ""):
        return JsonResponse(
            {"problem": "The page is too old to act from. Load it again. Nothing was done."}, status=403
        )
    happened = "The form was sent from a page that is too old, or from another site. Nothing was done."
    return error_page(request, 403, happened=happened)


class ErrorPages:
    """Turns what any page may run into, a service that is away, into its page."""

    def __init__(self, get_response: Any) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response: HttpResponse = self._get_response(request)
        return response

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if request.path.startswith("/api/"):
            return None
        if not is_passing(error):
            return None
        action = "console.too_slow" if statement_limit.is_too_slow(error) else "console.unavailable"
        logger.warning("a page cannot be made now", extra={"action": action, "error": str(error)})
        return passing(request, error)


def passing(request: HttpRequest, error: BaseException | None) -> HttpResponse:
    """A service that is away, or what takes too long; for what a page fetches, in JSON."""
    words, seconds = WORDS[503], AWAY_SECONDS
    if statement_limit.is_too_slow(error):
        words, seconds = SLOW, statement_limit.RETRY_SECONDS
    told = str(error) if isinstance(error, TooSlow) else ""
    happened = told and f"{told[0].upper()}{told[1:]}."
    if "application/json" in request.headers.get("Accept", ""):
        problem = happened or (words.happened if words is WORDS[503] else f"{words.happened} {words.next}")
        answer: HttpResponse = JsonResponse({"problem": problem}, status=503)
    else:
        answer = error_page(request, 503, happened=happened, words=words)
    answer["Retry-After"] = str(seconds)
    return answer


def is_passing(error: BaseException | None) -> bool:
    """Whether the same may be answered later, or narrower."""
    return isinstance(error, _AWAY) or is_away(error) or statement_limit.is_too_slow(error)
