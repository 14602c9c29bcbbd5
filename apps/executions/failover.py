"""Forced failover: the holder of a role is deposed and stands back, so that a standby takes over."""

from django.db import connection, transaction

from apps.executions.ids import SHARDS
from apps.executions.store import named_sql
from apps.tenants import audit
from chronoweb.runtime.errors import InvalidInput

ROLES = ("preloader", "dispatcher", "watchdog")


@transaction.atomic
def depose(role: str, *, actor: str) -> dict[str, int]:
    """Depose whoever holds `role`; returns lease → new epoch, empty when nobody ever held it.

    Nothing is lost by it: what the old holder has under way is settled by the next one's recovery. Raises InvalidInput.
    """
    if role not in ROLES:
        raise InvalidInput("/role", role, "is no role", ROLES)
    names = [f"dispatcher/{shard}" for shard in range(SHARDS)] if role == "dispatcher" else [role]
    with connection.cursor() as cursor:
        cursor.execute(named_sql("lease_depose"), {"roles": names})
        deposed = dict(cursor.fetchall())
    audit.record(
        tenant_id=None, actor=actor, action="failover", target_type="role", target_id=role, detail={"leases": deposed}
    )
    return deposed
