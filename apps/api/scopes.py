"""Scopes of API keys: the first word of a path below /api/v1/, such as "tasks". What it may do there is its role's."""

from rest_framework.exceptions import PermissionDenied

from apps.tenants.principal import Principal


def refuse_out_of_scope(who: Principal, path: str) -> None:
    """Raise PermissionDenied where the key's scopes do not reach."""
    area = path.removeprefix("/api/v1/").split("/")[0]
    if who.scopes and area not in who.scopes:
        raise PermissionDenied(f"this needs the scope {area}; the key's scopes are {', '.join(sorted(who.scopes))}")
