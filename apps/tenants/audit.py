"""The audit log's one way in. Where an act came from is noted by itself (whence.py)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from apps.tenants import whence
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
    record_all(
        tenant_id=tenant_id,
        actor=actor,
        action=action,
        target_type=target_type,
        target_ids=[target_id],
        detail=detail,
    )


def record_all(
    *,
    tenant_id: UUID | None,
    actor: str,
    action: str,
    target_type: str,
    target_ids: Sequence[object],
    detail: dict[str, Any] | None = None,
) -> None:
    """The same act on several things: an entry for each, in one statement."""
    from_where = whence.current()
    AuditEntry.objects.bulk_create(
        AuditEntry(
            tenant_id=tenant_id,
            actor=actor,
            action=action,
            target_type=target_type,
            target_id=str(target_id),
            detail=detail or {},
            via=from_where.via,
            address=from_where.address,
        )
        for target_id in target_ids
    )
