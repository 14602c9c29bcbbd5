"""Arrays packed by hand arrive in PostgreSQL as what they were, NULLs and empty ones included."""

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.quickstart.services import ServiceAddresses
from chronoweb.runtime import postgres
from chronoweb.runtime.postgres import PackedArray

MICROSECONDS = st.integers(-2_000_000_000_000_000, 7_000_000_000_000_000)
CASES: dict[str, tuple[st.SearchStrategy[Any], Any, str]] = {
    "uuid": (st.binary(min_size=16, max_size=16), postgres.uuids, "uuid"),
    "bigint": (st.none() | st.integers(-(2**63), 2**63 - 1), postgres.int8s, "bigint"),
    "smallint": (st.none() | st.integers(-(2**15), 2**15 - 1), postgres.int2s, "smallint"),
    "instant": (st.none() | MICROSECONDS, postgres.instants, "timestamptz"),
    "text": (st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), None, "text"),
}


@pytest.fixture(scope="module")
def connection(services: ServiceAddresses) -> Iterator[psycopg.Connection]:
    with postgres.connect("test", url=services.database_url) as made:
        yield made


def packed(kind: str, values: list[Any]) -> PackedArray:
    if kind == "text":
        return postgres.texts([None if v is None else v.encode() for v in values])
    array: PackedArray = CASES[kind][1](values)
    return array


def arrived(connection: psycopg.Connection, kind: str, array: PackedArray) -> list[Any]:
    """Element by element, in order, as PostgreSQL reads them."""
    column = "(extract(epoch FROM v) * 1000000)::bigint" if kind == "instant" else "v"
    query = f"SELECT {column} FROM unnest(%(array)s) WITH ORDINALITY u(v, n) ORDER BY n"
    rows = connection.execute(query, {"array": array}).fetchall()
    return [row[0].bytes if isinstance(row[0], uuid.UUID) else row[0] for row in rows]


@pytest.mark.parametrize("kind", CASES)
@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_what_is_packed_arrives(connection: psycopg.Connection, kind: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(CASES[kind][0], max_size=20))
    assert arrived(connection, kind, packed(kind, values)) == values


@pytest.mark.parametrize("kind", CASES)
def test_empty_arrays_have_their_type(connection: psycopg.Connection, kind: str) -> None:
    row = connection.execute("SELECT pg_typeof(%(array)s)::text, cardinality(%(array)s)", {"array": packed(kind, [])})
    found = row.fetchone()
    assert found is not None
    names = {"timestamptz": "timestamp with time zone"}
    assert found == (names.get(CASES[kind][2], CASES[kind][2]) + "[]", 0)


def test_uuids_come_back_as_bytes_in_binary_results(connection: psycopg.Connection) -> None:
    identity = uuid.uuid4()
    [row] = connection.cursor(binary=True).execute("SELECT %(id)s::uuid", {"id": identity})
    assert row == (identity.bytes,)


def test_many_arrive_in_order(connection: psycopg.Connection) -> None:
    values: list[Any] = list(range(5000))
    assert arrived(connection, "bigint", packed("bigint", values)) == values
