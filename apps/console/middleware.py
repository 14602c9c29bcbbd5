"""What every answer says to browsers: nothing but this origin's own files, no frames, no sensors, no inline script."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

HEADER = "Content-Security-Policy"
_COMMON = "base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
_SENSORS = ("accelerometer", "camera", "geolocation", "gyroscope", "magnetometer", "microphone", "payment", "usb")
PERMISSIONS = ", ".join(f"{name}=()" for name in (*_SENSORS, "interest-cohort", "browsing-topics"))
API_DOCS = "/api/docs"
NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Of what is no page."""


def console_policy(host: str) -> str:
    """The policy of pages. Sockets are named, since not every browser takes 'self' for ws."""
    return f"default-src 'self'; img-src 'self' data:; connect-src 'self' ws://{host} wss://{host}; {_COMMON}"


def admin_policy() -> str:
    """The admin's theme has inline styles. Its scripts are files, and none of them needs eval (static/unfold)."""
    return f"default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; {_COMMON}"


def policy_of(request: HttpRequest) -> str:
    path = request.path
    if path.startswith("/admin/"):
        return admin_policy()
    if path.startswith("/api/") and not path.startswith(API_DOCS):
        return NOTHING
    return console_policy(request.get_host())


class SecurityHeaders:
    """Adds what answers do not carry of their own. Those of Django's SecurityMiddleware stand in the settings."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        if HEADER not in response:
            response[HEADER] = policy_of(request)
        response.setdefault("Permissions-Policy", PERMISSIONS)
        response.setdefault("Cache-Control", "private, no-store")  # but files, whose server says how long they keep
        response.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response
