"""What a worker asks of the ledger: everything it writes is fenced by its id and the token."""

from collections.abc import Sequence
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.rows import (
    Claimed,
    Finish,
    KeptSecret,
    Note,
    VersionRow,
    WorkerLoad,
)
from apps.executions.store.statements import by_day, days_of, fetch, fetch_ids, named_sql, scheduled_of
from chronoweb.runtime.postgres import instants, int2s, int8s, texts, uuids


def claim(
    connection: psycopg.Connection, identities: Sequence[bytes], tokens: Sequence[int], *, worker_id: int
) -> list[Claimed]:
    """Begin executions of one day; what is missing from the answer is not this worker's to run."""
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
        "tokens": int8s(tokens),
        "worker": worker_id,
    }
    return fetch(connection, Claimed, named_sql("claim", ids.day(identities[0])), parameters)


def adopt(
    connection: psycopg.Connection, identities: Sequence[bytes], tokens: Sequence[int], *, worker_id: int
) -> None:
    """Note that this worker has received what was sent to another's inbox; call it before the claim."""
    parameters = {"ids": uuids(identities), "tokens": int8s(tokens), "worker": worker_id}
    connection.execute(named_sql("adopt"), parameters)


def unfit(
    connection: psycopg.Connection, identities: Sequence[bytes], *, labels: Sequence[str], tenant: str | None
) -> list[tuple[bytes, int]]:
    """(id, token) of those that a worker with these labels, kept for this tenant (hex; None: all), may not run."""
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
        "labels": list(labels),
        "tenant": tenant,
    }
    return [(row[0], row[1]) for row in connection.cursor(binary=True).execute(named_sql("unfit"), parameters)]


def versions_of(connection: psycopg.Connection, versions: Sequence[int]) -> list[VersionRow]:
    """What these task versions say."""
    return [VersionRow(*row) for row in connection.execute(named_sql("versions_of"), {"versions": list(versions)})]


def secrets_of(
    connection: psycopg.Connection, wanted: Sequence[tuple[bytes, str]]
) -> dict[tuple[bytes, str], KeptSecret]:
    """(tenant, name) → what is kept of it; what is missing from the answer does not exist."""
    parameters = {
        "tenants": uuids([tenant for tenant, _ in wanted]),
        "names": texts([name.encode() for _, name in wanted]),
    }
    cursor = connection.cursor(binary=True)
    rows = cursor.execute(named_sql("secrets_of"), parameters)
    return {(tenant, name): KeptSecret(*kept) for tenant, name, *kept in rows}


def release(
    connection: psycopg.Connection, identities: list[bytes], tokens: Sequence[int], *, worker_id: int
) -> list[bytes]:
    """Give executions back, uncounted; returns the ids that were this worker's."""
    released: list[bytes] = []
    for day, positions in ids.by_day(identities):
        group = [identities[p] for p in positions]
        parameters = {
            "ids": uuids(group),
            "scheduled": scheduled_of(group),
            "tokens": int8s([tokens[p] for p in positions]),
            "worker": worker_id,
        }
        released += fetch_ids(connection, named_sql("release", day), parameters)
    return released


def finish(connection: psycopg.Connection, ends: Sequence[Finish], *, worker_id: int) -> set[bytes]:
    """Write how attempts of one day ended; returns the ids that were written. `ends` must be sorted by id."""
    identities = [e.id for e in ends]
    parameters = {
        "ids": uuids(identities),
        "scheduled": scheduled_of(identities),
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
    return set(fetch_ids(connection, named_sql("finish", ids.day(identities[0])), parameters))


def attempts_written(
    connection: psycopg.Connection, ends: Sequence[Finish], *, worker_id: int
) -> set[tuple[bytes, int]]:
    """(id, token) of those `ends` that this worker has written before."""
    found: set[tuple[bytes, int]] = set()
    for day, positions in ids.by_day([end.id for end in ends]):
        group = [ends[p] for p in positions]
        parameters = {
            "ids": uuids([end.id for end in group]),
            "scheduled": scheduled_of([end.id for end in group]),
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
            "scheduled": scheduled_of([r[0] for r in group]),
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
            "scheduled": scheduled_of(identities),
            "tokens": int8s([note.token for note in group]),
            "done": [note.done for note in group],
            "total": [note.total for note in group],
            "checkpoints": texts([note.checkpoint for note in group]),
            "worker": worker_id,
        }
        written.update(fetch_ids(connection, named_sql("note_progress", day), parameters))
    return written


def forget_progress(connection: psycopg.Connection, identities: list[bytes]) -> None:
    """Drop what attempts of these executions said, of those that rest."""
    for day, group in by_day(identities):
        parameters = {"ids": uuids(group), "scheduled": scheduled_of(group)}
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
            "scheduled": scheduled_of(identities),
            "after": int8s([after for _, after in group]),
        }
        cursor = connection.cursor(binary=True)
        found.update(cursor.execute(named_sql("first_starts", day), parameters).fetchall())
    return found


def to_cancel(connection: psycopg.Connection, *, worker_id: int) -> list[bytes]:
    """What this worker runs and is asked to stop."""
    found: list[bytes] = []
    for day in days_of(connection, "outstanding_days", worker=worker_id):
        found += fetch_ids(connection, named_sql("to_cancel", day), {"worker": worker_id})
    return found


def wake_waiters(connection: psycopg.Connection, keys: Sequence[str]) -> list[bytes]:
    """Let the oldest that wait for these slots be dispatched, as many as there are free places."""
    cursor = connection.cursor(binary=True)
    found = cursor.execute(named_sql("waited_for"), {"keys": sorted(set(keys))}).fetchall()
    waiting = sorted((identity, key) for key, identity in found)
    woken: list[bytes] = []
    for day, positions in ids.by_day([identity for identity, _ in waiting]):
        group = [waiting[p] for p in positions]
        parameters = {
            "ids": uuids([identity for identity, _ in group]),
            "scheduled": scheduled_of([identity for identity, _ in group]),
            "keys": texts([key.encode() for _, key in group]),
        }
        woken += fetch_ids(connection, named_sql("wake_waiters", day), parameters)
    return woken


def register_worker(
    connection: psycopg.Connection,
    *,
    host: str,
    process_id: int,
    slots: int,
    lease_seconds: float,
    class_slots: Sequence[int] = (),
    labels: Sequence[str] = (),
    tenant_id: UUID | None = None,
    version: str = "",
) -> int:
    """A new worker's id; a process start never reuses one. tenant_id: the only one that it serves."""
    parameters = {
        "host": host,
        "process_id": process_id,
        "slots": slots,
        "lease": lease_seconds,
        "class_slots": list(class_slots),
        "labels": list(labels),
        "tenant": tenant_id,
        "version": version,
    }
    row = connection.execute(named_sql("worker_register"), parameters).fetchone()
    assert row is not None
    return row[0]


def tenant_of_slug(connection: psycopg.Connection, slug: str) -> UUID | None:
    """The tenant of this name; None if there is none."""
    row = connection.execute(named_sql("tenant_of_slug"), {"slug": slug}).fetchone()
    return None if row is None else row[0]


def worker_look(connection: psycopg.Connection, *, worker_id: int) -> tuple[int, bool]:
    """(the database's time in microseconds since the epoch, whether the worker has been asked to drain)."""
    row = connection.execute(named_sql("worker_look"), {"worker": worker_id}).fetchone()
    assert row is not None
    return row[0], row[1]


def heartbeat(
    connection: psycopg.Connection,
    *,
    worker_id: int,
    state: str,
    lease_seconds: float,
    load: WorkerLoad,
    class_used: Sequence[int] = (),
    labels: Sequence[str] = (),
) -> bool:
    """Renew the worker's lease and write its load; False when it has been given up for lost.

    class_used: slots in use by class; labels: what it carries now.
    """
    parameters = {
        "worker": worker_id,
        "state": state,
        "lease": lease_seconds,
        "class_used": list(class_used),
        "labels": list(labels),
        **load._asdict(),
    }
    return connection.execute(named_sql("worker_heartbeat"), parameters).fetchone() is not None


def stop_worker(connection: psycopg.Connection, *, worker_id: int) -> None:
    """The worker has ended in order."""
    connection.execute(named_sql("worker_stop"), {"worker": worker_id})
