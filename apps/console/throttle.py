"""Tries of a password are counted, wherever a form takes one; too many are answered without looking at the password."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse

from apps.console.errors import error_page
from apps.tenants.limits import count_attempt
from chronoweb.runtime.rate_limit import TooMany


def throttled(view: Callable[..., Any]) -> Callable[..., Any]:
    """A login view whose POSTs are counted by address and account."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "POST":
            try:
                count_attempt(
                    address=request.META.get("REMOTE_ADDR", ""), username=request.POST.get("username", "")[:200]
                )
            except TooMany as refused:
                return _refused(request, refused)
        try:
            return view(request, *args, **kwargs)
        except TooMany as refused:  # of CountedPasswords
            return _refused(request, refused)

    return wrapped


def _refused(request: HttpRequest, refused: TooMany) -> HttpResponse:
    answer = error_page(request, 429, happened=f"Not logged in: {refused}.")
    answer["Retry-After"] = str(refused.taken.retry_seconds)
    return answer
