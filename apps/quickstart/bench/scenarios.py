"""The scenarios: drain a backlog, a burst at one instant, a steady rate."""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from apps.definitions import services
from apps.definitions.models import Task
from apps.quickstart.bench import measure
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.bench.processes import Daemons
from apps.quickstart.services import ServiceAddresses
from apps.tenants.models import UNLIMITED, Role, Tenant, Tier
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK

BATCH = 10_000
_JOIN_SECONDS = 90


@dataclass
class Bench:
    """A running installation and a task to load it with."""

    addresses: ServiceAddresses
    folder: Path
    transport: str
    workers: int
    settings: dict[str, str]
    say: Callable[[str], None]
    daemons: Daemons = field(init=False)
    connection: psycopg.Connection = field(init=False)
    record: Path = field(init=False)

    def __post_init__(self) -> None:
        self.record = Path(tempfile.mkdtemp(prefix="record-", dir=self.folder))
        logs = Path(tempfile.mkdtemp(prefix="daemons-", dir=self.folder))
        environment = {
            **self.addresses.environment(),
            **self.settings,
            RECORD_VARIABLE: str(self.record),
            "LOG_LEVEL": "WARNING",
        }
        self.daemons = Daemons(environment, logs)
        self.connection = postgres.connect("bench", url=self.addresses.database_url, hot=False)
        tenant = Tenant.objects.create(slug=f"bench-{time.monotonic_ns()}", name="bench", tier=Tier.SYSTEM, **UNLIMITED)
        self.principal = Principal(tenant.id, tenant.slug, Role.OWNER, "bench")
        self.task: Task = services.create_task(principal=self.principal, data=task_document(name="bench", priority=5))

    def start(self, *, preloader: bool) -> None:
        """Start the daemons and wait until every worker is heard of."""
        self.daemons.start("watchdog", "watchdog")
        self.daemons.start("dispatcher", "dispatcher")
        for number in range(self.workers):
            self.daemons.start(f"worker-{number + 1}", "worker")
        if preloader:
            self.daemons.start("preloader", "preloader")
        self.warm_up(preloader=preloader)

    def warm_up(self, *, preloader: bool) -> None:
        """Wait until the fleet is ready: registered workers, and (with a preloader) one execution through it all."""
        deadline = time.monotonic() + _JOIN_SECONDS
        while self._workers_ready() < self.workers:
            if time.monotonic() > deadline:
                raise RuntimeError("the workers did not come up; see the logs in the bench's folder")
            SYSTEM_CLOCK.sleep(0.1)
        SYSTEM_CLOCK.sleep(2.0)

    def _workers_ready(self) -> int:
        row = self.connection.execute("SELECT count(*) FROM workers WHERE state = 'active'").fetchone()
        assert row is not None
        return row[0]

    def enqueue(self, run_at: list[datetime | None]) -> None:
        """Trigger the task once for each instant (None: now), in batches, as a program would."""
        for start in range(0, len(run_at), BATCH):
            items: list[dict[str, Any]] = [
                {} if at is None else {"run_at": at.isoformat()} for at in run_at[start : start + BATCH]
            ]
            services.trigger_batch(principal=self.principal, task_id=self.task.id, items=items)

    def wait(self, count: int, *, seconds: float) -> None:
        """Until `count` executions are completed, at most `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if measure.completed(self.connection, self.task.id) >= count:
                return
            SYSTEM_CLOCK.sleep(0.25)

    def now(self) -> datetime:
        """The database's time."""
        row = self.connection.execute("SELECT clock_timestamp()").fetchone()
        assert row is not None
        return row[0]

    def close(self) -> None:
        self.daemons.stop()
        self.connection.close()


def task_document(*, name: str, priority: int, handler: str = "bench.record", **parameters: Any) -> dict[str, Any]:
    """A task that is only triggered, and by default notes that it ran."""
    return {
        "name": name,
        "parameters": parameters,
        "priority": priority,
        "schedule": {"type": "manual"},
        "overlap_policy": "allow_all",
        "handler": {"type": "python", "name": handler},
        "timeout_seconds": 60,
    }


@contextmanager
def running(bench: Bench, *, preloader: bool) -> Iterator[Bench]:
    """Start the daemons, and stop them in the end."""
    try:
        bench.start(preloader=preloader)
        yield bench
    finally:
        bench.close()


def drain(bench: Bench, *, count: int, kill: tuple[str, ...] = ()) -> measure.Figures:
    """A backlog that is due already: from the first dispatch to the last completion.

    kill: daemons to SIGKILL in the middle ("dispatcher", "worker-1"); a dispatcher and a worker are started anew.
    """
    with running(bench, preloader=False):
        began = time.monotonic()
        bench.enqueue([None] * count)
        enqueue_seconds = time.monotonic() - began
        wal = measure.wal_position(bench.connection)
        bench.daemons.start("preloader", "preloader")
        if kill:
            _kill_in_the_middle(bench, count, kill)
        bench.wait(count, seconds=60 + count / 500)
        return figures(bench, "drain", count, enqueue_seconds, wal)


def burst(bench: Bench, *, count: int, ahead_seconds: float) -> measure.Figures:
    """Everything due at one instant: from that instant to the last completion."""
    with running(bench, preloader=True):
        wal = measure.wal_position(bench.connection)
        began = time.monotonic()
        due = bench.now() + timedelta(seconds=ahead_seconds)
        bench.enqueue([due] * count)
        enqueue_seconds = time.monotonic() - began
        bench.wait(count, seconds=60 + ahead_seconds + count / 500)
        return figures(bench, "burst", count, enqueue_seconds, wal, since_epoch=due.timestamp())


def steady(bench: Bench, *, rate: int, seconds: int, ahead_seconds: float) -> measure.Figures:
    """A constant rate, enqueued a little ahead, the way schedules come."""
    count = rate * seconds
    with running(bench, preloader=True):
        wal = measure.wal_position(bench.connection)
        base = bench.now() + timedelta(seconds=ahead_seconds)
        began, spent, sent = time.monotonic(), 0.0, 0
        while sent < count:
            until = min(count, int((time.monotonic() - began) * rate) + 1)
            if until > sent:
                mark = time.monotonic()
                bench.enqueue([base + timedelta(seconds=n / rate) for n in range(sent, until)])
                spent += time.monotonic() - mark
                sent = until
            SYSTEM_CLOCK.sleep(0.05)
        bench.wait(count, seconds=30 + ahead_seconds)
        return figures(bench, "steady", count, spent, wal)


def _kill_in_the_middle(bench: Bench, count: int, names: tuple[str, ...]) -> None:
    for number, name in enumerate(names):
        target = count * (number + 1) // (len(names) + 2)
        deadline = time.monotonic() + 60
        while measure.completed(bench.connection, bench.task.id) < target and time.monotonic() < deadline:
            SYSTEM_CLOCK.sleep(0.02)
        bench.daemons.kill(name)
        bench.say(f"killed {name} after {measure.completed(bench.connection, bench.task.id)} completions")
        bench.daemons.start(f"{name}-again", name.split("-")[0])


def figures(
    bench: Bench, name: str, count: int, enqueue_seconds: float, wal: int, since_epoch: float | None = None
) -> measure.Figures:
    return measure.figures(
        bench.connection,
        scenario=name,
        transport=bench.transport,
        task_id=bench.task.id,
        count=count,
        enqueue_seconds=enqueue_seconds,
        record_folder=bench.record,
        wal_bytes=measure.wal_position(bench.connection) - wal,
        since_epoch=since_epoch,
    )
