"""What is known about one execution: one statement to the ledger, two round trips to Redis."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.labels import required_by
from apps.executions.quotas import Use
from apps.executions.states import ExecutionClass, Hold, Origin, Status
from apps.executions.store import named_sql
from apps.executions.store.statements import bounds_of
from apps.explain.fleet import Fleet, Line
from apps.explain.queue import Queue
from chronoweb.runtime.errors import NotFound

SHOWN = 5
"""Who holds a key's places: at most so many are named."""
BOUND = 1001
"""Counts of who waits end here."""
RUNS = 50
"""Of so many of its task's runs is known how long they took."""

_JSONB = 3802
_EVERYTHING = UUID(int=0)


@dataclass(frozen=True, slots=True)
class StandingHold:
    """A flag on the task, the tenant or everything."""

    target: UUID
    reason: Hold
    note: str
    actor: str
    since: datetime


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """One quota in its window, in the unit that people use. most: None: no limit."""

    use: Use
    used: int
    most: int | None
    until: datetime | None

    @property
    def is_over(self) -> bool:
        return self.most is not None and self.used >= self.most


@dataclass(frozen=True, slots=True)
class CircuitNow:
    """How the circuit of its handler stands."""

    quarantine_until: datetime | None
    slow_start_until: datetime | None
    admit_below: int
    opened_at: datetime | None
    last_error: str | None
    failures: int
    id: int


@dataclass(frozen=True)
class Facts:
    """Everything that reasons are made from. Names are the ledger's; `now` is the database's clock.

    fleet: what live workers say; None: Redis is away. line: its place in the hot tier; None: it is not there, or Redis
    is away. queue: what the hot tier says of its tenant's work. class_outstanding: of its tenant; the platform's are
    told of all. ended_last_minute: on workers of its tenant's own, or of all; None: not to be told. run_seconds: how
    long its task's last runs took, the median, where it waits for one of its key; held_since: when the first of those
    that hold the places began. first_lot: whether
    nobody that waits for its circuit goes before it.
    """

    now: datetime
    id: UUID
    status: Status
    hold: Hold
    origin: Origin
    execution_class: ExecutionClass
    attempt: int
    max_attempts: int
    run_at: datetime
    tenant_id: UUID
    task_id: UUID
    wake_at: datetime | None = None
    dispatched_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_requested_at: datetime | None = None
    worker_id: int | None = None
    concurrency_key: str | None = None
    places: int = 0
    when_full: str = "queue"
    places_taken: int = 0
    place_holders: tuple[UUID, ...] = ()
    slot_holder: UUID | None = None
    waiters_ahead: int = 0
    error: Any = None
    again: bool = False
    lot: int = 0
    circuit_key: str | None = None
    circuit: CircuitNow | None = None
    requires: tuple[str, ...] = ()
    holds: tuple[StandingHold, ...] = ()
    quotas: tuple[QuotaUse, ...] = ()
    max_concurrent_workers: int | None = None
    rate_limit_rps: int | None = None
    tenant_outstanding: int = 0
    class_outstanding: int = 0
    leases: Mapping[str, datetime] = field(default_factory=dict)
    waiting_ahead: int = 0
    ended_last_minute: int | None = None
    event: Mapping[str, Any] | None = None
    node: Mapping[str, Any] | None = None
    dag_run_id: UUID | None = None
    fleet: Fleet | None = None
    line: Line | None = None
    queue: Queue = field(default_factory=Queue)
    run_seconds: float | None = None
    held_since: datetime | None = None
    first_lot: bool = False

    @property
    def over_rate(self) -> int | None:
        """The tenant's rate, where a dispatcher has just found it used up."""
        return self.queue.over_rate

    @property
    def shard(self) -> int:
        return ids.shard(self.id.bytes)

    def held(self, target: UUID, reason: Hold) -> StandingHold | None:
        return next((hold for hold in self.holds if hold.target == target and hold.reason is reason), None)

    @property
    def frozen_everything(self) -> StandingHold | None:
        return self.held(_EVERYTHING, Hold.FROZEN)


def read(connection: psycopg.Connection, *, execution_id: UUID, tenant_id: UUID, whole: bool = False) -> dict[str, Any]:
    """What the ledger says of an execution of the tenant. whole: counts take in what other tenants run, which the
    platform alone may know. Raises NotFound.
    """
    scheduled = ids.scheduled_at(execution_id)
    row = None
    if scheduled is not None:
        day = bounds_of(ids.day(execution_id.bytes))
        parameters = {
            "id": execution_id,
            "scheduled": scheduled,
            "tenant": tenant_id,
            "whole": whole,
            "shown": SHOWN,
            "bound": BOUND,
            "runs": RUNS,
            "day_begins": day["since"],
            "day_ends": day["until"],
        }
        # The parents, not the day's partitions: there may be none of that day. Their key is given, so one is read.
        row = first_row(connection.execute(named_sql("explain"), parameters))
    if row is None:
        raise NotFound(f"no execution with id {execution_id}")
    if whole and row["ended_last_minute"] is None:
        row["ended_last_minute"] = 0  # no worker lives
    return row


def facts_of(row: dict[str, Any], *, fleet: Fleet | None, line: Line | None, queue: Queue) -> Facts:
    """The row of `read` and what Redis says, as facts. Pure."""
    definition = row["definition"]
    concurrency = definition.get("concurrency") or {}
    same = {
        name: row[name]
        for name in (
            "now", "id", "attempt", "max_attempts", "run_at", "tenant_id", "task_id", "wake_at", "dispatched_at",
            "started_at", "finished_at", "cancel_requested_at", "worker_id", "concurrency_key", "places_taken",
            "slot_holder", "waiters_ahead", "error", "again", "lot", "circuit_key", "max_concurrent_workers",
            "rate_limit_rps", "tenant_outstanding", "class_outstanding", "waiting_ahead", "ended_last_minute", "event",
            "node", "dag_run_id", "run_seconds", "held_since", "first_lot",
        )
    }  # fmt: skip
    return Facts(
        **same,
        status=Status(row["status"]),
        hold=Hold(row["hold"]),
        origin=Origin(row["origin"]),
        execution_class=ExecutionClass(row["class"]),
        places=concurrency.get("limit", 1),
        when_full=concurrency.get("when_full", "queue"),
        place_holders=tuple(UUID(one) for one in row["place_holders"] or ()),
        circuit=_circuit(row["circuit"]),
        requires=tuple(row["labels"] or required_by(definition)),
        holds=tuple(_hold(one) for one in row["holds"] or ()),
        quotas=tuple(_quota(one) for one in row["quotas"] or ()),
        leases={role: datetime.fromisoformat(until) for role, until in (row["leases"] or {}).items()},
        fleet=fleet,
        line=line,
        queue=queue,
    )


def first_row(cursor: psycopg.Cursor) -> dict[str, Any] | None:
    """The first row by column names; JSON as objects, which Django's connections leave as text."""
    found = cursor.fetchone()
    if found is None or cursor.description is None:
        return None
    return {
        column.name: json.loads(value) if column.type_code == _JSONB and isinstance(value, str) else value
        for column, value in zip(cursor.description, found, strict=True)
    }


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _hold(one: dict[str, Any]) -> StandingHold:
    since = datetime.fromisoformat(one["since"])
    return StandingHold(UUID(one["target"]), Hold(one["reason"]), one["note"], one["actor"], since)


def _quota(one: dict[str, Any]) -> QuotaUse:
    return QuotaUse(Use(one["kind"]), one["used"], one["most"], instant(one["until"]))


def _circuit(one: dict[str, Any] | None) -> CircuitNow | None:
    if one is None:
        return None
    return CircuitNow(
        quarantine_until=instant(one["quarantine_until"]),
        slow_start_until=instant(one["slow_start_until"]),
        admit_below=one["admit_below"],
        opened_at=instant(one["opened_at"]),
        last_error=one["last_error"],
        failures=one["failures"],
        id=one["id"],
    )
