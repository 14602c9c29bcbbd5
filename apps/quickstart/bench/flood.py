"""A flood of one tenant, and what another tenant feels of it: nobody starves.

One tenant has a backlog of standard executions that is due already. While it drains, another tenant triggers critical
and standard executions that are due at once. The hot tier and what is outstanding must stay within their bounds.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from uuid import UUID

import psycopg

from apps.definitions import services
from apps.definitions.models import Task
from apps.dispatcher.hot_tier import HotTier
from apps.executions.rows import Queue
from apps.quickstart.bench import scenarios
from apps.tenants.models import UNLIMITED, Role, Tenant, Tier
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, redis_client
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import config

_PAUSE_SECONDS = 0.2
_STANDARD_EACH = 5


@dataclass(frozen=True)
class FloodFigures:
    """Lateness of the other tenant's executions (ms after they were due), and the largest figures seen meanwhile."""

    scenario: str
    transport: str
    count: int
    flood_completed_meanwhile: int
    flood_executions_per_second: float
    critical_count: int
    critical_p50_ms: float
    critical_p99_ms: float
    critical_max_ms: float
    standard_count: int
    standard_p99_ms: float
    standard_max_ms: float
    hot_tier_most: int
    hot_tier_bound: int
    outstanding_most: int
    other_unfinished: int

    def document(self) -> dict[str, object]:
        return {key: round(value, 2) if isinstance(value, float) else value for key, value in asdict(self).items()}


@dataclass
class _Watcher:
    """Looks at the hot tier and at `outstanding` until it is stopped."""

    bench: "scenarios.Bench"
    hot_tier_most: int = 0
    outstanding_most: int = 0
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        hot_tier = HotTier(redis_client.connect(self.bench.addresses.redis_url), config().redis_prefix)
        queue = Queue(1, self.bench.task.tenant_id.bytes)
        with postgres.connect("bench-watch", url=self.bench.addresses.database_url, hot=False) as connection:
            while not self._stop.wait(0.1):
                self.hot_tier_most = max(self.hot_tier_most, hot_tier.counts([queue])[queue])
                row = connection.execute("SELECT count(*) FROM outstanding").fetchone()
                assert row is not None
                self.outstanding_most = max(self.outstanding_most, row[0])


def flood(bench: "scenarios.Bench", *, count: int, seconds: int, say: Callable[[str], None]) -> FloodFigures:
    """Flood with `count`, then trigger the other tenant's executions for `seconds`."""
    other, critical, standard = _other_tenant()
    with scenarios.running(bench, preloader=True):
        say(f"enqueueing {count} for the flooding tenant")
        bench.enqueue([None] * count)
        watcher = _Watcher(bench)
        before, began = scenarios.measure.completed(bench.connection, bench.task.id), time.monotonic()
        _trigger_for(seconds, other, critical, standard)
        meanwhile = scenarios.measure.completed(bench.connection, bench.task.id) - before
        elapsed = time.monotonic() - began
        unfinished = _wait_for_the_other(bench.connection, [critical.id, standard.id])
        watcher.stop()
        late_critical = _lateness(bench.connection, critical.id)
        late_standard = _lateness(bench.connection, standard.id)
    return FloodFigures(
        scenario="flood",
        transport=bench.transport,
        count=count,
        flood_completed_meanwhile=meanwhile,
        flood_executions_per_second=meanwhile / elapsed,
        critical_count=int(late_critical[0]),
        critical_p50_ms=late_critical[1],
        critical_p99_ms=late_critical[2],
        critical_max_ms=late_critical[3],
        standard_count=int(late_standard[0]),
        standard_p99_ms=late_standard[2],
        standard_max_ms=late_standard[3],
        hot_tier_most=watcher.hot_tier_most,
        hot_tier_bound=config().hot_tier_entries,
        outstanding_most=watcher.outstanding_most,
        other_unfinished=unfinished,
    )


def _other_tenant() -> tuple[Principal, Task, Task]:
    tenant = Tenant.objects.create(slug=f"other-{time.monotonic_ns()}", name="other", tier=Tier.SYSTEM, **UNLIMITED)
    principal = Principal(tenant.id, tenant.slug, Role.OWNER, "bench")
    made = [
        services.create_task(principal=principal, data=scenarios.task_document(name=f"bench-{name}", priority=priority))
        for name, priority in (("critical", 1), ("standard", 5))
    ]
    return principal, made[0], made[1]


def _trigger_for(seconds: int, principal: Principal, critical: Task, standard: Task) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        services.trigger_batch(principal=principal, task_id=critical.id, items=[{}])
        services.trigger_batch(principal=principal, task_id=standard.id, items=[{}] * _STANDARD_EACH)
        SYSTEM_CLOCK.sleep(_PAUSE_SECONDS)


def _wait_for_the_other(connection: psycopg.Connection, tasks: list[UUID]) -> int:
    deadline = time.monotonic() + 30
    while True:
        left = sum(scenarios.measure.unfinished(connection, task) for task in tasks)
        if not left or time.monotonic() > deadline:
            return left
        SYSTEM_CLOCK.sleep(0.2)


def _lateness(connection: psycopg.Connection, task: UUID) -> tuple[float, float, float, float]:
    row = connection.execute(
        "SELECT count(*), coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY late), 0),"
        " coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY late), 0), coalesce(max(late), 0) FROM ("
        "  SELECT (extract(epoch FROM a.started_at - a.due_at) * 1000)::float8 AS late"
        "  FROM executions e JOIN attempts a ON a.scheduled_at = e.scheduled_at AND a.execution_id = e.id"
        "  WHERE e.task_id = %s) l",
        (task,),
    ).fetchone()
    assert row is not None
    return row
