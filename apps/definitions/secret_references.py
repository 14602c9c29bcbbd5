"""Whether the secrets and channels that a definition names exist: asked then, so that no attempt has to find out."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from apps.definitions.notifications import unknown_channels
from apps.executions.secret_references import references
from apps.tenants import secret_store
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


def check_names(document: Mapping[str, Any], tenant_id: UUID) -> None:
    """Raise InvalidInputs, naming each secret and channel that the tenant does not have.

    document: those fields of a task that are new, and have passed the checks.
    """
    errors = unknown_channels(document.get("notifications") or {}, tenant_id)
    if "handler" in document:
        errors += missing_secrets({"/handler": document["handler"]}, tenant_id)
    if errors:
        raise InvalidInputs(errors)


def missing_secrets(handlers: Mapping[str, Mapping[str, Any]], tenant_id: UUID) -> list[InvalidInput]:
    """The same for handlers by their pointers, asked at once."""
    found = [(pointer, reference) for pointer, handler in handlers.items() for reference in references(handler)]
    if not found:
        return []
    missing = secret_store.unknown(tenant_id, {reference.name for _, reference in found})
    return [
        InvalidInput(
            f"{pointer}{reference.pointer}",
            reference.name,
            f"names no secret of this tenant: {reference.name}",
            "a name that GET /api/v1/secrets lists; POST it there first",
        )
        for pointer, reference in found
        if reference.name in missing
    ]
