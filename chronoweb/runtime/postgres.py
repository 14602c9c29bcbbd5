"""Raw psycopg connections for the hot path, and arrays packed by hand.

[P] Packing ids as one binary array costs 0.05 µs an id; adapting UUID objects 0.99 µs.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Any, cast

import psycopg
from psycopg.adapt import AdaptersMap, Dumper, Loader, PyFormat
from psycopg.pq import Format

from chronoweb.runtime.errors import ConfigurationError

_POSTGRES_EPOCH_US = 946_684_800_000_000
_OPTIONS = (
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "enable_seqscan=off",
    "enable_bitmapscan=off",
    "plan_cache_mode=force_custom_plan",
    "jit=off",
    "TimeZone=UTC",
)
"""[P] On a partition that was never analysed the planner guesses one row and turns hot joins round; these settings
leave it the plan that is driven from the ids."""


class PackedArray:
    """A PostgreSQL array already in its binary form."""

    __slots__ = ("data",)
    element_oid = 0

    def __init__(self, data: bytes) -> None:
        self.data = data


def _kind(name: str, array_oid: int, element: int) -> type[PackedArray]:
    made = type(name, (PackedArray,), {"__slots__": (), "element_oid": element})

    class PackedDumper(Dumper):
        format = Format.BINARY
        oid = array_oid

        def dump(self, obj: PackedArray) -> bytes:
            return obj.data

    psycopg.adapters.register_dumper(made, PackedDumper)
    return made


_Uuids = _kind("_Uuids", 2951, 2950)
_Instants = _kind("_Instants", 1185, 1184)
_Int8s = _kind("_Int8s", 1016, 20)
_Int2s = _kind("_Int2s", 1005, 21)
_Texts = _kind("_Texts", 1009, 25)


class RawUuidLoader(Loader):
    """uuid columns come back as their 16 bytes (binary results only)."""

    format = Format.BINARY

    def load(self, data: "bytes | bytearray | memoryview") -> bytes:
        return bytes(data)


def uuids(ids: Sequence[bytes]) -> PackedArray:
    """uuid[] from 16-byte ids."""
    if not ids:
        return _Uuids(struct.pack(">iiI", 0, 0, 2950))
    return _Uuids(struct.pack(">iiIii", 1, 0, 2950, len(ids), 1) + b"\0\0\0\x10" + b"\0\0\0\x10".join(ids))


def _fixed(kind: type[PackedArray], letter: str, size: int, values: Sequence[int | None]) -> PackedArray:
    count = len(values)
    if not count:
        return kind(struct.pack(">iiI", 0, 0, kind.element_oid))
    if None in values:
        item = struct.Struct(f">i{letter}")
        null = struct.pack(">i", -1)
        head = struct.pack(">iiIii", 1, 1, kind.element_oid, count, 1)
        return kind(head + b"".join(null if v is None else item.pack(size, v) for v in values))
    flat: list[int] = [size] * (2 * count)
    flat[1::2] = values  # type: ignore[assignment]
    return kind(struct.pack(f">iiIii{('i' + letter) * count}", 1, 0, kind.element_oid, count, 1, *flat))


def int8s(values: Sequence[int | None]) -> PackedArray:
    """bigint[]."""
    return _fixed(_Int8s, "q", 8, values)


def int2s(values: Sequence[int | None]) -> PackedArray:
    """smallint[]."""
    return _fixed(_Int2s, "h", 2, values)


def instants(microseconds: Iterable[int | None]) -> PackedArray:
    """timestamptz[] from microseconds since the Unix epoch; None is NULL."""
    return _fixed(_Instants, "q", 8, [None if us is None else us - _POSTGRES_EPOCH_US for us in microseconds])


def texts(values: Sequence[bytes | None]) -> PackedArray:
    """text[] from UTF-8 bytes; None is NULL."""
    if not values:
        return _Texts(struct.pack(">iiI", 0, 0, 25))
    head = struct.pack(">iiIii", 1, int(None in values), 25, len(values), 1)
    null = struct.pack(">i", -1)
    return _Texts(head + b"".join(null if v is None else struct.pack(">i", len(v)) + v for v in values))


def database_url(*, direct: bool = False) -> str:
    """Where PostgreSQL is; `direct` is the address that goes round a transaction pooler."""
    from django.conf import settings

    services = settings.SERVICES
    url = services.database_direct_url if direct else services.database_url
    if not url:
        raise ConfigurationError(
            "DATABASE_URL is not set and no embedded services run: set it, or start `manage.py quickstart`"
        )
    return url


IDLE_IN_TRANSACTION_SECONDS = 60
"""Whoever stands still for so long in the middle of a transaction (stopped, its machine gone) loses it: what it has
locked would keep everybody else waiting for as long as the server believes in it, which may be hours.
"""


def connect(
    application_name: str, *, url: str | None = None, direct: bool = False, hot: bool = True
) -> psycopg.Connection:
    """An autocommit connection that returns uuid columns as bytes in binary results.

    direct: bypass a pooler, for what lives in the session (advisory locks, LISTEN).
    hot: plan as the hot path needs it; off for statements that read whole partitions.
    """
    options = [*(_OPTIONS if hot else ("TimeZone=UTC", "jit=off"))]
    options.append(f"idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_SECONDS}s")
    connection = psycopg.connect(
        url or database_url(direct=direct),
        autocommit=True,
        application_name=application_name,
        prepare_threshold=0 if hot else None,
        connect_timeout=5,
        options=" ".join(f"-c {option}" for option in options),
        keepalives_idle=10,
        keepalives_interval=5,
        keepalives_count=3,
    )
    connection.adapters.register_loader("uuid", RawUuidLoader)
    return connection


def connect_like_django(application_name: str, alias: str = "default") -> psycopg.Connection:
    """An autocommit connection to the database that Django's `alias` uses (in tests, the test database)."""
    from django.db import connections

    settings = connections[alias].settings_dict
    return psycopg.connect(
        host=settings["HOST"] or None,
        port=settings["PORT"] or None,
        user=settings["USER"] or None,
        password=settings["PASSWORD"] or None,
        dbname=settings["NAME"],
        autocommit=True,
        application_name=application_name,
        options="-c TimeZone=UTC",
    )


class UnderDjango:
    """Django's connection as the named SQL needs it: parameters bound by the server, uuid columns of binary results
    as bytes. Its statements belong to Django's transaction; the ORM's own cursors are not changed.
    """

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def cursor(self, *, binary: bool = False) -> psycopg.Cursor:
        # Django's own cursor class merges parameters into the text, which packed arrays cannot survive.
        cursor = psycopg.Cursor(self._connection)
        cursor.format = Format.BINARY if binary else Format.TEXT
        cursor._adapters = _adapters_of_the_ledger(self._connection.adapters)
        return cursor

    def execute(self, query: str, parameters: Any = None, *, prepare: bool | None = None) -> psycopg.Cursor:
        return self.cursor().execute(query, parameters, prepare=prepare)

    def read(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Rows of a statement that is asked often: PostgreSQL keeps its plan where that costs less than planning, and
        values come in binary form: UUIDs, aware datetimes in UTC, decoded JSON.
        """
        cursor = psycopg.Cursor(self._connection)
        cursor.format = Format.BINARY
        cursor._adapters = _PLAIN
        return cursor.execute(query, parameters, prepare=True).fetchall()


_PLAIN = AdaptersMap(psycopg.adapters)
_of_the_ledger: AdaptersMap | None = None


def _adapters_of_the_ledger(django: AdaptersMap) -> AdaptersMap:
    """Django's, of which all its connections have the same, and the ledger's own. Filling a map costs more than most
    statements, so all cursors share one.
    """
    global _of_the_ledger
    if _of_the_ledger is None:
        made = AdaptersMap(django)
        made.register_loader("uuid", RawUuidLoader)
        for kind in (_Uuids, _Instants, _Int8s, _Int2s, _Texts):
            # Django copied psycopg's adapters at its first connection, maybe before this module was imported.
            made.register_dumper(kind, psycopg.adapters.get_dumper(kind, PyFormat.BINARY))
        _of_the_ledger = made
    return _of_the_ledger


def raw(django_connection: Any) -> psycopg.Connection:
    """What the ledger's statements may use of Django's connection, inside its transaction."""
    return cast(psycopg.Connection, reads(django_connection))


def reads(django_connection: Any) -> UnderDjango:
    """Django's connection, for statements of one's own."""
    django_connection.ensure_connection()
    return UnderDjango(django_connection.connection)
