"""Rows as lines of COPY's text format. Rows that services have made are read back as such lines and written again with
some fields changed, so that every column that nobody thought of is as the services leave it.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from time import gmtime, strftime
from typing import Any, LiteralString

import psycopg
from psycopg import sql

Row = dict[str, str]
"""Columns and their values, escaped as COPY wants them."""
NULL = r"\N"
CHUNK = 20_000
"""Rows that one COPY writes."""


def text(value: str) -> str:
    """A text, with what ends a field or a line escaped."""
    return value.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def document(value: Any) -> str:
    """A JSON value."""
    return text(json.dumps(value))


def array(values: Iterable[str]) -> str:
    """A text[] of words without quotes and commas."""
    return "{" + ",".join(values) + "}"


def instant(ms: int) -> str:
    """A timestamptz, from ms since the epoch."""
    seconds, rest = divmod(ms, 1000)
    return f"{_second(seconds)}.{rest:03d}+00"


@lru_cache(maxsize=50_000)
def _second(seconds: int) -> str:
    return strftime("%Y-%m-%d %H:%M:%S", gmtime(seconds))


def read(connection: psycopg.Connection, query: LiteralString, parameters: Mapping[str, Any]) -> list[Row]:
    """What a query finds, as rows to be changed and written again."""
    named = connection.execute(query, parameters)
    columns = [column.name for column in named.description or ()]
    with connection.cursor() as cursor:
        statement: Any = psycopg.ClientCursor(connection).mogrify(query, parameters)
        with cursor.copy(sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(statement))) as copy:
            data = b"".join(bytes(part) for part in copy).decode()
    return [dict(zip(columns, line.split("\t"), strict=True)) for line in data.splitlines()]


def write(
    connection: psycopg.Connection,
    table: str,
    rows: Iterable[Row],
    *,
    done: Callable[[int], None] = lambda _: None,
) -> int:
    """Write rows that all have the same columns; returns how many. done: is told of each chunk."""
    written = 0
    iterator = iter(rows)
    while chunk := list(islice(iterator, CHUNK)):
        write_lines(connection, table, list(chunk[0]), ("\t".join(row.values()) for row in chunk))
        written += len(chunk)
        done(len(chunk))
    return written


def write_lines(connection: psycopg.Connection, table: str, columns: list[str], lines: Iterable[str]) -> None:
    """Write lines of these columns, all in one transaction."""
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), names)
    with connection.cursor() as cursor, cursor.copy(statement) as copy:
        for part in _joined(lines):
            copy.write(part)


def _joined(lines: Iterable[str], at_once: int = 2000) -> Iterator[bytes]:
    iterator = iter(lines)
    while part := list(islice(iterator, at_once)):
        yield ("\n".join(part) + "\n").encode()
