"""/api/v1/notification-channels: where a tenant wants to be told. Secret parts go in and never come out."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.api.secrets import given_privately, keyed
from apps.definitions import secret_use
from apps.tenants import channels
from apps.tenants.channel_kinds import secret_fields
from apps.tenants.models import NotificationChannel


class Channels(ApiView):
    """All of them, by kind and name: a tenant has at most channels.MOST."""

    @documented("List channels", gives="Channels")
    def get(self, request: Request) -> Response:
        rows = channels.channels(principal(request)).order_by("kind", "name")
        return Response({"items": [_shown(row) for row in rows], "next_cursor": None})

    @documented("Make a channel", takes="ChannelInput", gives={201: "Channel"}, headers=("Location",), fails=(409,))
    def post(self, request: Request) -> Response:
        body = given_privately(request, ("kind", "name", "config"))
        row = channels.create(
            principal=principal(request), kind=body.get("kind"), name=body.get("name"), given=body.get("config")
        )
        location = {"Location": f"/api/v1/notification-channels/{row.id}"}
        return Response(_shown(row), status=201, headers=location)

    def question(self, request: Request) -> Any:
        """What is kept of the request must not let anybody guess what is sealed."""
        body = given_privately(request, ("kind", "name", "config"))
        return {**body, "config": keyed(body.get("config"))}


class OneChannel(ApiView):
    @documented("Read a channel", gives="Channel")
    def get(self, request: Request, channel_id: UUID) -> Response:
        return Response(_shown(channels.channel(principal(request), channel_id)))

    @documented("Configure a channel anew", takes="ChannelConfig", gives="Channel")
    def put(self, request: Request, channel_id: UUID) -> Response:
        """Another configuration; secret parts that are not given stay as they are."""
        body = given_privately(request, ("config",))
        row = channels.replace(principal=principal(request), channel_id=channel_id, given=body.get("config"))
        return Response(_shown(row))

    @documented("Forget a channel that nothing names", gives={204: None}, fails=(409,))
    def delete(self, request: Request, channel_id: UUID) -> Response:
        secret_use.delete_channel(principal=principal(request), channel_id=channel_id)
        return Response(status=204)


def _shown(row: NotificationChannel) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "kind": row.kind,
        "name": row.name,
        "uri": row.uri,
        "config": row.config,
        "secret_fields": secret_fields(row.kind),
        "created_at": moment(row.created_at),
        "created_by": row.created_by,
        "updated_at": moment(row.updated_at),
        "updated_by": row.updated_by,
    }
