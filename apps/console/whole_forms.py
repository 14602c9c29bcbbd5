"""Forms that do something must have arrived whole: Django leaves out the parts that it cannot read and goes on."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError

FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
_BROKEN = {"problem": "The form did not arrive whole. Nothing was done; load the page again."}
_NO_FORM = {"problem": f"This takes a form: {' or '.join(FORMS)}."}


def needs_whole_form(view: Callable[..., Any]) -> Callable[..., Any]:
    view.needs_whole_form = True  # type: ignore[attr-defined]
    return view


class WholeForms:
    """Refuses broken forms for such views. Stands before whatever reads forms, for their bytes can be had only once."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], arguments: Any, named: Any
    ) -> HttpResponse | None:
        if request.method != "POST" or not getattr(view, "needs_whole_form", False) or not request.body:
            return None
        if request.content_type not in FORMS:
            return JsonResponse(_NO_FORM, status=415)
        if request.content_type == FORMS[0] and not _is_whole(request):
            return JsonResponse(_BROKEN, status=400)
        return None


def _is_whole(request: HttpRequest) -> bool:
    """Whether it is closed, and each of its parts was read."""
    mark = b"\r\n--" + (request.content_params or {}).get("boundary", "").encode("ascii", "replace")
    body = b"\r\n" + request.body
    try:
        read = sum(len(values) for given in (request.POST, request.FILES) for _, values in given.lists())
    except MultiPartParserError:
        return False
    return body.startswith(mark) and body.rstrip(b"\r\n").endswith(mark + b"--") and body.count(mark) == read + 1
