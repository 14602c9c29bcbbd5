"""What the preloader asks of the ledger."""

from collections.abc import Mapping, Sequence

import psycopg

from apps.executions import states
from apps.executions.rows import (
    NewExecution,
    Preloaded,
    Queue,
)
from apps.executions.store.statements import by_day, encoded, fetch, fetch_ids, named_sql, scheduled_of
from chronoweb.runtime.postgres import instants, int2s, int8s, texts, uuids


def insert(connection: psycopg.Connection, rows: Sequence[NewExecution]) -> set[bytes]:
    """Add executions; returns the ids that were new. A row whose (tenant, key, scheduled_at) exists stays as it is.

    Raises psycopg.errors.CheckViolation when a day has no partition.
    """
    if not rows:
        return set()
    parameters = {
        "ids": uuids([r.id for r in rows]),
        "scheduled": instants([r.scheduled_us for r in rows]),
        "run": instants([r.run_us for r in rows]),
        "nominal": instants([r.nominal_us for r in rows]),
        "tenants": uuids([r.tenant_id for r in rows]),
        "tasks": uuids([r.task_id for r in rows]),
        "versions": int8s([r.version_id for r in rows]),
        "max_attempts": int8s([r.max_attempts for r in rows]),
        "statuses": int2s([r.status for r in rows]),
        "holds": int2s([r.hold for r in rows]),
        "classes": int2s([r.class_index for r in rows]),
        "priorities": int2s([r.priority for r in rows]),
        "origins": int2s([r.origin for r in rows]),
        "overlaps": int2s([r.overlap for r in rows]),
        "slot_keys": texts([encoded(r.slot_key) for r in rows]),
        "keys": texts([r.idempotency_key.encode() for r in rows]),
        "payloads": texts([r.payload for r in rows]),
        "rerun_of": texts([None if r.rerun_of is None else r.rerun_of.hex().encode() for r in rows]),
        "queue_seconds": int8s([r.queue_seconds for r in rows]),
        "routes": int8s([r.route_id for r in rows]),
        "concurrency_keys": texts([encoded(r.concurrency_key) for r in rows]),
        "traces": texts([encoded(r.traceparent) for r in rows]),
    }
    return set(fetch_ids(connection, named_sql("insert_executions"), parameters))


def waiting_queues(connection: psycopg.Connection, *, day: int, limit: int) -> list[Queue]:
    """Queues of one day that have executions to look at, critical first."""
    cursor = connection.cursor(binary=True)
    return [Queue(*row) for row in cursor.execute(named_sql("waiting_queues", day), {"limit": limit})]


def hydrate(
    connection: psycopg.Connection,
    rooms: Mapping[Queue, int],
    *,
    day: int,
    lookahead_seconds: float,
    role: str,
    epoch: int,
) -> list[Preloaded]:
    """Mark what comes due as PRELOADED; the caller adds it to the hot tier after this has been committed.

    rooms: how many of each queue at most.
    """
    parameters = {
        "classes": int2s([queue.class_index for queue in rooms]),
        "tenants": uuids([queue.tenant_id for queue in rooms]),
        "routes": int8s([queue.route_id for queue in rooms]),
        "rooms": int8s(list(rooms.values())),
        "lookahead": lookahead_seconds,
        "role": role,
        "epoch": epoch,
    }
    return fetch(connection, Preloaded, named_sql("hydrate", day), parameters)


def days_that_wait(connection: psycopg.Connection, days: Sequence[int]) -> list[int]:
    """Which of these days (all have partitions) have executions to look at, whenever they are due."""
    if not days:
        return []
    parts, parameters = [], {}
    for day in days:
        parts.append(named_sql("day_waits", day).replace("%(day)s", f"%(day{day})s"))
        parameters[f"day{day}"] = day
    return [row[0] for row in connection.execute(" UNION ALL ".join(parts), parameters)]


def evict(connection: psycopg.Connection, identities: list[bytes], *, role: str, epoch: int) -> list[bytes]:
    """Put PRELOADED executions back to SCHEDULED; the caller removes them from the hot tier afterwards."""
    evicted: list[bytes] = []
    for day, group in by_day(identities):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group), "role": role, "epoch": epoch}
        evicted += fetch_ids(connection, named_sql("evict", day), parameters)
    return evicted


def preloaded_of_day(connection: psycopg.Connection, *, day: int, shards: Sequence[int]) -> list[Preloaded]:
    """Everything of one day that these shards of the hot tier should hold, due first first."""
    return fetch(connection, Preloaded, named_sql("preloaded_of_day", day), {"shards": list(shards)})


def record_events(
    connection: psycopg.Connection,
    rows: Sequence[NewExecution],
    *,
    source: states.Status | None,
    actor: str,
    reasons: Sequence[str],
) -> None:
    """Say why each of `rows` is in its state."""
    if not rows:
        return
    parameters = {
        "ids": uuids([r.id for r in rows]),
        "scheduled": instants([r.scheduled_us for r in rows]),
        "tenants": uuids([r.tenant_id for r in rows]),
        "sources": int2s([source for _ in rows]),
        "targets": int2s([r.status for r in rows]),
        "reasons": texts([reason.encode() for reason in reasons]),
        "actor": actor,
    }
    connection.execute(named_sql("record_events"), parameters)
