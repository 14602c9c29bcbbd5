"""What waits for workers that carry its labels."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.store.statements import by_day, named_sql, scheduled_of
from chronoweb.runtime.postgres import int2s, int8s, uuids

_MOST_QUEUES = 1000


def routes(connection: psycopg.Connection) -> dict[int, frozenset[str]]:
    """The labels of every route."""
    return {route: frozenset(labels) for route, labels in connection.execute(named_sql("routes"))}


def put_aside(
    connection: psycopg.Connection, identities: Sequence[bytes], *, held: Mapping[int, int]
) -> list[tuple[bytes, bytes]]:
    """Let popped executions of one day wait in the ledger; (id, tenant) of those that do. ids must be sorted.

    held: shard → epoch of the shards that this process holds.
    """
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
        "shards": int2s([ids.shard(i) for i in identities]),
        "held_shards": int2s(list(held)),
        "held_epochs": int8s(list(held.values())),
    }
    rows = connection.cursor(binary=True).execute(named_sql("put_aside", ids.day(identities[0])), parameters)
    return [(identity, tenant) for identity, tenant in rows]


def routes_waited_for(connection: psycopg.Connection) -> list[tuple[int, UUID]]:
    """(route, tenant) that have waiters."""
    parameters = {"limit": _MOST_QUEUES}
    return [(route, tenant) for route, tenant in connection.execute(named_sql("routes_waited_for"), parameters)]


def forget_gone_waiters(connection: psycopg.Connection, *, route: int, tenant_id: UUID, limit: int) -> int:
    """Drop those of a route's oldest waiters that do not wait any more; returns how many."""
    parameters = {"route": route, "tenant": tenant_id, "limit": limit}
    return connection.execute(named_sql("forget_gone_waiters"), parameters).rowcount


def wake_route_waiters(
    connection: psycopg.Connection, *, route: int, tenant_id: UUID, limit: int
) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Let a route's oldest waiters be dispatched: (how many places were cleared, (tenant, id) of who was woken)."""
    woken: list[tuple[bytes, bytes]] = []
    with connection.transaction():
        cursor = connection.cursor(binary=True)
        parameters = {"route": route, "tenant": tenant_id, "limit": limit}
        taken = sorted(row[0] for row in cursor.execute(named_sql("take_route_waiters"), parameters))
        for day, group in by_day(taken):
            values = {"ids": uuids(group), "scheduled": scheduled_of(group)}
            rows = cursor.execute(named_sql("wake_route_waiters", day), values)
            woken += [(tenant, identity) for identity, tenant in rows]
    return len(taken), woken
