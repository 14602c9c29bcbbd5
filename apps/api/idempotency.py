"""The header Idempotency-Key: a POST that is sent again gets the answer of the first, and happens once.

ApiView does this for every POST of a tenant; views say only what is special to them.
"""

from collections.abc import Callable
from typing import Any

from django.db import connection as django_connection
from django.db import transaction
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import principal
from apps.api.problems import header_error
from apps.definitions import json_values
from apps.executions import idempotency
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import Conflict

HEADER = "Idempotency-Key"
REPLAYED = "Idempotent-Replayed"
_KEPT_HEADERS = ("Location", "ETag")
NOT_KEPT = "not kept"
"""Stands for a body that is not kept; no answer is a text."""


def once(request: Request, act: Callable[[], Response], *, question: Any, secret: bool = False) -> Response:
    """Run `act` in one transaction with the request's key, or repeat the answer that is stored for it.

    question: what tells requests apart. Only an answer of success is stored; what failed wrote nothing and may be tried
    again. secret: the answer must not be kept, so it is not repeated either: who asks again is told what was made.
    Raises InvalidInput (422) when the key was used for another request, Conflict (409) while the first one is still at
    work and for what is secret.
    """
    key = request.headers.get(HEADER)
    if key is None:
        return act()
    if not 1 <= len(key) <= idempotency.LONGEST_KEY or not key.isprintable():
        legal = f"1 to {idempotency.LONGEST_KEY} printable characters"
        raise header_error(HEADER, key, "is not a key", legal)
    content = json_values.canonical(question)
    asked = idempotency.digest((request.method or "").encode(), request.path.encode(), content)
    stored = f"request:{key}"
    tenant_id = principal(request).tenant_id
    with transaction.atomic():
        connection = postgres.raw(django_connection)
        used = idempotency.take(
            connection, tenant_id=tenant_id, keys={stored: asked}, days=config().idempotency_days
        ).get(stored)
        if used is not None:
            return _repeat(used, asked, key)
        response = act()
        kept = {name: response[name] for name in _KEPT_HEADERS if response.has_header(name)}
        answer = {"headers": kept, "body": NOT_KEPT if secret else response.data}
        idempotency.answer(connection, tenant_id=tenant_id, key=stored, status=response.status_code, body=answer)
    return response


def _repeat(used: idempotency.Used, question: str, key: str) -> Response:
    if used.body_hash != question:
        legal = "a new key for a new request"
        raise header_error(HEADER, key, "was used for another request (method, path or body differ)", legal)
    if used.body["body"] == NOT_KEPT:
        made = used.body["headers"].get("Location")
        raise Conflict(
            "this was done already, and its answer held a secret, which is shown once and not kept"
            + (f"; what it made is at {made}: delete that and ask again with a new key" if made else ""),
            location=made,
        )
    return Response(used.body["body"], status=used.status, headers={**used.body["headers"], REPLAYED: "true"})
