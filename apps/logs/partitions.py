"""Day partitions of the index: made when a day's first line is shipped, dropped when the day is too old."""

import logging

import psycopg

from apps.executions import partitions
from chronoweb.runtime.sql import day_suffix

logger = logging.getLogger(__name__)

TABLE = "log_chunks"
_STORAGE = "fillfactor=100"


def ensure(connection: psycopg.Connection, day: int, made: set[int]) -> None:
    """See that the partition of `day` is there. made: days that are known to be. Needs an autocommit connection."""
    if day not in made:
        name = f"{TABLE}_{day_suffix(day)}"
        attached = connection.execute("SELECT 1 FROM pg_inherits WHERE inhrelid = to_regclass(%s)", (name,)).fetchone()
        if not attached:
            partitions.make(connection, TABLE, day, _STORAGE)
        made.add(day)


def drop_before(connection: psycopg.Connection, day: int) -> list[int]:
    """Drop the days before `day`; those that were dropped. One that somebody reads waits for the next call."""
    dropped = []
    for old in existing(connection):
        if old >= day:
            continue
        try:
            with connection.transaction():
                connection.execute("SET LOCAL lock_timeout = '1s'")
                connection.execute(f"DROP TABLE {TABLE}_{day_suffix(old)}")
        except psycopg.errors.LockNotAvailable:
            logger.warning("old logs have to wait for a reader", extra={"action": "logshipper.drop_waits"})
            continue
        dropped.append(old)
    return dropped


def existing(connection: psycopg.Connection) -> list[int]:
    """Days that have a partition, counted from the epoch, UTC."""
    rows = connection.execute(
        "SELECT (to_date(right(c.relname, 8), 'YYYYMMDD') - date '1970-01-01')::int"
        " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = to_regclass(%s) ORDER BY 1",
        (TABLE,),
    ).fetchall()
    return [row[0] for row in rows]
