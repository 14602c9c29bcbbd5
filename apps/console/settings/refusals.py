"""Acts of the settings: by POST, once a click, in one transaction; what is refused is said at its field."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from apps.console.clicks import is_used, key_of, question_of
from apps.console.posts import posted_by, refuse_unknown
from apps.definitions.told import meant
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs, NotAllowed

Act = Callable[..., dict[str, Any]]
_VALUE_CHARACTERS = 80
AGAIN = {"said": "done already", "reload": True}


def acted(
    needed: Role, *fields: str, several: tuple[str, ...] = ()
) -> Callable[[Act], Callable[..., HttpResponseBase]]:
    """For those with this role. The act answers what the page is told; its audit entry is in the same transaction.

    fields: what its form may hold. several: those of them that may come more than once.
    """

    def decorate(act: Act) -> Callable[..., HttpResponseBase]:
        @posted_by(needed)
        @wraps(act)
        def view(request: HttpRequest, principal: Principal, **arguments: Any) -> JsonResponse:
            try:
                refuse_unknown(request, {*fields, *several, "note"}, several)
                with transaction.atomic():
                    if is_used(principal, key=key_of(request.POST), question=question_of(request)):
                        return JsonResponse(AGAIN)
                    return JsonResponse(act(request, principal, **arguments))
            except (InvalidInput, InvalidInputs) as wrong:
                return JsonResponse({"problem": "Nothing was done.", "errors": told(wrong)}, status=422)
            except Conflict as other:
                return JsonResponse(_conflict(principal, other), status=409)
            except NotAllowed as refused:
                return JsonResponse({"problem": str(refused)}, status=403)

        return view

    return decorate


def told(error: InvalidInput | InvalidInputs) -> list[dict[str, str]]:
    """Each with its field, its value (unless that may be a secret: then it has none) and what would be right."""
    found = error.errors if isinstance(error, InvalidInputs) else [error]
    return [{"pointer": one.pointer, "problem": _words(one)} for one in found]


def _words(error: InvalidInput) -> str:
    value = "" if error.value in (None, "") else f"“{str(error.value)[:_VALUE_CHARACTERS]}” "
    if error.legal is None:
        return f"{value}{error.problem}"
    return f"{value}{error.problem}; {meant(error.legal)}"


def _conflict(principal: Principal, error: Conflict) -> dict[str, Any]:
    """used_by: name and address of what must be changed first."""
    pointer = error.extra.get("pointer")
    if pointer:
        return {"problem": "Nothing was done.", "errors": [{"pointer": str(pointer), "problem": str(error)}]}
    return {"problem": str(error), "used_by": users(principal, error.extra.get("used_by", ()))}


def users(principal: Principal, found: Any) -> list[dict[str, str]]:
    """What refers to something, as links."""
    return [{"name": f"{one['type']} {one['name']}", "address": _address(principal, one)} for one in found]


def _address(principal: Principal, user: dict[str, str]) -> str:
    argument = "task_id" if user["type"] == "task" else "dag_id"
    return reverse(f"console:{user['type']}", kwargs={"slug": principal.tenant_slug, argument: user["id"]})
