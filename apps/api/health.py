"""/livez, /readyz and /metrics of the web process."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest


@require_safe
def livez(request: HttpRequest) -> HttpResponse:
    """The process answers; nothing else is touched."""
    return JsonResponse({"alive": True})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether requests can be served: PostgreSQL answers. Redis may be away; no request needs it."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return JsonResponse({"ready": False, "postgresql": "does not answer"}, status=503)
    return JsonResponse({"ready": True, "postgresql": "answers"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """This process's metrics, in Prometheus' text format."""
    return HttpResponse(generate_latest(), content_type=CONTENT_TYPE_LATEST)
