"""/api/v1/admin/scheduler: who holds which role, forced failover, freezing. For owners of the platform's own tenant."""

from typing import Any

from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.executions import failover, freezing, roles
from apps.tenants.models import Role
from chronoweb.runtime.errors import InvalidInput


class PlatformView(ApiView):
    """The scheduler serves all tenants: nobody but the platform's own owners may see or move it."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if not principal(request).is_platform:
            raise PermissionDenied("this needs an API key of a tenant of tier SYSTEM")

    def needed_role(self, request: Request) -> Role:
        return Role.VIEWER if request.method in ("GET", "HEAD") else Role.OWNER


class Scheduler(PlatformView):
    @documented("See who holds which role", gives="SchedulerStatus")
    def get(self, request: Request) -> Response:
        return Response(
            {
                "frozen": frozen(freezing.standing(None)),
                "leases": [
                    {
                        "role": lease.role,
                        "holder": str(lease.holder),
                        "epoch": lease.epoch,
                        "acquired_at": lease.acquired_at,
                        "expires_at": lease.expires_at,
                    }
                    for lease in roles.leases()
                ],
            }
        )


class Failover(PlatformView):
    """Depose whoever holds a role; a standby takes over. Answers lease → new epoch."""

    @documented("Depose the holder of a role", takes="FailoverInput", gives={202: "Failover"})
    def post(self, request: Request) -> Response:
        role = body_object(request, fields=("role",)).get("role")
        if not isinstance(role, str):
            raise InvalidInput("/role", role, "must be the name of a role", failover.ROLES)
        return Response({"leases": failover.depose(role, actor=principal(request).actor)}, status=202)


class Freeze(PlatformView):
    """Nothing more is dispatched, of any tenant, until it is thawed. What runs goes on, what waits is kept."""

    @documented("Freeze the scheduler", takes="FreezeInput", gives="Freezing")
    def post(self, request: Request) -> Response:
        reason = body_object(request, fields=("reason",)).get("reason")
        return Response({"frozen": frozen(freezing.freeze(tenant=None, reason=reason, actor=principal(request).actor))})


class Thaw(PlatformView):
    @documented("Thaw the scheduler", takes="Empty", body_optional=True, gives="Freezing", fails=(409,))
    def post(self, request: Request) -> Response:
        body_object(request, fields=())
        freezing.thaw(tenant=None, actor=principal(request).actor)
        return Response({"frozen": None})


def frozen(found: freezing.Frozen | None) -> dict[str, Any] | None:
    """Why, by whom and since when; None: it is not."""
    return None if found is None else {"reason": found.reason, "by": found.by, "since": moment(found.since)}
