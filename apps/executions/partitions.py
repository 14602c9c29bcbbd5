"""Day partitions of the ledger: made ahead, created first and attached then, never a DEFAULT one.

Attaching takes a short lock on the parent; `lock_timeout` keeps it from queueing behind a long reader and, with it,
everybody else behind it. What could not be attached now is attached at the next pass.
"""

import logging
from collections.abc import Iterable

import psycopg

from chronoweb.runtime.config import Config
from chronoweb.runtime.sql import day_suffix

logger = logging.getLogger(__name__)

TABLES = {
    "executions": "fillfactor=70",
    "attempts": "fillfactor=100",
    "execution_events": "fillfactor=100",
    "dag_runs": "fillfactor=70",
    "run_nodes": "fillfactor=70",
    "task_dependencies": "fillfactor=70",
}
"""Partitioned tables and the storage of their partitions; room in a page lets executions be updated in place."""


def existing_days(connection: psycopg.Connection) -> set[int]:
    """Days (counted from the epoch, UTC) whose partitions are attached for every table."""
    rows = connection.execute(
        "SELECT p.relname, (to_date(right(c.relname, 8), 'YYYYMMDD') - date '1970-01-01')::int"
        " FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE p.relname = ANY(%s) AND p.relnamespace = current_schema()::regnamespace",
        (list(TABLES),),
    ).fetchall()
    days = [{day for table, day in rows if table == name} for name in TABLES]
    return set.intersection(*days)


def ensure(connection: psycopg.Connection, days: Iterable[int]) -> list[int]:
    """Make what is missing of `days`; returns the days that were made. Needs an autocommit connection.

    Raises psycopg.errors.LockNotAvailable when a long reader is in the way; calling again goes on from there.
    """
    made = []
    for day in sorted(set(days) - existing_days(connection)):
        for table, storage in TABLES.items():
            make(connection, table, day, storage)
        made.append(day)
    if made:
        logger.info("made partitions", extra={"action": "partitions.made", "days": [day_suffix(d) for d in made]})
    return made


def keep(connection: psycopg.Connection, config: Config) -> list[int]:
    """Make the days that `config` wants around today (the database's today, UTC); returns the days made."""
    exists = connection.execute("SELECT to_regclass('executions') IS NOT NULL").fetchone()
    if exists == (False,):
        return []  # the ledger's migration has been reversed
    row = connection.execute("SELECT floor(extract(epoch FROM now()) / 86400)::int").fetchone()
    assert row is not None
    today = row[0]
    return ensure(connection, range(today - config.partition_days_back, today + config.partition_days_ahead + 1))


def make(connection: psycopg.Connection, table: str, day: int, storage: str) -> None:
    """Make and attach one partition, unless it is there. Raises psycopg.errors.LockNotAvailable."""
    name = f"{table}_{day_suffix(day)}"
    # Names and bounds are made of integers and constants alone.
    low, high = f"to_timestamp({day * 86400})", f"to_timestamp({(day + 1) * 86400})"
    with connection.transaction():
        connection.execute("SET LOCAL lock_timeout = '1s'")
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} (LIKE {table} INCLUDING ALL) WITH ({storage})")
        attached = connection.execute("SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass(%s)", (name,)).fetchone()
        if not attached:
            connection.execute(f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES FROM ({low}) TO ({high})")
