"""/api/v1/secrets: values go in and never come out. Names, where they are kept, and who wrote them when, are shown."""

import hashlib
import hmac
from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.base import ApiView, given
from apps.api.openapi.declare import documented
from apps.api.representations import moment
from apps.definitions import json_values, secret_use
from apps.tenants import secret_store
from apps.tenants.models import Secret
from apps.tenants.scope import scoped_get
from apps.tenants.secret_places import FIELDS
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

_PLACED = ("store", *dict.fromkeys(field for fields in FIELDS.values() for field in fields))


class Secrets(ApiView):
    """All of them, by name: a tenant has at most secret_store.MOST."""

    @documented("List secrets", gives="Secrets")
    def get(self, request: Request) -> Response:
        rows = secret_store.named(principal(request)).order_by("name")
        return Response({"items": [_shown(row) for row in rows], "next_cursor": None})

    @documented("Keep a secret", takes="SecretInput", gives={201: "Secret"}, headers=("Location",), fails=(409,))
    def post(self, request: Request) -> Response:
        body = given_privately(request, ("name", *_PLACED))
        rest = {field: value for field, value in body.items() if field != "name"}
        row = secret_store.create(principal=principal(request), name=body.get("name"), given=rest)
        return Response(_shown(row), status=201, headers={"Location": f"/api/v1/secrets/{row.name}"})

    def question(self, request: Request) -> Any:
        """What is kept of the request must not let anybody guess the value."""
        body = given_privately(request, ("name", *_PLACED))
        return {**body, "value": keyed(body.get("value"))}


class OneSecret(ApiView):
    @documented("Read about a secret", gives="Secret")
    def get(self, request: Request, name: str) -> Response:
        who = principal(request)
        return Response(_shown(scoped_get(secret_store.named(who), who, what="secret", name=name)))

    @documented("Replace a secret's value, or its place", takes="SecretValue", gives="Secret")
    def put(self, request: Request, name: str) -> Response:
        body = given_privately(request, _PLACED)
        return Response(_shown(secret_store.replace(principal=principal(request), name=name, given=body)))

    @documented("Forget a secret that nothing refers to", gives={204: None}, fails=(409,))
    def delete(self, request: Request, name: str) -> Response:
        secret_use.delete_secret(principal=principal(request), name=name)
        return Response(status=204)


def given_privately(request: Request, fields: tuple[str, ...]) -> dict[str, Any]:
    """The body, which must be an object of these fields alone. Errors never repeat a value: it may be the secret."""
    try:
        data = given(request)
    except InvalidInputs as found:
        raise InvalidInputs([InvalidInput(e.pointer, None, e.problem, e.legal) for e in found.errors]) from None
    legal = ", ".join(fields)
    if not isinstance(data, dict):
        raise InvalidInput("", None, "must be a JSON object", legal)
    unknown = [n for n in data if n not in fields]
    if unknown:
        raise InvalidInputs(
            [InvalidInput(f"/{json_values.escape(n)}", None, "is not a field here", legal) for n in unknown]
        )
    return data


def keyed(value: Any) -> str:
    """What tells values apart and lets nobody guess them."""
    return hmac.digest(settings.SECRET_KEY.encode(), json_values.canonical(value), hashlib.sha256).hex()


def _shown(row: Secret) -> dict[str, Any]:
    return {
        "name": row.name,
        "store": row.store,
        **(row.place or {}),
        "created_at": moment(row.created_at),
        "created_by": row.created_by,
        "updated_at": moment(row.updated_at),
        "updated_by": row.updated_by,
    }
