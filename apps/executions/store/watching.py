"""What the watchdog asks of the ledger."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.rows import (
    Preloaded,
    WorkerRow,
)
from apps.executions.store.statements import bounds_of, by_day, days_of, fetch_ids, named_sql, scheduled_of
from chronoweb.runtime.postgres import int8s, uuids


def workers_alive(connection: psycopg.Connection, *, lock_class: int) -> list[WorkerRow]:
    """Workers that have not ended."""
    return [WorkerRow(*row) for row in connection.execute(named_sql("workers_alive"), {"lock_class": lock_class})]


def mark_worker_lost(connection: psycopg.Connection, *, worker_id: int, heartbeat_seen: float) -> bool:
    """Give a worker up, unless it has sent a heartbeat since `heartbeat_seen`."""
    parameters = {"worker": worker_id, "heartbeat": heartbeat_seen}
    return connection.execute(named_sql("worker_lost"), parameters).fetchone() is not None


def sent(connection: psycopg.Connection, query: str, **parameters: Any) -> list[tuple[bytes, int]]:
    """(id, token) of what one of the queries in sql/reclaim.sql finds in `outstanding` alone."""
    return [(row[0], row[1]) for row in connection.cursor(binary=True).execute(named_sql(query), parameters)]


def sent_by_day(
    connection: psycopg.Connection, query: str, *, limit: int, worker: int | None = None, **parameters: Any
) -> list[tuple[bytes, int]]:
    """The same of a query that looks at the executions, too: at one day of them at a time.

    worker: whose; None: everybody's.
    """
    found: list[tuple[bytes, int]] = []
    for day in days_of(connection, "outstanding_days", worker=worker):
        values = {**parameters, "worker": worker, "limit": limit - len(found)}
        cursor = connection.cursor(binary=True)
        found += [(row[0], row[1]) for row in cursor.execute(named_sql(query, day), values)]
        if len(found) >= limit:
            break
    return found


def reclaim(
    connection: psycopg.Connection,
    taken: Sequence[tuple[bytes, int]],
    *,
    reason: str,
    actor: str,
    only_unclaimed: bool = False,
) -> list[tuple[bytes, int, bytes]]:
    """Take (id, token) away from their workers; returns (id, new status, tenant) of what was taken."""
    found: list[tuple[bytes, int, bytes]] = []
    ordered = sorted(taken)
    for day, positions in ids.by_day([t[0] for t in ordered]):
        group = [ordered[p] for p in positions]
        parameters = {
            "ids": uuids([t[0] for t in group]),
            "scheduled": scheduled_of([t[0] for t in group]),
            "tokens": int8s([t[1] for t in group]),
            "reason": reason,
            "actor": actor,
            "only_unclaimed": only_unclaimed,
        }
        found += connection.cursor(binary=True).execute(named_sql("reclaim", day), parameters).fetchall()
    return found


def remove_orphans(connection: psycopg.Connection, *, seconds: float) -> int:
    """Drop places in `outstanding` whose execution is not active any more; returns how many."""
    removed = 0
    for day in days_of(connection, "outstanding_days", worker=None):
        parameters = {"seconds": seconds, **bounds_of(day)}
        removed += len(fetch_ids(connection, named_sql("outstanding_orphans", day), parameters))
    return removed


def overdue_preloaded(
    connection: psycopg.Connection, *, youngest_seconds: float, oldest_seconds: float, limit: int
) -> list[Preloaded]:
    """What should have been popped by now."""
    parameters = {"youngest": youngest_seconds, "oldest": oldest_seconds, "limit": limit}
    cursor = connection.cursor(binary=True)
    return [Preloaded(i, 0.0, c, t, r) for i, c, t, r in cursor.execute(named_sql("overdue_preloaded"), parameters)]


def walk(
    connection: psycopg.Connection, after: bytes, *, youngest_seconds: float, limit: int
) -> tuple[list[Preloaded], bytes | None]:
    """A stretch of everything due: (what is PRELOADED and overdue, the id to go on from; None at the end)."""
    parameters = {
        "from_scheduled": ids.scheduled_at(after) or ids.EARLIEST,
        "from_id": UUID(bytes=after),
        "youngest": youngest_seconds,
        "limit": limit,
    }
    rows = connection.cursor(binary=True).execute(named_sql("walk"), parameters).fetchall()
    return [Preloaded(i, 0.0, c, t, r) for i, c, t, r, lost in rows if lost], rows[-1][0] if rows else None


def forget_idempotency_keys(connection: psycopg.Connection, *, days: int, limit: int) -> int:
    """Drop keys older than `days`; returns how many."""
    return len(connection.execute(named_sql("forget_idempotency_keys"), {"days": days, "limit": limit}).fetchall())


def wake_preloaded(connection: psycopg.Connection, identities: list[bytes]) -> list[bytes]:
    """Have the preloader add these to the hot tier again."""
    woken: list[bytes] = []
    for day, group in by_day(identities):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group)}
        woken += fetch_ids(connection, named_sql("wake_preloaded", day), parameters)
    return woken


def free_slots_with_waiters(connection: psycopg.Connection, *, limit: int) -> list[str]:
    """Slots whose wake-up was lost."""
    return [row[0] for row in connection.execute(named_sql("free_slots_with_waiters"), {"limit": limit})]


def remove_leaked_slots(connection: psycopg.Connection) -> list[str]:
    """Give back slots of what has ended; returns their keys."""
    keys: list[str] = []
    for day in days_of(connection, "slot_days"):
        keys += [row[0] for row in connection.execute(named_sql("remove_leaked_slots", day), bounds_of(day))]
    return keys


def forget_leaked_progress(connection: psycopg.Connection) -> int:
    """Drop what attempts said of executions that rest for good; returns how many there were."""
    forgotten = 0
    for day in days_of(connection, "progress_days"):
        forgotten += len(connection.execute(named_sql("forget_leaked_progress", day), bounds_of(day)).fetchall())
    return forgotten


def note_finding(connection: psycopg.Connection, *, kind: str, detail: str, count: int) -> None:
    """What was found and mended, for who looks; the same within a minute is counted together."""
    connection.execute(named_sql("finding_note"), {"kind": kind, "detail": detail, "count": count})


def forget_findings(connection: psycopg.Connection, *, days: int) -> None:
    """Drop those that are older."""
    connection.execute(named_sql("findings_forget"), {"days": days})
