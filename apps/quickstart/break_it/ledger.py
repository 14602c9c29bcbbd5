"""What the ledger says of the load: the promises, by the audit of `manage.py chaos`, and how each execution stands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.states import ACTIVE, Status
from apps.quickstart.break_it.load import LOAD
from apps.quickstart.break_it.notes import Notes
from apps.quickstart.chaos import audit
from apps.quickstart.chaos.ledger import Ledger

_STANDING = """
SELECT id, status, token, attempt, coalesce(worker_id, 0), run_at, started_at, finished_at FROM executions
WHERE scheduled_at >= %s AND scheduled_at <= %s AND id = ANY(%s::uuid[])
"""
_BUSIEST = """
SELECT w.process_id FROM workers w LEFT JOIN outstanding o ON o.worker_id = w.id
WHERE w.state = 'active' AND w.process_id = ANY(%s) GROUP BY w.id ORDER BY count(o.execution_id) DESC, w.id LIMIT 1
"""
_WORKERS = "SELECT w.process_id, w.id FROM workers w WHERE w.process_id = ANY(%s) ORDER BY w.id"
_FLYING = "SELECT o.execution_id, o.token FROM outstanding o WHERE o.execution_id = ANY(%s::uuid[])"
_TICK = timedelta(milliseconds=1)


@dataclass(frozen=True)
class Standing:
    """One execution of the load. worker: that has it or had it last; 0: none yet."""

    id: UUID
    status: Status
    token: int
    attempt: int
    worker: int
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True)
class Reading:
    """All of one moment. broken: promise → how often it was broken; each must be zero.

    workers: of the processes that were asked about, by pid, those that are workers by now, with their names.
    """

    now: datetime
    standing: dict[UUID, Standing] = field(default_factory=dict)
    broken: dict[str, int] = field(default_factory=dict)
    accepted: int = 0
    workers: dict[int, str] = field(default_factory=dict)

    def count(self, *wanted: Status) -> int:
        return sum(one.status in wanted for one in self.standing.values())

    @property
    def flying(self) -> int:
        return self.count(*ACTIVE)


def read(url: str, notes: Notes, pids: Sequence[int] = ()) -> Reading:
    """Four statements over the rows of the latest loads. Raises psycopg.Error while PostgreSQL is away."""
    accepted = notes.accepted
    first, last = (_due(min(accepted)), _due(max(accepted))) if accepted else (ids.EARLIEST, ids.EARLIEST)
    ledger = Ledger(url, [str(notes.task)] if notes.task else [], since=first)
    try:
        with ledger.snapshot() as connection:
            now, workers = ledger.now(), _workers(connection, pids)
            if not accepted:
                return Reading(now, workers=workers)
            mine = {identity.bytes for identity in accepted}
            rows = {identity: row for identity, row in ledger.rows().items() if identity in mine}
            attempts = {identity: tried for identity, tried in ledger.attempts().items() if identity in mine}
            found = connection.cursor(binary=True).execute(_STANDING, (first, last + _TICK, accepted))
            standing = [Standing(UUID(bytes=identity), Status(status), *rest) for identity, status, *rest in found]
        findings = audit.examine_live(accepted=dict.fromkeys(mine, LOAD), rows=rows, attempts=attempts)
        return Reading(now, {one.id: one for one in standing}, findings.broken, len(accepted), workers)
    finally:
        ledger.close()


def flying(url: str, notes: Notes) -> dict[UUID, int]:
    """What of the load is dispatched or running now, with its token."""
    ledger = Ledger(url, [])
    try:
        with ledger.snapshot() as connection:
            found = connection.cursor(binary=True).execute(_FLYING, (notes.accepted,))
            return {UUID(bytes=identity): token for identity, token in found}
    finally:
        ledger.close()


def workers(url: str, pids: Sequence[int]) -> dict[int, str]:
    """As Reading.workers."""
    ledger = Ledger(url, [])
    try:
        with ledger.snapshot() as connection:
            return _workers(connection, pids)
    finally:
        ledger.close()


def _workers(connection: psycopg.Connection, pids: Sequence[int]) -> dict[int, str]:
    """Numbers of processes come again: the last that had one is meant."""
    return {pid: f"worker-{identity}" for pid, identity in connection.execute(_WORKERS, (list(pids),))}


def busiest(url: str, pids: Sequence[int]) -> int | None:
    """The process, of these, of the worker that has most to do."""
    ledger = Ledger(url, [])
    try:
        with ledger.snapshot() as connection:
            row = connection.execute(_BUSIEST, (list(pids),)).fetchone()
            return None if row is None else row[0]
    finally:
        ledger.close()


def _due(identity: UUID) -> datetime:
    return ids.scheduled_at(identity) or ids.EARLIEST
