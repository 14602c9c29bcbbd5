"""A backlog of bulk work, and what critical work feels of it; then the backlog alone, which may use idle slots.

A tenant has a backlog of bulk executions of 50 ms each that is due already. While it drains, a critical execution comes
due every 200 ms. Then nothing critical comes any more: bulk borrows critical slots.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from uuid import UUID

import psycopg

from apps.definitions import services
from apps.quickstart.bench import scenarios
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import config

_EVERY_SECONDS = 0.2
_AHEAD_SECONDS = 1.0
_BULK_MS = 50
_ALONE_SECONDS = 5.0
_SETTLE_SECONDS = 2.0


@dataclass(frozen=True)
class ClassFigures:
    """Lateness of critical executions in ms after they were due. Slots are of one worker: the most that bulk used at
    once beside critical work (on workers to which it came), and after it; its own, and with those that it may borrow.

    bulk_begun_above_own: bulk executions begun while a critical one was due and not begun on the same worker, and more
    than bulk's own slots were in use by it.
    """

    scenario: str
    transport: str
    count: int
    critical_count: int
    critical_p50_ms: float
    critical_p99_ms: float
    critical_max_ms: float
    critical_unfinished: int
    bulk_own_slots: int
    bulk_slots_at_most: int
    bulk_used_beside_critical: int
    bulk_begun_above_own: int
    bulk_used_alone: int
    bulk_per_second_with_critical: float
    bulk_per_second_alone: float

    def document(self) -> dict[str, object]:
        return {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(self).items()}


def classes(bench: "scenarios.Bench", *, count: int, seconds: int, say: Callable[[str], None]) -> ClassFigures:
    """Queue `count` bulk executions, then a critical one every 200 ms for `seconds`, then none."""
    bulk, critical = (
        services.create_task(principal=bench.principal, data=document)
        for document in (
            scenarios.task_document(name="bench-bulk", priority=9, handler="bench.pause", milliseconds=_BULK_MS),
            scenarios.task_document(name="bench-critical", priority=1),
        )
    )
    with scenarios.running(bench, preloader=True):
        say(f"enqueueing {count} bulk executions of {_BULK_MS} ms")
        for start in range(0, count, scenarios.BATCH):
            batch = min(scenarios.BATCH, count - start)
            services.trigger_batch(principal=bench.principal, task_id=bulk.id, items=[{}] * batch)
        began = bench.now()
        due = [
            began + timedelta(seconds=_AHEAD_SECONDS + n * _EVERY_SECONDS) for n in range(int(seconds / _EVERY_SECONDS))
        ]
        for at in due:
            items = [{"run_at": at.isoformat()}]
            services.trigger_batch(principal=bench.principal, task_id=critical.id, items=items)
            SYSTEM_CLOCK.sleep(max(0.0, (at - bench.now()).total_seconds() - _AHEAD_SECONDS + _EVERY_SECONDS))
        unfinished = _wait(bench.connection, critical.id)
        first, last = due[0].timestamp() + _SETTLE_SECONDS, due[-1].timestamp()
        say("no critical work from now on")
        SYSTEM_CLOCK.sleep(_SETTLE_SECONDS + _ALONE_SECONDS)
        alone = last + _SETTLE_SECONDS, last + _SETTLE_SECONDS + _ALONE_SECONDS
        beside = _bulk_use(bench.connection, bulk.id, first, last, beside=critical.id)
        with_critical = _bulk_use(bench.connection, bulk.id, first, last)
        without = _bulk_use(bench.connection, bulk.id, *alone)
        late = _lateness(bench.connection, critical.id)
        own, most = _bulk_slots(bench.connection)
        above = _begun_above(bench.connection, bulk.id, critical.id, own)
    return ClassFigures(
        scenario="classes",
        transport=bench.transport,
        count=count,
        critical_count=int(late[0]),
        critical_p50_ms=late[1],
        critical_p99_ms=late[2],
        critical_max_ms=late[3],
        critical_unfinished=unfinished,
        bulk_own_slots=own,
        bulk_slots_at_most=most,
        bulk_used_beside_critical=beside[0],
        bulk_begun_above_own=above,
        bulk_used_alone=without[0],
        bulk_per_second_with_critical=with_critical[1],
        bulk_per_second_alone=without[1],
    )


def _wait(connection: psycopg.Connection, task: UUID) -> int:
    deadline = time.monotonic() + 30
    while (left := scenarios.measure.unfinished(connection, task)) and time.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(0.1)
    return left


_USE = """
WITH a AS (
    SELECT a.worker_id, a.started_at, a.finished_at
    FROM executions e JOIN attempts a ON a.scheduled_at = e.scheduled_at AND a.execution_id = e.id
    WHERE e.task_id = %(task)s AND a.started_at >= to_timestamp(%(from)s) AND a.started_at < to_timestamp(%(to)s)
      AND (%(beside)s::uuid IS NULL OR a.worker_id IN (
          SELECT b.worker_id FROM executions c JOIN attempts b
              ON b.scheduled_at = c.scheduled_at AND b.execution_id = c.id
          WHERE c.task_id = %(beside)s::uuid))
), steps AS (
    SELECT worker_id, started_at AS at, 1 AS step FROM a
    UNION ALL SELECT worker_id, finished_at, -1 FROM a
)
SELECT coalesce((SELECT max(used) FROM (
           SELECT sum(step) OVER (PARTITION BY worker_id ORDER BY at, step) AS used FROM steps) u), 0)::int,
       (SELECT count(*) FROM a)
"""


def _bulk_use(
    connection: psycopg.Connection, task: UUID, begin: float, end: float, *, beside: UUID | None = None
) -> tuple[int, float]:
    """(most that one worker ran at once, begun a second) between two instants in seconds since the epoch.

    beside: only workers that have run this task.
    """
    row = connection.execute(_USE, {"task": task, "from": begin, "to": end, "beside": beside}).fetchone()
    assert row is not None
    return row[0], row[1] / (end - begin)


_LATENESS = """
SELECT count(*), coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY late), 0),
    coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late), 0), coalesce(max(late), 0)
FROM (SELECT (extract(epoch FROM a.started_at - a.due_at) * 1000)::float8 AS late
      FROM executions e JOIN attempts a ON a.scheduled_at = e.scheduled_at AND a.execution_id = e.id
      WHERE e.task_id = %s) l
"""


def _lateness(connection: psycopg.Connection, task: UUID) -> tuple[float, float, float, float]:
    row = connection.execute(_LATENESS, (task,)).fetchone()
    assert row is not None
    return row


_ABOVE = """
WITH a AS MATERIALIZED (
    SELECT e.task_id, a.worker_id, a.due_at, a.started_at, a.finished_at
    FROM executions e JOIN attempts a ON a.scheduled_at = e.scheduled_at AND a.execution_id = e.id
    WHERE e.task_id IN (%(bulk)s, %(critical)s)
)
SELECT count(*) FROM a b
WHERE b.task_id = %(bulk)s
  AND EXISTS (SELECT 1 FROM a c WHERE c.task_id = %(critical)s AND c.worker_id = b.worker_id
              AND b.started_at > c.due_at AND b.started_at < c.started_at)
  AND (SELECT count(*) FROM a o WHERE o.task_id = %(bulk)s AND o.worker_id = b.worker_id
       AND o.started_at <= b.started_at AND o.finished_at > b.started_at) > %(own)s
"""


def _begun_above(connection: psycopg.Connection, bulk: UUID, critical: UUID, own: int) -> int:
    row = connection.execute(_ABOVE, {"bulk": bulk, "critical": critical, "own": own}).fetchone()
    assert row is not None
    return row[0]


def _bulk_slots(connection: psycopg.Connection) -> tuple[int, int]:
    """Bulk's own slots of one worker, and with all that it may borrow."""
    row = connection.execute("SELECT slots, class_slots FROM workers ORDER BY id DESC LIMIT 1").fetchone()
    assert row is not None
    slots, (critical, _, bulk) = row
    reserve = max(1, slots * config().critical_reserve_percent // 100)
    return bulk, bulk + critical - reserve
