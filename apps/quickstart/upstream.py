"""What the demo's `moody-upstream` calls: away for two minutes in ten, so that its circuit opens and heals."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from chronoweb.runtime.clock import SYSTEM_CLOCK

PERIOD_MINUTES = 10
AWAY_MINUTES = 2


@csrf_exempt
def upstream(request: HttpRequest) -> HttpResponse:
    """503 in the first minutes of each ten of the hour."""
    if SYSTEM_CLOCK.now().minute % PERIOD_MINUTES < AWAY_MINUTES:
        return HttpResponse("away, back in a moment", status=503, content_type="text/plain")
    return HttpResponse("here", content_type="text/plain")
