"""Content-Security-Policy: nothing but this origin's own files; no inline script or style in the console."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER = "Content-Security-Policy"
_COMMON = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"


def console_policy(host: str) -> str:
    """The policy of everything but the admin. Sockets are named, since not every browser takes 'self' for ws."""
    return f"default-src 'self'; img-src 'self' data:; connect-src 'self' ws://{host} wss://{host}; {_COMMON}"


def admin_policy() -> str:
    """The admin's theme runs on Alpine, whose expressions need eval, and has inline script and style."""
    return (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        f"img-src 'self' data:; {_COMMON}"
    )


class ContentSecurityPolicy:
    """Adds the header to answers that carry none of their own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if HEADER not in response:
            is_admin = request.path.startswith("/admin/")
            response[HEADER] = admin_policy() if is_admin else console_policy(request.get_host())
        return response
