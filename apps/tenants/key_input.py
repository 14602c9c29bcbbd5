"""What a new API key may be called, reach and last, over REST and in the console alike."""

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any

from django.urls import URLResolver, get_resolver

from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInput

NAME_CHARACTERS = 100
_BEFORE = "v1/"
_OPEN = frozenset({"auth", "openapi.json"})


@cache
def areas() -> tuple[str, ...]:
    """Every scope that there is: the first word of a path below /api/v1/. New routes bring theirs."""
    words = {path.removeprefix(_BEFORE).split("/")[0] for path in _api_paths() if path.startswith(_BEFORE)}
    return tuple(sorted(words - _OPEN))


def _api_paths() -> Iterable[str]:
    for entry in get_resolver().url_patterns:
        if isinstance(entry, URLResolver) and str(entry.pattern) == "api/":
            yield from (str(route.pattern) for route in entry.url_patterns)


def read_name(value: Any) -> str:
    """Raises InvalidInput."""
    if not isinstance(value, str) or not value.strip() or len(value) > NAME_CHARACTERS or not value.isprintable():
        raise InvalidInput("/name", value, "is no name", f"1 to {NAME_CHARACTERS} printable characters")
    return value.strip()


def refuse_past(found: datetime | None, *, given: Any, now: datetime) -> None:
    """Raises InvalidInput for an expiry that has been. found: None for never."""
    if found is not None and found <= now:
        raise InvalidInput("/expires_at", given, "is in the past", "a time to come, or null for never")


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
