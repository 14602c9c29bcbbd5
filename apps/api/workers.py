"""/api/v1/workers: who may run the tenant's work, with labels and slots by class."""

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import representations
from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.executions import fleet


class Workers(ApiView):
    """Living ones, the newest first; at most 1,000. Machines and load are shown to the platform alone."""

    @documented("List workers", gives="Workers")
    def get(self, request: Request) -> Response:
        asking = principal(request)
        found = fleet.workers_for(asking)
        return Response({"items": [representations.worker(row, whole=asking.is_platform) for row in found]})
