"""The audit log's one way in. Where an act came from is noted by itself (whence.py)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection
from psycopg.types.json import Jsonb

from apps.tenants import whence
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK

_INSERT = """
INSERT INTO audit_log (tenant_id, at, actor, action, target_type, target_id, detail, via, address)
SELECT %(tenant)s::uuid, %(at)s, %(actor)s, %(action)s, %(type)s, target, %(detail)s, %(via)s, %(address)s
FROM unnest(%(ids)s::text[]) AS target
"""


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
    what = {"tenant": tenant_id, "actor": actor, "action": action, "type": target_type}
    how = {"detail": Jsonb(detail or {}), "at": SYSTEM_CLOCK.now(), **whence.current()._asdict()}
    ids = [str(target_id) for target_id in target_ids]
    postgres.reads(connection).execute(_INSERT, {**what, **how, "ids": ids}, prepare=True)
