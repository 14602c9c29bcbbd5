"""What the audit reads: the ledger and what stands beside it, in plain queries that share nothing with the daemons."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

import psycopg
import redis

from apps.executions import ids
from apps.executions.states import ACTIVE, RESTING, Origin, Outcome, Status
from apps.quickstart.chaos.plan import FLEET
from chronoweb.runtime import postgres


class Row(NamedTuple):
    """One execution. serial: the trigger that asked for it, where there is one."""

    id: bytes
    task_id: bytes
    status: Status
    attempt: int
    max_attempts: int
    token: int
    nominal_at: datetime | None
    origin: Origin
    serial: int | None


class Tried(NamedTuple):
    """One row of `attempts`."""

    attempt: int
    token: int
    outcome: Outcome


_ROWS = """
SELECT id, task_id, status, attempt, max_attempts, token, nominal_at, origin, (payload ->> 'serial')::int
FROM executions WHERE task_id = ANY(%s::uuid[]) AND scheduled_at >= %s
"""
_ATTEMPTS = """
SELECT execution_id, attempt, token, outcome FROM attempts WHERE scheduled_at >= %s ORDER BY token, attempt
"""
_UNFINISHED = "SELECT count(*) FROM executions WHERE task_id = ANY(%s::uuid[]) AND NOT status = ANY(%s)"
_COMPLETED = "SELECT count(*) FROM executions WHERE task_id = ANY(%s::uuid[]) AND status = %s"
_SKIPS_WITHOUT_REASON = """
SELECT count(*) FROM executions e WHERE e.status = %s AND NOT EXISTS (
    SELECT 1 FROM execution_events x
    WHERE x.scheduled_at = e.scheduled_at AND x.execution_id = e.id AND x.target = e.status AND x.reason <> '')
"""
_OVERDUE = """
SELECT count(*) FROM executions WHERE status = %s AND run_at < clock_timestamp() - interval '5 seconds'
"""


_EVER = datetime(1970, 1, 1, tzinfo=UTC)


class Ledger:
    """A connection that is made again when it was cut. since: leave out what was due earlier."""

    def __init__(self, url: str, tasks: Sequence[str], *, since: datetime = _EVER) -> None:
        self._url = url
        self._since = since
        self._tasks = [UUID(task) for task in tasks]
        self._connection: psycopg.Connection | None = None

    def _open(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed or self._connection.broken:
            self._connection = postgres.connect("chaos-audit", url=self._url, hot=False)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _count(self, query: str, *parameters: object) -> int:
        row = self._open().execute(query, parameters).fetchone()
        assert row is not None
        return row[0]

    def now(self) -> datetime:
        """The database's time."""
        row = self._open().execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def snapshot(self) -> Iterator[psycopg.Connection]:
        """While open, all that is read is of one moment."""
        connection = self._open()
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield connection

    def completed(self) -> int:
        return self._count(_COMPLETED, self._tasks, Status.COMPLETED)

    def unfinished(self) -> int:
        """Executions that are not at rest."""
        return self._count(_UNFINISHED, self._tasks, [int(status) for status in RESTING])

    def outstanding(self) -> int:
        return self._count("SELECT count(*) FROM outstanding")

    def workers(self) -> int:
        """Registered workers whose lease stands."""
        return self._count("SELECT count(*) FROM workers WHERE state = 'active' AND lease_expires_at > now()")

    def is_staffed(self) -> bool:
        return self.workers() >= FLEET["worker"]

    def rows(self) -> dict[bytes, Row]:
        found = {}
        for row in self._open().cursor(binary=True).execute(_ROWS, (self._tasks, self._since)):
            identity, task, status, attempt, limit, token, nominal, origin, serial = row
            found[identity] = Row(
                identity, task, Status(status), attempt, limit, token, nominal, Origin(origin), serial
            )
        return found

    def attempts(self) -> dict[bytes, list[Tried]]:
        """Of each execution, in the order of tokens."""
        found: dict[bytes, list[Tried]] = {}
        rows = self._open().cursor(binary=True).execute(_ATTEMPTS, (self._since,))
        for identity, attempt, token, outcome in rows:
            found.setdefault(identity, []).append(Tried(attempt, token, Outcome(outcome)))
        return found

    def reclaims(self) -> Mapping[str, int]:
        """How often the watchdog and new dispatchers took work back, by reason."""
        query = "SELECT reason, count(*) FROM execution_events WHERE source = ANY(%s) GROUP BY reason ORDER BY reason"
        return dict(self._open().execute(query, [[int(status) for status in ACTIVE]]).fetchall())

    def leftovers(self) -> dict[str, int]:
        """What must be empty when everything rests."""
        found = {
            table: self._count(f"SELECT count(*) FROM {table}")  # noqa: S608 - names of ours
            for table in ("outstanding", "slots", "slot_waiters")
        }
        found["preloaded_overdue"] = self._count(_OVERDUE, Status.PRELOADED)
        found["skipped_without_reason"] = self._count(_SKIPS_WITHOUT_REASON, Status.SKIPPED)
        found["dead_letters_amiss"] = self._count(
            "SELECT abs((SELECT count(*) FROM executions WHERE status = %s) - (SELECT count(*) FROM dead_letters))",
            Status.DEAD_LETTER,
        )
        return found


def in_flight(url: str, prefix: str) -> int:
    """Ticks that some dispatcher popped and nobody has confirmed or settled."""
    with redis.Redis.from_url(url) as client:
        return sum(int(client.hlen(f"{prefix}{{{shard}}}:inflight")) for shard in range(ids.SHARDS))
