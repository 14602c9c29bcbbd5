"""The statements of sql/circuits.sql: reporting outcomes, waking what waits.

A circuit's row is read and written under its lock and judged by circuits.py. That costs round trips, but only while
something fails: successes of what does not fail are never written.
"""

import json
import random
from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

import psycopg

from apps.executions import ids
from apps.executions.circuits import LOTS, Circuit, CircuitTerms, after
from apps.executions.store import named_sql
from chronoweb.runtime.postgres import instants, texts, uuids

Key = tuple[bytes, str]
"""(tenant, circuit key)."""

_CHUNK = 1000


class News(NamedTuple):
    """Outcomes of one key, oldest first ("S", "F"), and the last failure's message."""

    outcomes: str
    last_error: str | None


def report(connection: psycopg.Connection, news: Mapping[Key, News], *, terms: CircuitTerms) -> list[Key]:
    """Tell circuits how attempts ended; returns those that opened by it. One transaction."""
    if not news:
        return []
    opened = []
    failing = [key for key, told in news.items() if "F" in told.outcomes]
    with connection.transaction():
        if failing:
            connection.execute(named_sql("circuits_ensure"), _keys(failing))
        rows = connection.cursor(binary=True).execute(named_sql("circuits_lock"), _keys(list(news))).fetchall()
        for identity, tenant, key, recent, trips, quarantine_us, slow_us, proven, now_us in rows:
            before = Circuit(tuple((at, failed) for at, failed in recent), trips, quarantine_us, slow_us, proven)
            told = news[tenant, key]
            unit_random = random.random()  # noqa: S311 - spreads quarantines, guards nothing
            circuit = after(before, told.outcomes, now_us=now_us, terms=terms, unit_random=unit_random)
            if circuit == before:
                continue
            is_opened = circuit.quarantine_until_us is not None and circuit.quarantine_until_us != quarantine_us
            _write(connection, identity, circuit, told, is_opened, terms)
            if is_opened:
                opened.append((tenant, key))
    return opened


def _keys(keys: list[Key]) -> dict[str, object]:
    return {"tenants": uuids([tenant for tenant, _ in keys]), "keys": texts([key.encode() for _, key in keys])}


def _write(
    connection: psycopg.Connection, identity: int, circuit: Circuit, told: News, opened: bool, terms: CircuitTerms
) -> None:
    parameters = {
        "id": identity,
        "recent": json.dumps(circuit.recent),
        "trips": circuit.trips,
        "quarantine_us": circuit.quarantine_until_us,
        "slow_us": circuit.slow_until_us,
        "proven": circuit.proven,
        "settled": circuit.settled,
        "opened": opened,
        "admit_below": LOTS * terms.slow_start_percent // 100,
        "last_error": told.last_error,
    }
    connection.execute(named_sql("circuit_write"), parameters)


def unsettled(connection: psycopg.Connection) -> set[Key]:
    """Circuits of which the next success is news, on whatever worker."""
    cursor = connection.cursor(binary=True)
    return {(tenant, key) for tenant, key in cursor.execute(named_sql("circuits_unsettled"))}


def wake(connection: psycopg.Connection, *, percent: int, every_seconds: float) -> list[tuple[bytes, bytes]]:
    """Let go what waits for circuits that have reopened: (tenant, execution) of each.

    In a slow start its share goes, spread over what is left of it; every_seconds: how often this is called.
    """
    woken = []
    for circuit, left, drawn, admit_below in connection.execute(named_sql("circuits_to_wake")).fetchall():
        below, limit = LOTS, _CHUNK
        if left > 0:
            below = admit_below if drawn else _draw_lots(connection, circuit, percent)
            row = connection.execute(named_sql("circuit_admitted"), {"circuit": circuit, "below": below}).fetchone()
            assert row is not None
            limit = min(_CHUNK, ceil(row[0] * min(1.0, every_seconds / left)))
        if limit:
            woken += _wake_waiters(connection, circuit, below, limit)
    return woken


def _draw_lots(connection: psycopg.Connection, circuit: int, percent: int) -> int:
    row = connection.execute(named_sql("circuit_draw_lots"), {"circuit": circuit, "percent": percent}).fetchone()
    assert row is not None
    return row[0]


def _wake_waiters(connection: psycopg.Connection, circuit: int, below: int, limit: int) -> list[tuple[bytes, bytes]]:
    woken: list[tuple[bytes, bytes]] = []
    with connection.transaction():
        cursor = connection.cursor(binary=True)
        parameters = {"circuit": circuit, "below": below, "limit": limit}
        taken = sorted(row[0] for row in cursor.execute(named_sql("circuit_take_waiters"), parameters))
        for day, positions in ids.by_day(taken):
            group = [taken[p] for p in positions]
            scheduled = instants([ids.milliseconds(i) * 1000 for i in group])
            rows = cursor.execute(named_sql("circuit_wake", day), {"ids": uuids(group), "scheduled": scheduled})
            woken += [(tenant, identity) for identity, tenant in rows]
    return woken


def forget(connection: psycopg.Connection, *, seconds: float) -> int:
    """Drop closed circuits of which nothing was heard for so long; returns how many."""
    return connection.execute(named_sql("circuits_forget"), {"seconds": seconds}).rowcount
