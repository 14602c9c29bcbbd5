"""What answers where no view does: problem details below /api/, pages elsewhere."""

import sys

from django.http import HttpRequest, HttpResponse
from django.views import defaults

from apps.api import problems
from apps.console import errors


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return problems.bad_request(request, exception) if _is_api(request) else errors.error_page(request, 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return defaults.permission_denied(request, exception)
    return errors.error_page(request, 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return defaults.page_not_found(request, exception)
    return errors.error_page(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    """Django calls it while the error is handled; one of a service that is away ends by itself."""
    if _is_api(request):
        return problems.server_error(request)
    error = sys.exc_info()[1]
    return errors.passing(request, error) if errors.is_passing(error) else errors.error_page(request, 500)
