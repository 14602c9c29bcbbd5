"""What tenants use of their scheduling quotas: counted in memory, added in batches, judged where it is added.

Who dispatches counts executions, who ends attempts their run time, who keeps logs their bytes. A process that dies
forgets what it has not added yet: about a second.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg
from prometheus_client import Counter

from apps.executions.quotas import Use
from apps.executions.store import named_sql
from chronoweb.runtime.postgres import int2s, int8s, uuids

REACHED = Counter("chronoweb_quota_reached_total", "Tenants whose work began to wait because a quota was used up")
_ADD_SECONDS = 1.0


class Used(NamedTuple):
    """A tenant's sum in the window that is open now. most: what it may use; None: any."""

    tenant_id: bytes
    kind: int
    used: int
    most: int | None


class Quota(NamedTuple):
    """One quota of a tenant as people look at it. used and most in the unit of `tenant_usage`.

    until: when its window ends; None: it has no window. told_at: when its owners were told that it is used up.
    """

    tenant_id: UUID
    use: Use
    used: int
    most: int | None
    since: datetime
    until: datetime | None
    told_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.most is not None and self.used >= self.most


@dataclass
class UsageMeter:
    """Sums of one thread. Instants are monotonic seconds."""

    _sums: dict[tuple[bytes, int], int] = field(default_factory=dict)
    _added_at: float = 0.0

    def note(self, tenant_id: bytes, use: Use, amount: int) -> None:
        key = tenant_id, int(use)
        self._sums[key] = self._sums.get(key, 0) + amount

    def dispatched(self, tenant_ids: Iterable[bytes]) -> None:
        """One execution each."""
        for tenant_id in tenant_ids:
            self.note(tenant_id, Use.EXECUTIONS, 1)

    def ran(self, tenant_id: bytes, started_us: int | None, finished_us: int) -> None:
        """An attempt has ended."""
        if started_us is not None and finished_us > started_us:
            self.note(tenant_id, Use.COMPUTE, finished_us - started_us)

    @property
    def is_empty(self) -> bool:
        return not self._sums

    def is_due(self, now: float) -> bool:
        """Whether there is something to add, and it is time to."""
        return bool(self._sums) and now - self._added_at >= _ADD_SECONDS

    def flush(self, connection: psycopg.Connection, *, now: float = 0.0) -> list[Used]:
        """Add what was noted; the new sums. What a broken connection has not taken is added the next time."""
        if not self._sums:
            return []
        found = add(connection, self._sums)
        self._sums.clear()
        self._added_at = now
        return found


def add(connection: psycopg.Connection, sums: Mapping[tuple[bytes, int], int]) -> list[Used]:
    """Add to (tenant, kind); who has used up a quota by it is held from now on. One statement, mostly."""
    parameters = {
        "tenants": uuids([tenant for tenant, _ in sums]),
        "kinds": int2s([kind for _, kind in sums]),
        "amounts": int8s(list(sums.values())),
    }
    cursor = connection.cursor(binary=True)
    found = [Used(*row) for row in cursor.execute(named_sql("usage_add"), parameters)]
    over = {one.tenant_id for one in found if one.most is not None and one.used >= one.most}
    if over:
        judge(connection, [UUID(bytes=tenant) for tenant in over])
    return found


def add_logs(connection: psycopg.Connection, day: int, sums: Mapping[bytes, int]) -> None:
    """Bytes that were kept of the logs of a day. One transaction."""
    with connection.transaction():
        parameters = {"tenants": uuids(list(sums)), "amounts": int8s(list(sums.values())), "day": day}
        connection.execute(named_sql("usage_add_logs"), parameters)
        add(connection, {(tenant, int(Use.LOGS)): amount for tenant, amount in sums.items()})


def drop_logs(connection: psycopg.Connection, day: int) -> None:
    """The logs of the days before `day` are gone."""
    connection.execute(named_sql("usage_drop_logs"), {"day": day})


def judge(connection: psycopg.Connection, tenants: list[UUID]) -> list[UUID]:
    """Hold those of these tenants that have used up a quota; those that were not held before."""
    rows = connection.execute(named_sql("quota_judge"), {"tenants": tenants}).fetchall()
    REACHED.inc(len(rows))
    return [row[0] for row in rows]


def clear(connection: psycopg.Connection) -> list[UUID]:
    """Let tenants go on whose window has moved, or whose quota was raised; wake the preloader then."""
    return [row[0] for row in connection.execute(named_sql("quota_clear"))]


def of_hour(connection: psycopg.Connection) -> dict[bytes, int]:
    """Tenant → executions dispatched in this hour, of those with a quota."""
    return dict(connection.cursor(binary=True).execute(named_sql("usage_of_hour")).fetchall())


def quotas_of(connection: psycopg.Connection, tenant_ids: Iterable[UUID]) -> list[Quota]:
    """Every quota of these tenants."""
    rows: Iterable[Any] = connection.execute(named_sql("usage_of"), {"tenants": list(tenant_ids)})
    return [
        Quota(tenant, Use(kind), used, most, since, until, told)
        for tenant, kind, used, most, since, until, told in rows
    ]


def forget(connection: psycopg.Connection) -> int:
    """Drop windows that are long closed; returns how many."""
    return connection.execute(named_sql("usage_forget")).rowcount
