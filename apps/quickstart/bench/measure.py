"""What happened, counted from the ledger by the database's clock, and from what the handler noted."""

from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

import psycopg

from apps.executions.states import Outcome, Status
from apps.quickstart.bench.handlers import recorded


@dataclass(frozen=True)
class Figures:
    """One scenario. Rates are a second; lateness is start − run_at in ms (negative would be early)."""

    scenario: str
    transport: str
    count: int
    enqueue_per_second: float
    executions_per_second: float
    seconds: float
    lateness_p50_ms: float
    lateness_p95_ms: float
    lateness_p99_ms: float
    lateness_max_ms: float
    early: int
    lost: int
    duplicates: int
    handler_runs: int
    ledger_duplicates: int
    attempts_not_succeeded: int
    wal_bytes_per_execution: int

    def document(self) -> dict[str, object]:
        return {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(self).items()}


def completed(connection: psycopg.Connection, task_id: UUID) -> int:
    """How many executions of the task are COMPLETED."""
    row = connection.execute(
        "SELECT count(*) FROM executions WHERE task_id = %s AND status = %s", (task_id, int(Status.COMPLETED))
    ).fetchone()
    assert row is not None
    return row[0]


def unfinished(connection: psycopg.Connection, task_id: UUID) -> int:
    """How many executions of the task are not COMPLETED."""
    row = connection.execute(
        "SELECT count(*) FROM executions WHERE task_id = %s AND status <> %s", (task_id, int(Status.COMPLETED))
    ).fetchone()
    assert row is not None
    return row[0]


def wal_position(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    return row[0]


_SPAN = """
SELECT extract(epoch FROM min(dispatched_at))::float8, extract(epoch FROM max(finished_at))::float8,
    count(*) FILTER (WHERE status = %(completed)s)
FROM executions WHERE task_id = %(task)s
"""

_LATENESS = """
SELECT coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY late), 0),
    coalesce(percentile_cont(0.95) WITHIN GROUP (ORDER BY late), 0),
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late), 0),
    coalesce(max(late), 0), count(*) FILTER (WHERE late < 0),
    count(*) FILTER (WHERE outcome = %(succeeded)s) - count(DISTINCT id) FILTER (WHERE outcome = %(succeeded)s),
    count(*) FILTER (WHERE outcome <> %(succeeded)s)
FROM (
    SELECT (extract(epoch FROM a.started_at - a.due_at) * 1000)::float8 AS late, a.execution_id AS id, a.outcome
    FROM attempts a JOIN executions e ON e.scheduled_at = a.scheduled_at AND e.id = a.execution_id
    WHERE e.task_id = %(task)s
) l
"""


def figures(
    connection: psycopg.Connection,
    *,
    scenario: str,
    transport: str,
    task_id: UUID,
    count: int,
    enqueue_seconds: float,
    record_folder: Path,
    wal_bytes: int,
    since_epoch: float | None = None,
) -> Figures:
    """Count. since_epoch: when the clock starts (s); None: at the first dispatch."""
    parameters = {"task": task_id, "completed": int(Status.COMPLETED), "succeeded": int(Outcome.SUCCEEDED)}
    span = connection.execute(_SPAN, parameters).fetchone()
    late = connection.execute(_LATENESS, parameters).fetchone()
    assert span is not None
    assert late is not None
    runs = recorded(record_folder)
    seconds = (span[1] or 0) - (since_epoch or span[0] or 0)
    return Figures(
        scenario=scenario,
        transport=transport,
        count=count,
        enqueue_per_second=count / enqueue_seconds,
        executions_per_second=span[2] / seconds if seconds > 0 else 0.0,
        seconds=seconds,
        lateness_p50_ms=late[0],
        lateness_p95_ms=late[1],
        lateness_p99_ms=late[2],
        lateness_max_ms=late[3],
        early=late[4],
        lost=count - span[2],
        duplicates=len(runs) - len(set(runs)),
        handler_runs=len(runs),
        ledger_duplicates=late[5],
        attempts_not_succeeded=late[6],
        wal_bytes_per_execution=wal_bytes // max(1, count),
    )
