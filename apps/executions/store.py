"""The one caller of sql/*.sql: each function is one statement on one day's partition, or a loop over days.

Connections are autocommit psycopg connections (runtime/postgres.py); one statement is one transaction. Ids travel as
packed arrays. A batch that PostgreSQL refuses for its data is the caller's to halve (executions/poison.py).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import psycopg

from apps.executions import ids, states
from apps.executions.partitions import TABLES
from apps.executions.rows import (
    Claimed,
    Dispatched,
    Finish,
    NewExecution,
    Note,
    Preloaded,
    RetryRoom,
    TenantLimit,
    VersionRow,
    Whereabouts,
    WorkerLoad,
    WorkerRow,
)
from chronoweb.runtime.postgres import PackedArray, instants, int2s, int8s, texts, uuids
from chronoweb.runtime.sql import NamedSql

named_sql = NamedSql(Path(__file__).parent / "sql", constants=states.sql_constants(), partitioned=tuple(TABLES))
Row = TypeVar("Row", bound=tuple[Any, ...])

UNLIMITED_RETRIES = RetryRoom([], [], [], 1_000_000, 1_000_000)


def _scheduled(identities: Sequence[bytes]) -> PackedArray:
    return instants([ids.milliseconds(i) * 1000 for i in identities])


def _rows(
    connection: psycopg.Connection, make: Callable[..., Row], query: str, parameters: dict[str, Any]
) -> list[Row]:
    cursor = connection.cursor(binary=True)
    return [make(*row) for row in cursor.execute(query, parameters)]


def _ids(connection: psycopg.Connection, query: str, parameters: dict[str, Any]) -> list[bytes]:
    return [row[0] for row in connection.cursor(binary=True).execute(query, parameters)]


def _text(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


# ---- preloader ----------------------------------------------------------------------------------------------------


def insert(connection: psycopg.Connection, rows: Sequence[NewExecution]) -> set[bytes]:
    """Add executions; returns the ids that were new. A row whose (tenant, key, scheduled_at) exists stays as it is.

    Raises psycopg.errors.CheckViolation when a day has no partition.
    """
    if not rows:
        return set()
    parameters = {
        "ids": uuids([r.id for r in rows]),
        "scheduled": instants([r.scheduled_us for r in rows]),
        "run": instants([r.run_us for r in rows]),
        "nominal": instants([r.nominal_us for r in rows]),
        "tenants": uuids([r.tenant_id for r in rows]),
        "tasks": uuids([r.task_id for r in rows]),
        "versions": int8s([r.version_id for r in rows]),
        "max_attempts": int8s([r.max_attempts for r in rows]),
        "statuses": int2s([r.status for r in rows]),
        "holds": int2s([r.hold for r in rows]),
        "classes": int2s([r.class_index for r in rows]),
        "priorities": int2s([r.priority for r in rows]),
        "origins": int2s([r.origin for r in rows]),
        "overlaps": int2s([r.overlap for r in rows]),
        "slot_keys": texts([_text(r.slot_key) for r in rows]),
        "keys": texts([r.idempotency_key.encode() for r in rows]),
        "payloads": texts([r.payload for r in rows]),
        "rerun_of": texts([None if r.rerun_of is None else r.rerun_of.hex().encode() for r in rows]),
        "queue_seconds": int8s([r.queue_seconds for r in rows]),
    }
    return set(_ids(connection, named_sql("insert_executions"), parameters))


def waiting_pairs(connection: psycopg.Connection, *, day: int, limit: int) -> list[tuple[int, bytes]]:
    """(class, tenant) of one day that have executions to look at, critical first."""
    cursor = connection.cursor(binary=True)
    return [(row[0], row[1]) for row in cursor.execute(named_sql("waiting_pairs", day), {"limit": limit})]


def hydrate(
    connection: psycopg.Connection,
    rooms: Mapping[tuple[int, bytes], int],
    *,
    day: int,
    lookahead_seconds: float,
    role: str,
    epoch: int,
) -> list[Preloaded]:
    """Mark what comes due as PRELOADED; the caller adds it to the hot tier after this has been committed.

    rooms: how many of each (class, tenant) at most.
    """
    parameters = {
        "classes": int2s([class_index for class_index, _ in rooms]),
        "tenants": uuids([tenant for _, tenant in rooms]),
        "rooms": int8s(list(rooms.values())),
        "lookahead": lookahead_seconds,
        "role": role,
        "epoch": epoch,
    }
    return _rows(connection, Preloaded, named_sql("hydrate", day), parameters)


def days_that_wait(connection: psycopg.Connection, days: Sequence[int]) -> list[int]:
    """Which of these days (all have partitions) have executions to look at, whenever they are due."""
    if not days:
        return []
    parts, parameters = [], {}
    for day in days:
        parts.append(named_sql("day_waits", day).replace("%(day)s", f"%(day{day})s"))
        parameters[f"day{day}"] = day
    return [row[0] for row in connection.execute(" UNION ALL ".join(parts), parameters)]


def evict(connection: psycopg.Connection, identities: list[bytes], *, role: str, epoch: int) -> list[bytes]:
    """Put PRELOADED executions back to SCHEDULED; the caller removes them from the hot tier afterwards."""
    evicted: list[bytes] = []
    for day, group in _groups(identities):
        parameters = {"ids": uuids(group), "scheduled": _scheduled(group), "role": role, "epoch": epoch}
        evicted += _ids(connection, named_sql("evict", day), parameters)
    return evicted


def preloaded_of_day(connection: psycopg.Connection, *, day: int, shards: Sequence[int]) -> list[Preloaded]:
    """Everything of one day that these shards of the hot tier should hold, due first first."""
    return _rows(connection, Preloaded, named_sql("preloaded_of_day", day), {"shards": list(shards)})


def record_events(
    connection: psycopg.Connection,
    rows: Sequence[NewExecution],
    *,
    source: states.Status | None,
    actor: str,
    reasons: Sequence[str],
) -> None:
    """Say why each of `rows` is in its state."""
    if not rows:
        return
    parameters = {
        "ids": uuids([r.id for r in rows]),
        "scheduled": instants([r.scheduled_us for r in rows]),
        "tenants": uuids([r.tenant_id for r in rows]),
        "sources": int2s([source for _ in rows]),
        "targets": int2s([r.status for r in rows]),
        "reasons": texts([reason.encode() for reason in reasons]),
        "actor": actor,
    }
    connection.execute(named_sql("record_events"), parameters)


# ---- dispatcher ---------------------------------------------------------------------------------------------------


def dispatch(
    connection: psycopg.Connection,
    identities: Sequence[bytes],
    workers: Sequence[int],
    *,
    window_ms: int,
    held: Mapping[int, int],
    retries: RetryRoom = UNLIMITED_RETRIES,
) -> list[Dispatched]:
    """Send popped executions of one day to `workers` (one for each id); ids must be sorted and of one day.

    held: shard → epoch of the shards that this process holds. retries: how many retries may go. What is missing from
    the answer is locked by another transaction, no longer PRELOADED, or of a shard whose epoch is stale.
    """
    parameters = {
        "ids": uuids(identities),
        "scheduled": _scheduled(identities),
        "workers": int8s(workers),
        "window": window_ms,
        "shards": int2s([ids.shard(i) for i in identities]),
        "held_shards": int2s(list(held)),
        "held_epochs": int8s(list(held.values())),
        "budget_tenants": uuids(retries.tenants),
        "budget_rooms": int8s(retries.rooms),
        "budget_rates": int8s(retries.rates),
        "budget_room": retries.room,
        "budget_rate": retries.rate,
    }
    return _rows(connection, Dispatched, named_sql("dispatch", ids.day(identities[0])), parameters)


def still_preloaded(connection: psycopg.Connection, identities: list[bytes]) -> set[bytes]:
    """Which of these are PRELOADED."""
    found: set[bytes] = set()
    for day, group in _groups(identities):
        parameters = {"ids": uuids(group), "scheduled": _scheduled(group)}
        found.update(_ids(connection, named_sql("still_preloaded", day), parameters))
    return found


def states_of(connection: psycopg.Connection, identities: list[bytes]) -> list[Whereabouts]:
    """Where these executions are."""
    found: list[Whereabouts] = []
    for day, group in _groups(identities):
        parameters = {"ids": uuids(group), "scheduled": _scheduled(group)}
        found += _rows(connection, Whereabouts, named_sql("states_of", day), parameters)
    return found


def outstanding_by_worker(connection: psycopg.Connection) -> dict[int, int]:
    """How many executions each worker has been sent and has not ended."""
    parameters = {"since": ids.EARLIEST}
    return dict(connection.execute(named_sql("outstanding_by_worker"), parameters).fetchall())


def limited_tenants(connection: psycopg.Connection) -> list[TenantLimit]:
    """Tenants whose weight is not 1 or that have a limit, with what they have outstanding."""
    return _rows(connection, TenantLimit, named_sql("limited_tenants"), {"plain": 1})


def request_cancel_of_slot_holders(connection: psycopg.Connection, keys: Sequence[str]) -> list[bytes]:
    """Ask what holds these slots to stop."""
    return _ids(connection, named_sql("request_cancel_of_slot_holders"), {"keys": list(keys)})


# ---- worker -------------------------------------------------------------------------------------------------------


def claim(
    connection: psycopg.Connection, identities: Sequence[bytes], tokens: Sequence[int], *, worker_id: int
) -> list[Claimed]:
    """Begin executions of one day; what is missing from the answer is not this worker's to run."""
    parameters = {
        "ids": uuids(identities),
        "scheduled": _scheduled(identities),
        "tokens": int8s(tokens),
        "worker": worker_id,
    }
    return _rows(connection, Claimed, named_sql("claim", ids.day(identities[0])), parameters)


def adopt(
    connection: psycopg.Connection, identities: Sequence[bytes], tokens: Sequence[int], *, worker_id: int
) -> None:
    """Note that this worker has received what was sent to another's inbox; call it before the claim."""
    parameters = {"ids": uuids(identities), "tokens": int8s(tokens), "worker": worker_id}
    connection.execute(named_sql("adopt"), parameters)


def versions_of(connection: psycopg.Connection, versions: Sequence[int]) -> list[VersionRow]:
    """What these task versions say."""
    return [VersionRow(*row) for row in connection.execute(named_sql("versions_of"), {"versions": list(versions)})]


def webhook_secrets_of(
    connection: psycopg.Connection, tenants: Sequence[bytes], *, overlap_seconds: float
) -> dict[bytes, tuple[str, ...]]:
    """What the tenants' webhooks are signed with, the secret in force first."""
    parameters = {"tenants": uuids(tenants), "overlap": overlap_seconds}
    cursor = connection.cursor(binary=True)
    rows = cursor.execute(named_sql("webhook_secrets_of"), parameters)
    return {tenant: tuple(secret for secret in secrets if secret) for tenant, *secrets in rows}


def release(
    connection: psycopg.Connection, identities: list[bytes], tokens: Sequence[int], *, worker_id: int
) -> list[bytes]:
    """Give executions back, uncounted; returns the ids that were this worker's."""
    released: list[bytes] = []
    for day, positions in ids.by_day(identities):
        group = [identities[p] for p in positions]
        parameters = {
            "ids": uuids(group),
            "scheduled": _scheduled(group),
            "tokens": int8s([tokens[p] for p in positions]),
            "worker": worker_id,
        }
        released += _ids(connection, named_sql("release", day), parameters)
    return released


def finish(connection: psycopg.Connection, ends: Sequence[Finish], *, worker_id: int) -> set[bytes]:
    """Write how attempts of one day ended; returns the ids that were written. `ends` must be sorted by id."""
    identities = [e.id for e in ends]
    parameters = {
        "ids": uuids(identities),
        "scheduled": _scheduled(identities),
        "tokens": int8s([e.token for e in ends]),
        "attempts": int8s([e.attempt for e in ends]),
        "targets": int2s([e.target for e in ends]),
        "outcomes": int2s([e.outcome for e in ends]),
        "due": instants([e.due_us for e in ends]),
        "started": instants([e.started_us for e in ends]),
        "finished": instants([e.finished_us for e in ends]),
        "delays": int8s([e.delay_us for e in ends]),
        "results": texts([e.result for e in ends]),
        "errors": texts([e.error for e in ends]),
        "fingerprints": texts([e.fingerprint for e in ends]),
        "worker": worker_id,
    }
    return set(_ids(connection, named_sql("finish", ids.day(identities[0])), parameters))


def attempts_written(
    connection: psycopg.Connection, ends: Sequence[Finish], *, worker_id: int
) -> set[tuple[bytes, int]]:
    """(id, token) of those `ends` that this worker has written before."""
    found: set[tuple[bytes, int]] = set()
    for day, positions in ids.by_day([end.id for end in ends]):
        group = [ends[p] for p in positions]
        parameters = {
            "ids": uuids([end.id for end in group]),
            "scheduled": _scheduled([end.id for end in group]),
            "tokens": int8s([end.token for end in group]),
            "finished": instants([end.finished_us for end in group]),
            "worker": worker_id,
        }
        found.update(connection.cursor(binary=True).execute(named_sql("attempts_written", day), parameters))
    return found


def note_started(connection: psycopg.Connection, running: Sequence[tuple[bytes, int, int]], *, worker_id: int) -> None:
    """Write the real start (microseconds) of (id, token, started) that run for longer."""
    for day, positions in ids.by_day([r[0] for r in running]):
        group = [running[p] for p in positions]
        parameters = {
            "ids": uuids([r[0] for r in group]),
            "scheduled": _scheduled([r[0] for r in group]),
            "tokens": int8s([r[1] for r in group]),
            "started": instants([r[2] for r in group]),
            "worker": worker_id,
        }
        connection.execute(named_sql("note_started", day), parameters)


def note_progress(connection: psycopg.Connection, notes: Sequence[Note], *, worker_id: int) -> set[bytes]:
    """Keep what running attempts say; returns the ids that were this worker's still. `notes` must be sorted by id."""
    written: set[bytes] = set()
    for day, positions in ids.by_day([note.id for note in notes]):
        group = [notes[p] for p in positions]
        identities = [note.id for note in group]
        parameters = {
            "ids": uuids(identities),
            "scheduled": _scheduled(identities),
            "tokens": int8s([note.token for note in group]),
            "done": [note.done for note in group],
            "total": [note.total for note in group],
            "checkpoints": texts([note.checkpoint for note in group]),
            "worker": worker_id,
        }
        written.update(_ids(connection, named_sql("note_progress", day), parameters))
    return written


def forget_progress(connection: psycopg.Connection, identities: list[bytes]) -> None:
    """Drop what attempts of these executions said, of those that rest."""
    for day, group in _groups(identities):
        parameters = {"ids": uuids(group), "scheduled": _scheduled(group)}
        connection.execute(named_sql("forget_progress", day), parameters)


def first_starts(connection: psycopg.Connection, begun: Sequence[tuple[bytes, int]]) -> dict[bytes, int]:
    """When the first counted attempt of each execution began (microseconds); what has had none is missing.

    begun: (id, number of the attempt after which attempts count).
    """
    found: dict[bytes, int] = {}
    for day, positions in ids.by_day([identity for identity, _ in begun]):
        group = [begun[p] for p in positions]
        identities = [identity for identity, _ in group]
        parameters = {
            "ids": uuids(identities),
            "scheduled": _scheduled(identities),
            "after": int8s([after for _, after in group]),
        }
        cursor = connection.cursor(binary=True)
        found.update(cursor.execute(named_sql("first_starts", day), parameters).fetchall())
    return found


def to_cancel(connection: psycopg.Connection, *, worker_id: int) -> list[bytes]:
    """What this worker runs and is asked to stop."""
    return _ids(connection, named_sql("to_cancel"), {"worker": worker_id})


def wake_waiters(connection: psycopg.Connection, keys: Sequence[str]) -> list[bytes]:
    """Let the oldest waiter of each of these slots be dispatched, if the slot is free."""
    waited_for = [row[0] for row in connection.execute(named_sql("waited_for"), {"keys": list(keys)})]
    return _ids(connection, named_sql("wake_waiters"), {"keys": sorted(waited_for)}) if waited_for else []


def register_worker(
    connection: psycopg.Connection, *, host: str, process_id: int, slots: int, lease_seconds: float
) -> int:
    """A new worker's id; a process start never reuses one."""
    parameters = {"host": host, "process_id": process_id, "slots": slots, "lease": lease_seconds}
    row = connection.execute(named_sql("worker_register"), parameters).fetchone()
    assert row is not None
    return row[0]


def heartbeat(
    connection: psycopg.Connection, *, worker_id: int, state: str, lease_seconds: float, load: WorkerLoad
) -> bool:
    """Renew the worker's lease and write its load; False when it has been given up for lost."""
    parameters = {"worker": worker_id, "state": state, "lease": lease_seconds, **load._asdict()}
    return connection.execute(named_sql("worker_heartbeat"), parameters).fetchone() is not None


def stop_worker(connection: psycopg.Connection, *, worker_id: int) -> None:
    """The worker has ended in order."""
    connection.execute(named_sql("worker_stop"), {"worker": worker_id})


# ---- watchdog -----------------------------------------------------------------------------------------------------


def workers_alive(connection: psycopg.Connection, *, lock_class: int) -> list[WorkerRow]:
    """Workers that have not ended."""
    return [WorkerRow(*row) for row in connection.execute(named_sql("workers_alive"), {"lock_class": lock_class})]


def mark_worker_lost(connection: psycopg.Connection, *, worker_id: int, heartbeat_seen: float) -> bool:
    """Give a worker up, unless it has sent a heartbeat since `heartbeat_seen`."""
    parameters = {"worker": worker_id, "heartbeat": heartbeat_seen}
    return connection.execute(named_sql("worker_lost"), parameters).fetchone() is not None


def sent(connection: psycopg.Connection, query: str, **parameters: Any) -> list[tuple[bytes, int]]:
    """(id, token) of what one of the queries in sql/reclaim.sql finds in `outstanding`."""
    return [(row[0], row[1]) for row in connection.cursor(binary=True).execute(named_sql(query), parameters)]


def reclaim(
    connection: psycopg.Connection,
    taken: Sequence[tuple[bytes, int]],
    *,
    reason: str,
    actor: str,
    only_unclaimed: bool = False,
) -> list[tuple[bytes, int, bytes]]:
    """Take (id, token) away from their workers; returns (id, new status, tenant) of what was taken."""
    found: list[tuple[bytes, int, bytes]] = []
    ordered = sorted(taken)
    for day, positions in ids.by_day([t[0] for t in ordered]):
        group = [ordered[p] for p in positions]
        parameters = {
            "ids": uuids([t[0] for t in group]),
            "scheduled": _scheduled([t[0] for t in group]),
            "tokens": int8s([t[1] for t in group]),
            "reason": reason,
            "actor": actor,
            "only_unclaimed": only_unclaimed,
        }
        found += connection.cursor(binary=True).execute(named_sql("reclaim", day), parameters).fetchall()
    return found


def remove_orphans(connection: psycopg.Connection, *, seconds: float) -> int:
    """Drop places in `outstanding` whose execution is not active any more; returns how many."""
    return len(_ids(connection, named_sql("outstanding_orphans"), {"seconds": seconds}))


def overdue_preloaded(
    connection: psycopg.Connection, *, youngest_seconds: float, oldest_seconds: float, limit: int
) -> list[Preloaded]:
    """What should have been popped by now."""
    parameters = {"youngest": youngest_seconds, "oldest": oldest_seconds, "limit": limit}
    cursor = connection.cursor(binary=True)
    return [Preloaded(i, 0.0, c, t) for i, c, t in cursor.execute(named_sql("overdue_preloaded"), parameters)]


def walk(
    connection: psycopg.Connection, after: bytes, *, youngest_seconds: float, limit: int
) -> tuple[list[Preloaded], bytes | None]:
    """A stretch of everything due: (what is PRELOADED and overdue, the id to go on from; None at the end)."""
    parameters = {
        "from_scheduled": ids.scheduled_at(after) or ids.EARLIEST,
        "from_id": UUID(bytes=after),
        "youngest": youngest_seconds,
        "limit": limit,
    }
    rows = connection.cursor(binary=True).execute(named_sql("walk"), parameters).fetchall()
    return [Preloaded(i, 0.0, c, t) for i, c, t, lost in rows if lost], rows[-1][0] if rows else None


def forget_idempotency_keys(connection: psycopg.Connection, *, days: int, limit: int) -> int:
    """Drop keys older than `days`; returns how many."""
    return len(connection.execute(named_sql("forget_idempotency_keys"), {"days": days, "limit": limit}).fetchall())


def wake_preloaded(connection: psycopg.Connection, identities: list[bytes]) -> list[bytes]:
    """Have the preloader add these to the hot tier again."""
    woken: list[bytes] = []
    for day, group in _groups(identities):
        parameters = {"ids": uuids(group), "scheduled": _scheduled(group)}
        woken += _ids(connection, named_sql("wake_preloaded", day), parameters)
    return woken


def free_slots_with_waiters(connection: psycopg.Connection, *, limit: int) -> list[str]:
    """Slots whose wake-up was lost."""
    return [row[0] for row in connection.execute(named_sql("free_slots_with_waiters"), {"limit": limit})]


def remove_leaked_slots(connection: psycopg.Connection) -> list[str]:
    """Give back slots of what has ended; returns their keys."""
    return [row[0] for row in connection.execute(named_sql("remove_leaked_slots"))]


def forget_leaked_progress(connection: psycopg.Connection) -> int:
    """Drop what attempts said of executions that rest; returns how many there were."""
    return len(connection.execute(named_sql("forget_leaked_progress")).fetchall())


def _groups(identities: list[bytes]) -> Iterable[tuple[int, list[bytes]]]:
    for day, positions in ids.by_day(identities):
        yield day, [identities[p] for p in positions]
