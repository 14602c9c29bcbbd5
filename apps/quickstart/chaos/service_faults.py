"""Faults of PostgreSQL, Valkey and the Kafka broker: killed, stopped, emptied, filled, cut off, made read-only.

A killed server is started again by the process that started it, at the same address (chaos/run.py).
"""

import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import LiteralString, cast

import psutil
import psycopg
import redis
from psycopg import sql

from apps.quickstart.chaos.plan import Fault
from apps.quickstart.server_process import processes_in
from apps.quickstart.services import ServiceAddresses

_OTHERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name NOT LIKE 'chaos%'
ORDER BY backend_start, pid
"""
_LISTENERS = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE '%-listen'
"""

Undo = Callable[[], None]

_CUT_PARTS = 3
_FULL_BYTES = 1_000_000
_PROGRAMS = {"postgres": ("postgresql", "postgres"), "redis": ("valkey", "valkey-server"), "kafka": ("kafka", "tansu")}


class ServiceFaults:
    """folder: the data directory of the embedded services. prefix: of the installation's keys in Redis."""

    def __init__(self, addresses: ServiceAddresses, folder: Path, *, prefix: str) -> None:
        self._addresses = addresses
        self._folder = folder
        self._prefix = prefix
        self._acts: dict[str, Callable[[Fault], tuple[bool, Undo | None]]] = {
            "postgres.cut_some": self._cut_some,
            "postgres.cut_listeners": self._cut_listeners,
            "postgres.read_only": self._read_only,
            "redis.flush": self._flush,
            "redis.drop_inbox": self._drop_inbox,
            "redis.cut_all": self._cut_all,
            "redis.full": self._full,
        }

    def do(self, fault: Fault) -> tuple[bool, Undo | None]:
        """Whether it was done, and what undoes it. Raises psycopg.Error, RedisError, OSError while a server is away."""
        victim, act = fault.kind.split(".")
        if act in ("kill", "stop"):
            return self._signal(victim, signal.SIGKILL if act == "kill" else signal.SIGSTOP)
        return self._acts[fault.kind](fault)

    # ---- any server ----

    def _signal(self, victim: str, number: signal.Signals) -> tuple[bool, Undo | None]:
        folder, program = _PROGRAMS[victim]
        found = [process for process in processes_in(self._folder / folder, program=program) if _is_first(process)]
        for process in found:
            os.kill(process.pid, number)
        return bool(found), (lambda: _resume(found)) if number == signal.SIGSTOP else None

    # ---- PostgreSQL ----

    def _postgres(self) -> psycopg.Connection:
        # Its own word goes before the database's, which a fault may have made read-only.
        options = "-c default_transaction_read_only=off"
        return psycopg.connect(
            self._addresses.database_url,
            autocommit=True,
            application_name="chaos",
            connect_timeout=3,
            options=options,
        )

    def _cut_some(self, fault: Fault) -> tuple[bool, Undo | None]:
        with self._postgres() as connection:
            found = _pids(connection, _OTHERS)
            draw = random.Random(fault.choice)  # noqa: S311 - it must be repeatable
            return _terminate(connection, draw.sample(found, -(-len(found) // _CUT_PARTS))), None

    def _cut_listeners(self, fault: Fault) -> tuple[bool, Undo | None]:
        with self._postgres() as connection:
            return _terminate(connection, _pids(connection, _LISTENERS)), None

    def _read_only(self, fault: Fault) -> tuple[bool, Undo | None]:
        self._set_read_only(True)
        return True, lambda: self._set_read_only(False)

    def _set_read_only(self, value: bool) -> None:
        """For all sessions from now on; the present ones are ended, as a failover would."""
        with self._postgres() as connection:
            name = sql.Identifier(connection.info.dbname)
            how = sql.SQL("SET default_transaction_read_only = on" if value else "RESET default_transaction_read_only")
            connection.execute(sql.SQL("ALTER DATABASE {} {}").format(name, how))
            _terminate(connection, _pids(connection, _OTHERS))

    # ---- Redis ----

    def _redis(self) -> redis.Redis:
        return redis.Redis.from_url(self._addresses.redis_url, socket_timeout=3, socket_connect_timeout=2)

    def _flush(self, fault: Fault) -> tuple[bool, Undo | None]:
        with self._redis() as client:
            client.flushall()
        return True, None

    def _drop_inbox(self, fault: Fault) -> tuple[bool, Undo | None]:
        """Preferring a stream that has something in it; streams without readers' delay are empty and not there."""
        with self._redis() as client:
            streams = cast("list[bytes]", sorted(client.scan_iter(match=f"{self._prefix}inbox:*", count=1000)))
            full = [key for key in streams if client.xlen(key)] or streams
            if full:
                client.delete(full[int(fault.choice * len(full)) % len(full)])
        return bool(full), None

    def _cut_all(self, fault: Fault) -> tuple[bool, Undo | None]:
        with self._redis() as client:
            client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        return True, None

    def _full(self, fault: Fault) -> tuple[bool, Undo | None]:
        self._limit_memory(_FULL_BYTES)
        return True, lambda: self._limit_memory(0)

    def _limit_memory(self, most: int) -> None:
        with self._redis() as client:
            client.config_set("maxmemory", most)


def _pids(connection: psycopg.Connection, query: LiteralString) -> list[int]:
    return [pid for (pid,) in connection.execute(query)]


def _terminate(connection: psycopg.Connection, pids: list[int]) -> bool:
    """Whether there was one to end."""
    row = connection.execute(
        "SELECT count(*) FROM unnest(%s::int[]) p WHERE pg_terminate_backend(p)", [pids]
    ).fetchone()
    return row is not None and row[0] > 0


def _is_first(process: psutil.Process) -> bool:
    """Not a child of a server of its own kind, as PostgreSQL's backends are."""
    try:
        parent = process.parent()
        return parent is None or parent.name() != process.name()
    except psutil.Error:
        return False


def _resume(stopped: list[psutil.Process]) -> None:
    for process in stopped:
        if process.is_running():  # the very same one, not a later one with its pid
            process.resume()
