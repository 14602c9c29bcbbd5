"""/api/v1/api-keys: for owners. The text of a key is in the answer that made it, and nowhere else."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, body_object
from apps.api.lists import ListView
from apps.api.openapi.declare import declared, documented
from apps.api.pagination import Ordering
from apps.api.representations import moment
from apps.definitions.schedule_input import Reader
from apps.tenants import keys
from apps.tenants.key_input import read_name, read_scopes, refuse_past
from apps.tenants.members import read_role
from apps.tenants.models import ApiKey, Role
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime.clock import SYSTEM_CLOCK


class OwnersView(ApiView):
    """What decides who may do what."""

    def needed_role(self, request: Request) -> Role:
        return Role.OWNER


class ApiKeys(OwnersView, ListView):
    """Revoked ones too."""

    secret_answer = True
    ordering = Ordering({"created_at": "id", "name": "name"}, default="-created_at")
    declares = {"get": declared("List API keys", gives="ApiKeyPage")}

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        return scoped(ApiKey.objects.all(), principal(request))

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        return [_shown(row) for row in rows]

    @documented("Make an API key", takes="ApiKeyInput", gives={201: "NewApiKey"}, headers=("Location", "Cache-Control"))
    def post(self, request: Request) -> Response:
        """The key's text is in this answer and nowhere else: an Idempotency-Key keeps it from being made twice, and who
        asks again is told (409) which one was made.
        """
        body = body_object(request, fields=("name", "role", "expires_at", "scopes"))
        who = principal(request)
        made = keys.make_over_rest(
            principal=who,
            name=read_name(body.get("name")),
            role=read_role(body.get("role", Role.OPERATOR.value)),
            expires_at=_expiry(body),
            scopes=read_scopes(body.get("scopes"), who),
        )
        headers = {"Location": f"/api/v1/api-keys/{made.key.id}", "Cache-Control": "no-store"}
        return Response({**_shown(made.key), "key": made.text}, status=201, headers=headers)


class OneApiKey(OwnersView):
    @documented("Read an API key", gives="ApiKey")
    def get(self, request: Request, key_id: UUID) -> Response:
        return Response(_shown(scoped_get(ApiKey.objects.all(), principal(request), what="API key", id=key_id)))

    @documented("Revoke an API key", gives={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:
        """Revoke it; the row stays, since logs name the key."""
        keys.revoke(principal=principal(request), key_id=key_id, now=SYSTEM_CLOCK.now())
        return Response(status=204)


def _expiry(body: dict[str, Any]) -> datetime | None:
    reader = Reader(body)
    found = reader.moment("expires_at", "UTC", last_pass=False)
    if reader.errors:
        raise reader.errors[0]
    refuse_past(found, given=body.get("expires_at"), now=SYSTEM_CLOCK.now())
    return found


def _shown(row: ApiKey) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "name": row.name,
        "prefix": row.prefix,
        "role": row.role,
        "scopes": row.scopes,
        "created_at": moment(row.created_at),
        "created_by": row.created_by or None,
        "expires_at": moment(row.expires_at),
        "revoked_at": moment(row.revoked_at),
        "last_used_at": moment(row.last_used_at),
    }
