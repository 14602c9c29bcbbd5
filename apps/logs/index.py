"""The index of what is kept, in PostgreSQL: the only caller of sql/*.sql."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psycopg

from apps.executions import ids
from apps.executions.partitions import TABLES
from apps.logs.partitions import TABLE
from chronoweb.runtime.postgres import instants, int8s, texts, uuids
from chronoweb.runtime.sql import NamedSql

named_sql = NamedSql(Path(__file__).parent / "sql", constants={}, partitioned=(*TABLES, TABLE))

Attempt = tuple[bytes, int]
"""Execution and token."""


class End(NamedTuple):
    """How far an attempt's lines are in the index."""

    last: int
    ended: bool


@dataclass(frozen=True, slots=True)
class NewChunk:
    """A row to be. Instants are microseconds since the epoch; words as words.words_of_lines gives them."""

    execution: bytes
    token: int
    attempt: int
    first: int
    last: int
    first_us: int
    last_us: int
    bytes: int
    name: str
    start: int
    length: int
    ended: bool
    words: str
    whole: bool


def known_ends(connection: psycopg.Connection, attempts: Sequence[Attempt]) -> dict[Attempt, End]:
    """What the index has of these attempts."""
    parameters = {
        "ids": uuids([execution for execution, _ in attempts]),
        "scheduled": instants([ids.milliseconds(execution) * 1000 for execution, _ in attempts]),
        "tokens": int8s([token for _, token in attempts]),
    }
    rows = connection.cursor(binary=True).execute(named_sql("known_ends"), parameters)
    return {(execution, token): End(last, ended) for execution, token, last, ended in rows}


def add(connection: psycopg.Connection, day: int, chunks: Sequence[NewChunk]) -> dict[tuple[bytes, int, int], bytes]:
    """Add rows of one day, whose partitions must be there; (execution, token, first) → tenant of those that were."""
    parameters = {
        "ids": uuids([c.execution for c in chunks]),
        "scheduled": instants([ids.milliseconds(c.execution) * 1000 for c in chunks]),
        "tokens": int8s([c.token for c in chunks]),
        "attempts": int8s([c.attempt for c in chunks]),
        "first": int8s([c.first for c in chunks]),
        "last": int8s([c.last for c in chunks]),
        "first_at": instants([c.first_us for c in chunks]),
        "last_at": instants([c.last_us for c in chunks]),
        "bytes": int8s([c.bytes for c in chunks]),
        "names": texts([c.name.encode() for c in chunks]),
        "starts": int8s([c.start for c in chunks]),
        "lengths": int8s([c.length for c in chunks]),
        "ended": [c.ended for c in chunks],
        "words": texts([c.words.encode() for c in chunks]),
        "whole": [c.whole for c in chunks],
    }
    rows = connection.cursor(binary=True).execute(named_sql("add_chunks", day), parameters)
    return {(execution, token, first): tenant for execution, token, first, tenant in rows}
