"""What the dispatcher asks of the ledger."""

from collections.abc import Mapping, Sequence
from uuid import UUID

import psycopg

from apps.executions import ids, locks
from apps.executions.rows import (
    Dispatched,
    RetryRoom,
    TenantLimit,
    Whereabouts,
)
from apps.executions.states import Hold
from apps.executions.store.statements import by_day, fetch, fetch_ids, named_sql, scheduled_of
from chronoweb.runtime.postgres import int2s, int8s, texts, uuids

UNLIMITED_RETRIES = RetryRoom([], [], [], 1_000_000, 1_000_000)


def dispatch(
    connection: psycopg.Connection,
    identities: Sequence[bytes],
    workers: Sequence[int],
    *,
    window_ms: int,
    held: Mapping[int, int],
    retries: RetryRoom = UNLIMITED_RETRIES,
) -> list[Dispatched]:
    """Send popped executions of one day to `workers` (one for each id); ids must be sorted and of one day.

    held: shard → epoch of the shards that this process holds. retries: how many retries may go. What is missing from
    the answer is locked by another transaction, no longer PRELOADED, of a shard whose epoch is stale, or has a place
    free of its concurrency key that another dispatcher or execution has come by first: the next tick asks again.
    """
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
        "workers": int8s(workers),
        "window": window_ms,
        "shards": int2s([ids.shard(i) for i in identities]),
        "held_shards": int2s(list(held)),
        "held_epochs": int8s(list(held.values())),
        "budget_tenants": uuids(retries.tenants),
        "budget_rooms": int8s(retries.rooms),
        "budget_rates": int8s(retries.rates),
        "budget_room": retries.room,
        "budget_rate": retries.rate,
    }
    return fetch(connection, Dispatched, named_sql("dispatch", ids.day(identities[0])), parameters)


def still_preloaded(connection: psycopg.Connection, identities: list[bytes]) -> set[bytes]:
    """Which of these are PRELOADED."""
    found: set[bytes] = set()
    for day, group in by_day(identities):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group)}
        found.update(fetch_ids(connection, named_sql("still_preloaded", day), parameters))
    return found


def states_of(connection: psycopg.Connection, identities: list[bytes]) -> list[Whereabouts]:
    """Where these executions are."""
    found: list[Whereabouts] = []
    for day, group in by_day(identities):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group)}
        found += fetch(connection, Whereabouts, named_sql("states_of", day), parameters)
    return found


def outstanding_by_worker(connection: psycopg.Connection) -> dict[tuple[int, int], int]:
    """(worker, class) → how many executions it has been sent and has not ended."""
    rows = connection.execute(named_sql("outstanding_by_worker"), {"since": ids.EARLIEST})
    return {(worker, class_index): count for worker, class_index, count in rows}


def outstanding_under_lock(connection: psycopg.Connection, tenants: Sequence[UUID]) -> dict[UUID, int]:
    """What tenants have outstanding; nobody else who asks so adds to it until the caller's transaction ends."""
    objects = sorted({locks.tenant_object(tenant) for tenant in tenants})
    connection.execute(named_sql("lock_tenants"), {"class": locks.TENANT, "objects": objects})
    parameters = {"tenants": list(tenants)}
    return dict(connection.execute(named_sql("outstanding_of_tenants"), parameters).fetchall())


def outstanding_by_tenant(connection: psycopg.Connection) -> dict[bytes, int]:
    """What each tenant has outstanding; those that have nothing are missing."""
    return dict(connection.cursor(binary=True).execute(named_sql("outstanding_by_tenant")).fetchall())


def tenant_terms(connection: psycopg.Connection, *, seconds: float | None) -> list[TenantLimit]:
    """Weights and limits of the tenants that were changed in the last `seconds`; None: of all."""
    parameters = {"all": seconds is None, "seconds": seconds or 0}
    return fetch(connection, TenantLimit, named_sql("tenant_terms"), parameters)


def wide_holds(connection: psycopg.Connection) -> list[tuple[bytes, Hold]]:
    """(tenant, why) of the tenants of which nothing may be dispatched; the nil UUID stands for everything."""
    rows = connection.cursor(binary=True).execute(named_sql("wide_holds"))
    return [(target, Hold(reason)) for target, reason in rows]


def request_cancel_of_slot_holders(connection: psycopg.Connection, keys: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Have what holds these overlap slots make room; returns (tenant, id) of what was asked or ended."""
    holders = fetch_ids(connection, named_sql("slot_holders"), {"keys": list(keys)})
    return _displace(connection, holders, "overlap: a later execution of the task takes its place")


def cancel_oldest(connection: psycopg.Connection, keys: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Have the oldest under these concurrency keys make room for the latest; returns what was asked or ended."""
    oldest = fetch_ids(connection, named_sql("beyond_the_places"), {"keys": list(keys)})
    return _displace(connection, oldest, "concurrency: a later execution takes its place")


def _displace(connection: psycopg.Connection, identities: list[bytes], reason: str) -> list[tuple[bytes, bytes]]:
    displaced: list[tuple[bytes, bytes]] = []
    for day, group in by_day(sorted(identities)):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group), "reason": reason}
        displaced += connection.cursor(binary=True).execute(named_sql("displace", day), parameters).fetchall()
    return displaced


def give_back_places(connection: psycopg.Connection, taken: Sequence[tuple[bytes, str]]) -> None:
    """Drop places of concurrency keys that (execution, key) took and does not use."""
    parameters = {"ids": uuids([i for i, _ in taken]), "keys": texts([key.encode() for _, key in taken])}
    connection.execute(named_sql("give_back_places"), parameters)
