"""/api/v1/circuits: what keeps failing and is left in peace for a while."""

from django.db import connection as django_connection
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import queries, representations
from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.openapi.declare import documented
from apps.api.openapi.shapes import one_of
from apps.executions import circuit_services, person_store
from apps.executions.models import CircuitBreaker
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres

MOST = 1000
STATES = ("open", "slow_start", "closed")


class Circuits(ApiView):
    """Those that have failed lately, the last changed first; at most 1,000."""

    query_parameters = ("state",)

    @documented("List circuits", gives="Circuits", parameters={"state": one_of(STATES)})
    def get(self, request: Request) -> Response:
        state = queries.text(request, "state")
        if state is not None and state not in STATES:
            raise queries.query_error("state", state, "is no state of a circuit", STATES)
        rows = scoped(CircuitBreaker.objects.all(), principal(request)).order_by("-changed_at")[:MOST]
        now = person_store.database_now(postgres.raw(django_connection))
        items = [representations.circuit(row, now=now) for row in rows]
        return Response({"items": [item for item in items if state in (None, item["state"])]})


class ResetCircuit(ApiView):
    """Close it and forget its failures; what waits goes on."""

    @documented("Close a circuit", takes="Empty", body_optional=True, gives="Circuit")
    def post(self, request: Request, circuit_id: int) -> Response:
        body_object(request, fields=())
        row = circuit_services.reset(principal=principal(request), circuit_id=circuit_id)
        now = person_store.database_now(postgres.raw(django_connection))
        return Response(representations.circuit(row, now=now))
