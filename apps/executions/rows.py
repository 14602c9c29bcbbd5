"""What the ledger's statements take and answer: plain records, ids as 16 bytes, times in microseconds (UTC)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from apps.executions.states import Hold, Origin, Outcome, Overlap, Status


@dataclass(slots=True)
class NewExecution:
    """A row to be added. payload: parameters as JSON text; None: the version's own."""

    id: bytes
    scheduled_us: int
    run_us: int
    nominal_us: int | None
    tenant_id: bytes
    task_id: bytes
    version_id: int
    max_attempts: int
    class_index: int
    priority: int
    origin: Origin
    overlap: Overlap
    slot_key: str | None
    idempotency_key: str
    payload: bytes | None = None
    status: Status = Status.SCHEDULED
    hold: Hold = Hold.NONE
    rerun_of: bytes | None = None
    queue_seconds: int | None = None
    route_id: int = 0
    concurrency_key: str | None = None
    traceparent: str | None = None


class Queue(NamedTuple):
    """What the hot tier keeps apart: work of one class, tenant and route (the labels that its workers must carry)."""

    class_index: int
    tenant_id: bytes
    route_id: int = 0


class Preloaded(NamedTuple):
    """An execution for the hot tier. due_in_ms: run_at − PostgreSQL's now, so that clocks' skew never adds up."""

    id: bytes
    due_in_ms: float
    class_index: int
    tenant_id: bytes
    route_id: int = 0


class Dispatched(NamedTuple):
    """What the dispatch statement made of one popped execution: DISPATCHED, or refused with a status of its own.

    waits_for: the key whose places are taken, where it waits for one; displaces: whether others must make room for it.
    again: whether it is a retry of what failed. left_over: the concurrency key whose place it took for nothing, since
    another dispatcher was faster with its overlap slot. first: whether it is dispatched for the first time; no retry,
    replay, or what was taken from a lost worker, is: quotas count executions.
    """

    id: bytes
    token: int
    status: int
    worker_id: int | None
    class_index: int
    tenant_id: bytes
    waits_for: str | None
    displaces: bool | None
    run_at_us: int
    hold: int = 0
    again: bool = False
    left_over: str | None = None
    first: bool = True


class RetryRoom(NamedTuple):
    """How many retries each of some tenants may have dispatched now, and per minute; and every other tenant."""

    tenants: list[bytes]
    rooms: list[int]
    rates: list[int]
    room: int
    rate: int


class TenantLimit(NamedTuple):
    """What a tenant may have dispatched. None: no limit."""

    tenant_id: bytes
    weight: int
    max_concurrent: int | None
    rate_limit_rps: int | None
    per_hour: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether it has no limit and the common weight."""
        return self.weight == 1 and (self.max_concurrent, self.rate_limit_rps, self.per_hour) == (None, None, None)


class Whereabouts(NamedTuple):
    """Where an execution is now."""

    id: bytes
    status: int
    token: int
    worker_id: int | None
    class_index: int
    tenant_id: bytes
    due_in_ms: float
    route_id: int = 0


class Claimed(NamedTuple):
    """An execution that this worker has begun."""

    id: bytes
    token: int
    attempt: int
    max_attempts: int
    version_id: int
    tenant_id: bytes
    slot_key: str | None
    run_at_us: int
    nominal_at_us: int | None
    payload: str | None
    idempotency_key: str
    left_behind: str | None = None
    """An earlier attempt's checkpoint as JSON text; empty: it said something and left none; None: neither."""
    class_index: int = 1
    concurrency_key: str | None = None
    dag_run: bytes | None = None
    """The run that it is part of, as which node, and as which item of a mapped one."""
    dag_node: int | None = None
    dag_item: int | None = None
    traceparent: str | None = None


class KeptSecret(NamedTuple):
    """A tenant's secret: sealed, if store is "database"; place: where it is, if not. slug: the tenant's."""

    store: str
    sealed: str
    place: dict[str, str] | None
    slug: str


class VersionRow(NamedTuple):
    """A task version as a worker needs it."""

    id: int
    task_name: str
    tenant_slug: str
    definition: dict[str, Any]
    circuit_key: str | None


@dataclass(slots=True)
class Finish:
    """How one attempt ended, to be written. delay_us: until the next attempt, when target is RETRYING.

    circuit: what it tells its circuit ("S", "F" or ""), and told: the failure's message; neither is written with it.
    """

    id: bytes
    token: int
    attempt: int
    target: Status
    outcome: Outcome
    due_us: int
    started_us: int | None
    finished_us: int
    delay_us: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    fingerprint: bytes | None = None
    circuit: str = ""
    told: str | None = None


@dataclass(slots=True)
class Note:
    """What a running attempt says. done, total: None when there is nothing new; checkpoint: JSON text, likewise."""

    id: bytes
    token: int
    done: float | None = None
    total: float | None = None
    checkpoint: bytes | None = None


class WorkerLoad(NamedTuple):
    """What a worker is busy with. cpu_percent: of one core; completed and errors: in the last minute."""

    cpu_percent: float
    memory_bytes: int
    active: int
    completed: int
    errors: int


class WorkerRow(NamedTuple):
    """A worker that has not ended, as the watchdog sees it. Times in seconds since the epoch, database's clock."""

    id: int
    lease_over: bool
    heartbeat: float
    lock_held: bool
    postmaster_start: float
