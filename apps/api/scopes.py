"""Scopes of API keys: the first word of a path below /api/v1/, such as "tasks". What it may do there is its role's."""

from functools import cache
from typing import Any

from rest_framework.exceptions import PermissionDenied

from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput

_BEFORE = "v1/"
_OPEN = frozenset({"auth", "openapi.json"})


@cache
def areas() -> tuple[str, ...]:
    """Every scope that there is: new routes bring theirs."""
    from apps.api.urls import urlpatterns

    paths = (str(pattern.pattern) for pattern in urlpatterns)
    words = {path.removeprefix(_BEFORE).split("/")[0] for path in paths if path.startswith(_BEFORE)}
    return tuple(sorted(words - _OPEN))


def refuse_out_of_scope(who: Principal, path: str) -> None:
    """Raise PermissionDenied where the key's scopes do not reach."""
    area = path.removeprefix("/api/v1/").split("/")[0]
    if who.scopes and area not in who.scopes:
        raise PermissionDenied(f"this needs the scope {area}; the key's scopes are {', '.join(sorted(who.scopes))}")


def read_scopes(value: Any, who: Principal) -> tuple[str, ...]:
    """Scopes for a new key of `who`, never more than its own. Raises InvalidInput."""
    legal = sorted(who.scopes) or areas()
    if value is None:
        value = sorted(who.scopes)
    if not isinstance(value, list):
        raise InvalidInput("/scopes", value, "must be a list of scopes; empty for all", legal)
    for position, scope in enumerate(value):
        if scope not in legal:
            raise InvalidInput(f"/scopes/{position}", scope, "is not a scope that you may give", legal)
    if not value and who.scopes:
        raise InvalidInput("/scopes", value, "would be all scopes, which you do not have", legal)
    return tuple(dict.fromkeys(value))
