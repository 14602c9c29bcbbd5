"""Who is told how work ended: `notifications`, a list of the tenant's channels for each event. Reading it is pure."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from apps.definitions import json_values
from apps.tenants import channels
from apps.tenants.channel_kinds import KINDS, NAME
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

EVENTS = ("on_failure", "on_success", "on_dlq")
"""An attempt failed for good or the run did; it succeeded; it became a dead letter."""
CHANNELS_AT_MOST = 20
_LEGAL = f"KIND://NAME with one of the kinds {', '.join(KINDS)}, such as slack://data-engineering"


def read_notifications(data: Any) -> dict[str, list[str]]:
    """Event → channels, each once; events that tell nobody are left out. Raises InvalidInputs, pointers relative."""
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object", ", ".join(EVENTS))])
    errors = [
        InvalidInput(f"/{json_values.escape(str(name))}", data[name], "is no event", ", ".join(EVENTS))
        for name in data
        if name not in EVENTS
    ]
    found: dict[str, list[str]] = {}
    for event in EVENTS:
        named = data.get(event)
        if named is None:
            continue
        if not isinstance(named, list) or len(named) > CHANNELS_AT_MOST:
            legal = f"a list of at most {CHANNELS_AT_MOST} channels"
            errors.append(InvalidInput(f"/{event}", named, "must be a list of channels", legal))
            continue
        errors += [
            InvalidInput(f"/{event}/{position}", uri, "names no channel by its form", _LEGAL)
            for position, uri in enumerate(named)
            if not _is_uri(uri)
        ]
        if named:
            found[event] = named
    if errors:
        raise InvalidInputs(errors)
    return {event: list(dict.fromkeys(named)) for event, named in found.items()}


def unknown_channels(notifications: Mapping[str, list[str]], tenant_id: UUID) -> list[InvalidInput]:
    """What the tenant has no channel of, by pointers of the document. Those that there are stay until the commit."""
    wanted = {uri for named in notifications.values() for uri in named}
    if not wanted:
        return []
    missing = wanted - channels.held(tenant_id, wanted)
    if not missing:
        return []
    legal = channels.uris(tenant_id) or "none yet: POST one to /api/v1/notification-channels"
    return [
        InvalidInput(f"/notifications/{event}/{position}", uri, f"names no channel of this tenant: {uri}", legal)
        for event, named in notifications.items()
        for position, uri in enumerate(named)
        if uri in missing
    ]


def _is_uri(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    kind, separator, name = value.partition("://")
    return bool(separator) and kind in KINDS and NAME.fullmatch(name) is not None
