"""/api/v1/workers: who may run the tenant's work, with labels and slots by class; draining one."""

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.executions import draining, fleet
from apps.tenants.models import Role


class Workers(ApiView):
    """Living ones, the newest first; at most 1,000.

    Machines and load are shown to the platform, and of a tenant's own workers to it.
    """

    @documented("List workers", gives="Workers")
    def get(self, request: Request) -> Response:
        asking = principal(request)
        found = fleet.workers_for(asking)
        return Response({"items": [representations.worker(row, whole=fleet.is_whole(asking, row)) for row in found]})


class DrainWorker(ApiView):
    """It takes nothing more, what ends within its grace ends, the rest goes on elsewhere, uncounted, and it leaves.

    Owners of a tenant drain workers that serve it alone, the platform's owners every one. Asking again does no harm.
    """

    def needed_role(self, request: Request) -> Role:
        return Role.OWNER

    @documented("Drain a worker", takes="Empty", body_optional=True, gives={202: "Worker"}, fails=(409,))
    def post(self, request: Request, worker_id: int) -> Response:
        body_object(request, fields=())
        asking = principal(request)
        row = draining.drain(principal=asking, worker_id=worker_id)
        return Response(representations.worker(row, whole=fleet.is_whole(asking, row)), status=202)
