"""The statements of sql/person.sql: what persons do to executions, inside a transaction of the caller's.

Connections come from `postgres.raw` (or are psycopg connections in a transaction). Nothing here judges: the callers
lock, decide, and write what they have decided; each write names the status that it expects.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from apps.executions import ids, store
from apps.executions.dags.settle import settle
from apps.executions.states import ACTIVE, RESTING, Hold, Origin, Status, may
from apps.executions.store import named_sql
from apps.executions.store.statements import encoded
from chronoweb.runtime.postgres import instants, int2s, texts, uuids

CHUNK = 1000
"""Rows of one UPDATE."""


class Pending(NamedTuple):
    """An execution that the caller has locked and no worker has."""

    id: bytes
    scheduled_us: int
    nominal_at: datetime | None
    run_at: datetime
    status: Status
    hold: Hold
    origin: Origin
    attempt: int
    slot_key: str | None
    concurrency_key: str | None

    @property
    def waits_for(self) -> str | None:
        """The key of the slot in whose queue it stands."""
        return {Hold.OVERLAP: self.slot_key, Hold.CONCURRENCY: self.concurrency_key}.get(self.hold)


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of one locked execution. reason: for its events; None when the change is not worth one.

    run_at is used by `rewrite` alone.
    """

    row: Pending
    target: Status
    hold: Hold = Hold.NONE
    reason: str | None = None
    run_at: datetime | None = None


def database_now(connection: psycopg.Connection) -> datetime:
    """PostgreSQL's clock, aware UTC: what decides "now" for whatever is written."""
    row = connection.execute(named_sql("database_now"), prepare=True).fetchone()
    assert row is not None
    return row[0]


def lock_pending(connection: psycopg.Connection, *, task_id: UUID, since: datetime) -> list[Pending]:
    """The task's executions with scheduled_at from `since` on that are not sent to a worker."""
    parameters = {"task": task_id, "since": since}
    return _pending(connection, "lock_pending", parameters)


def lock_pending_of(
    connection: psycopg.Connection, *, tasks: Sequence[UUID], since: datetime
) -> list[tuple[UUID, Pending]]:
    """The same of several tasks: (task, execution), in the order of the executions."""
    if not tasks:
        return []
    cursor = connection.cursor(binary=True)
    rows = cursor.execute(named_sql("lock_pending_of"), {"tasks": list(tasks), "since": since}, prepare=True)
    return [(UUID(bytes=bytes(task)), _row(*fields)) for *fields, task in rows]


def lock_several(connection: psycopg.Connection, *, identities: Sequence[UUID], tenant_id: UUID) -> list[Pending]:
    """Those of the executions that are the tenant's, in whatever state, in the order of their ids."""
    scheduled = {moment for identity in identities if (moment := ids.scheduled_at(identity))}
    return _pending(
        connection, "lock_several", {"ids": list(identities), "scheduled": list(scheduled), "tenant": tenant_id}
    )


def request_cancels(connection: psycopg.Connection, rows: Sequence[Pending], *, actor: str, reason: str) -> int:
    """Ask the workers that have these locked executions to stop. Returns how many had not been asked before."""
    asked = 0
    for day, group in _chunks([Move(row, row.status) for row in rows]):
        where = {"ids": uuids([m.row.id for m in group]), "scheduled": instants([m.row.scheduled_us for m in group])}
        found = connection.execute(named_sql("request_cancels", day), where | {"actor": actor, "reason": reason})
        asked += len(found.fetchall())
    return asked


def lock_superseded(connection: psycopg.Connection, *, task_id: UUID, since: datetime, reason: str) -> list[Pending]:
    """The task's cancelled occurrences after `since` whose last event's reason begins with `reason`."""
    parameters = {"task": task_id, "since": since, "reason": reason}
    return _pending(connection, "lock_superseded", parameters)


def move(connection: psycopg.Connection, moves: Sequence[Move], *, actor: str) -> int:
    """Write states and holds; returns how many rows were written. What rests frees its slot for the next waiter, and
    its run, if it belongs to one, hears of it.
    """
    written = 0
    for day, group in _chunks(moves):
        parameters = _arrays(group) | {
            "targets": int2s([m.target for m in group]),
            "actor": actor,
        }
        written += len(connection.execute(named_sql("move_pending", day), parameters).fetchall())
    keys = {m.row.slot_key for m in moves if m.row.slot_key and m.target in RESTING}
    if keys:
        store.wake_waiters(connection, sorted(keys))
    settle(connection, [m.row.id for m in moves if m.target in RESTING])
    return written


def rewrite(
    connection: psycopg.Connection,
    moves: Sequence[Move],
    *,
    plan: dict[str, Any],
    actor: str,
    keys: Mapping[bytes, str | None] | None = None,
) -> int:
    """Give rows of one task the terms of `plan` (definitions.plans.plan_of) and their new run_at.

    keys: the concurrency keys of rows that have been tried before, whose attempts go on counting; None: the plan's.
    """
    written = 0
    for day, group in _chunks(moves):
        parameters = _arrays(group) | {
            "runs": instants([ids.to_us(m.run_at or m.row.run_at) for m in group]),
            "version_id": plan["version_id"],
            "max_attempts": plan["max_attempts"],
            "class": plan["class_index"],
            "priority": plan["priority"],
            "overlap": int(plan["overlap"]),
            "slot_key": plan["slot_key"],
            "keys": texts([_encoded_key(plan, keys, m.row.id) for m in group]),
            "tried": keys is not None,
            "queue_seconds": plan["queue_seconds"],
            "route_id": plan["route_id"],
            "waits": texts([encoded(m.row.waits_for) for m in group]),
            "actor": actor,
        }
        written += len(connection.execute(named_sql("rewrite_pending", day), parameters).fetchall())
    return written


def _encoded_key(plan: dict[str, Any], keys: Mapping[bytes, str | None] | None, identity: bytes) -> bytes | None:
    return encoded(plan["concurrency_key"] if keys is None else keys[identity])


def _pending(connection: psycopg.Connection, query: str, parameters: dict[str, Any]) -> list[Pending]:
    # Planning goes through all days ahead, which costs more than what is asked; so the plan is kept.
    cursor = connection.cursor(binary=True)
    return [_row(*fields) for fields in cursor.execute(named_sql(query), parameters, prepare=True)]


def _row(*fields: Any) -> Pending:
    identity, us, nominal, run, status, hold, origin, attempt, slot, key = fields
    return Pending(identity, us, nominal, run, Status(status), Hold(hold), Origin(origin), attempt, slot, key)


def _arrays(group: Sequence[Move]) -> dict[str, Any]:
    for move_ in group:
        # Only a worker makes something run.
        legal = may(move_.row.status, move_.target) and move_.target not in ACTIVE
        assert move_.target is move_.row.status or legal, move_
    return {
        "ids": uuids([m.row.id for m in group]),
        "scheduled": instants([m.row.scheduled_us for m in group]),
        "sources": int2s([m.row.status for m in group]),
        "holds": int2s([m.hold for m in group]),
        "reasons": texts([None if m.reason is None else m.reason.encode() for m in group]),
    }


def _chunks(moves: Sequence[Move]) -> Iterator[tuple[int, list[Move]]]:
    """By day, CHUNK at most: one statement names one partition."""
    for day, positions in ids.by_day([m.row.id for m in moves]):
        for start in range(0, len(positions), CHUNK):
            yield day, [moves[p] for p in positions[start : start + CHUNK]]


def lock_one(connection: psycopg.Connection, *, identity: UUID, tenant_id: UUID) -> Pending | None:
    """One execution of the tenant, in whatever state; None if there is none."""
    scheduled = ids.scheduled_at(identity)
    if scheduled is None:
        return None
    found = _pending(connection, "lock_one", {"id": identity, "scheduled": scheduled, "tenant": tenant_id})
    return found[0] if found else None


def act(connection: psycopg.Connection, statement: str, row: Pending, **parameters: Any) -> bool:
    """Run `replay`, `discard` or `request_cancel` on a locked row; False if it was not in the state for it."""
    where = {"id": UUID(bytes=row.id), "scheduled": ids.from_us(row.scheduled_us)}
    found = connection.execute(named_sql(statement, ids.day(row.id)), parameters | where)
    return found.fetchone() is not None


def task_is_deleted(connection: psycopg.Connection, *, task_id: UUID) -> bool:
    """Whether dispatch refuses everything of the task for good."""
    row = connection.execute(named_sql("task_is_deleted"), {"task": task_id}).fetchone()
    return row == (True,)
