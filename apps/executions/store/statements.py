"""How the ledger's statements are called: found by name, ids packed, a day at a time."""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from apps.executions import ids, quotas, states
from apps.executions.dags import states as dag_states
from apps.executions.partitions import TABLES
from chronoweb.runtime.postgres import PackedArray, instants
from chronoweb.runtime.sql import NamedSql

named_sql = NamedSql(
    Path(__file__).parent.parent / "sql",
    constants=states.sql_constants() | dag_states.sql_constants() | quotas.sql_constants(),
    partitioned=tuple(TABLES),
)
Row = TypeVar("Row", bound=tuple[Any, ...])
_DAY_MS = 86_400_000


def scheduled_of(identities: Sequence[bytes]) -> PackedArray:
    """The scheduled_at of each id, which its first bits tell: what a statement names together with the id."""
    return instants([ids.milliseconds(i) * 1000 for i in identities])


def fetch(
    connection: psycopg.Connection, make: Callable[..., Row], query: str, parameters: dict[str, Any]
) -> list[Row]:
    """What `query` answers, each row given to `make`."""
    cursor = connection.cursor(binary=True)
    return [make(*row) for row in cursor.execute(query, parameters)]


def fetch_ids(connection: psycopg.Connection, query: str, parameters: dict[str, Any]) -> list[bytes]:
    """The ids that `query` answers with."""
    return [row[0] for row in connection.cursor(binary=True).execute(query, parameters)]


def encoded(value: str | None) -> bytes | None:
    """Text as packed arrays carry it."""
    return None if value is None else value.encode()


def days_of(connection: psycopg.Connection, query: str, **parameters: Any) -> list[int]:
    """The days that one of the queries "…_days" finds in a table beside the partitioned ones: mostly one or two."""
    return [row[0] for row in connection.execute(named_sql(query), parameters)]


def bounds_of(day: int) -> dict[str, datetime]:
    """The day's first instant, and the next day's: `since` and `until`."""
    since = ids.from_ms(day * _DAY_MS)
    return {"since": since, "until": since + timedelta(days=1)}


def by_day(identities: list[bytes]) -> Iterable[tuple[int, list[bytes]]]:
    """The ids of each day, with the day: statements name the day's partition."""
    for day, positions in ids.by_day(identities):
        yield day, [identities[p] for p in positions]
