"""The audit log's one way in."""

from typing import Any
from uuid import UUID

from apps.tenants.models import AuditEntry


def record(
    *,
    tenant_id: UUID | None,
    actor: str,
    action: str,
    target_type: str,
    target_id: object,
    detail: dict[str, Any] | None = None,
) -> None:
    """Write one entry, in the transaction of what it tells of. `detail` must hold no secret."""
    AuditEntry.objects.create(
        tenant_id=tenant_id,
        actor=actor,
        action=action,
        target_type=target_type,
        target_id=str(target_id),
        detail=detail or {},
    )
