"""A click has a key of its own: the same click sent twice is done once, and answered alike."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import idempotency
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config


def key_of(given: Mapping[str, str]) -> str | None:
    """The click that a form was sent by."""
    return given.get("key", "").strip()[: idempotency.LONGEST_KEY - 10] or None


def once(principal: Principal, *, key: str | None, question: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `act` answers, in one transaction with its key; the first answer to a key and question used before.

    question: what the key is for, such as `cancel/ID`. What `act` raises leaves the key unused.
    """
    with transaction.atomic():
        if key is None:
            return act()
        connection, named = postgres.raw(django_connection), f"console:{key}"
        hashed = idempotency.digest(question.encode())
        days = config().idempotency_days
        used = idempotency.take(connection, tenant_id=principal.tenant_id, keys={named: hashed}, days=days)
        if named in used:
            before = used[named].body
            return before if isinstance(before, dict) and used[named].body_hash == hashed else {"said": "done already"}
        answer = act()
        idempotency.answer(connection, tenant_id=principal.tenant_id, key=named, status=200, body=answer)
        return answer
