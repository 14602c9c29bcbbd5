"""A click has a key of its own: the same click sent twice is done once, and answered alike."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from django.db import connection as django_connection
from django.db import transaction
from django.http import HttpRequest
from django.utils.crypto import salted_hmac

from apps.executions import idempotency
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import Conflict

_OF_THE_CLICK = ("csrfmiddlewaretoken", "key")


class AnotherForm(Conflict):
    """The click was heard before, with a form that read otherwise: its answer is none to this one."""

    def __init__(self) -> None:
        super().__init__(
            "This was done already, as the form read when it was sent first. What has been changed in it since was "
            "not done. Load the page again and look."
        )


def key_of(given: Mapping[str, str]) -> str | None:
    """The click that a form was sent by."""
    return given.get("key", "").strip()[: idempotency.LONGEST_KEY - 10] or None


def question_of(request: HttpRequest) -> str:
    """What a click is for: the address and all that stands in the form. Nobody can guess a secret by it."""
    given = [[name, values] for name, values in sorted(request.POST.lists()) if name not in _OF_THE_CLICK]
    form = salted_hmac("chronoweb.console.clicks", json.dumps(given), algorithm="sha256").hexdigest()
    return f"{request.get_full_path()} {form}"


def once(principal: Principal, *, key: str | None, question: str, act: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `act` answers, in one transaction with its key; the first answer to a key and question used before.

    question: what the key is for (`question_of`). What `act` raises leaves the key unused. Raises AnotherForm.
    """
    with transaction.atomic():
        if key is None:
            return act()
        used = _take(principal, key, question)
        if used is not None:
            return used.body if isinstance(used.body, dict) else {"said": "done already"}
        answer = act()
        connection = postgres.raw(django_connection)
        idempotency.answer(connection, tenant_id=principal.tenant_id, key=_named(key), status=200, body=answer)
        return answer


def unheard(principal: Principal, *, key: str | None) -> None:
    """Give a key free that `once` has taken, of something that then did not come about."""
    if key is not None:
        idempotency.forget(postgres.raw(django_connection), tenant_id=principal.tenant_id, key=_named(key))


def is_used(principal: Principal, *, key: str | None, question: str) -> bool:
    """Whether this click has been heard before. In the transaction of what it is for. Raises AnotherForm."""
    return key is not None and _take(principal, key, question, answers=[(202, {})]) is not None


def _take(principal: Principal, key: str, question: str, answers: Any = None) -> idempotency.Used | None:
    asked = idempotency.digest(question.encode("utf-8", "surrogatepass"))
    used = idempotency.take(
        postgres.raw(django_connection),
        tenant_id=principal.tenant_id,
        keys={_named(key): asked},
        answers=answers,
        days=config().idempotency_days,
    ).get(_named(key))
    if used is not None and used.body_hash != asked:
        raise AnotherForm
    return used


def _named(key: str) -> str:
    return f"console:{key}"
