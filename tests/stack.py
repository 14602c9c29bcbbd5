"""A ledger of a test's own: databases cloned from one migrated template, rows in any state, daemons in threads.

A plugin of the suite (named in conftest.py). A clone costs a fraction of a second and is nobody else's, so leases,
workers and fleet-wide holds of one test never meet another's, and nothing is ever emptied.
"""

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connections
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from pytest_django import DjangoDbBlocker

from apps.dispatcher.hot_tier import HotTier
from apps.dispatcher.shards import SHARD_PREFIX
from apps.executions import feed, ids, store
from apps.executions.circuits import key_of
from apps.executions.rows import NewExecution, Preloaded, Queue, RetryRoom
from apps.executions.states import ACTIVE, RESTING, Hold, Origin, Outcome, Overlap, Status
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.bench.processes import Daemons
from apps.quickstart.services import ServiceAddresses
from apps.tenants.models import UNLIMITED, Tenant
from chronoweb.runtime import postgres
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config
from chronoweb.runtime.health import Health
from chronoweb.runtime.loop import Daemon, Result, Stop, run_until_signal
from chronoweb.runtime.wakeup import preloader
from tests.nursery import nursery
from tests.services import RUN
from tests.waiting import PATIENCE_SECONDS, eventually

HANDLER = {"type": "python", "name": "demo.noop"}
POLICY = {"max_attempts": 4, "backoff": "fixed", "base_delay_seconds": 0.0, "max_delay_seconds": 3600.0}
EPOCH = 7
"""The epoch of the roles that `Ledger.lead` takes."""


# ---- databases ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def template_database(services: ServiceAddresses) -> Iterator[str]:
    """A migrated database with its partitions, for cloning: nobody connects to it."""
    yield migrated_once(services, "all_days")
    feed.close()  # its thread would outlive the services


def migrated_once(services: ServiceAddresses, kind: str, **environment: str) -> str:
    """The name of a template that the first who asks for its kind has migrated, for all processes of the run."""
    name = f"template_{kind}_{os.environ[RUN]}"
    with psycopg.connect(services.database_url, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(hashtext(%s))", (name,))
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone():
            unready = f"{name}_unready"
            admin.execute(f"DROP DATABASE IF EXISTS {unready}")
            admin.execute(f"CREATE DATABASE {unready}")
            url = _url_of(services.database_url, unready)
            command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", "--verbosity=0"]
            subprocess.run(
                command, env={**os.environ, **environment, "DATABASE_URL": url, "DATABASE_DIRECT_URL": url}, check=True
            )
            admin.execute(f"ALTER DATABASE {unready} RENAME TO {name}")
    return name


@pytest.fixture(scope="session")
def django_db_setup(
    services: ServiceAddresses,
    template_database: str,
    django_test_environment: None,
    django_db_blocker: DjangoDbBlocker,
) -> Iterator[None]:
    """pytest-django's, by a clone: Django's own connections are to a migrated database of this process."""
    with cloned(services, template_database) as url, django_uses(url, django_db_blocker), django_db_blocker.block():
        yield


@contextmanager
def cloned(services: ServiceAddresses, template: str) -> Iterator[str]:
    """A database of one's own; its URL."""
    name = "clone_" + secrets.token_hex(4)
    with psycopg.connect(services.database_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield _url_of(services.database_url, name)
        finally:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _url_of(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


@pytest.fixture(scope="module")
def module_database(services: ServiceAddresses, template_database: str) -> Iterator[str]:
    """One database for the tests of a module that keep to rows of their own tenants."""
    with cloned(services, template_database) as url:
        yield url


@pytest.fixture
def own_database(services: ServiceAddresses, template_database: str) -> Iterator[str]:
    """A database for one test: daemons run on it, or holds and leases of the whole fleet are changed."""
    with cloned(services, template_database) as url:
        yield url


@contextmanager
def django_uses(url: str, blocker: DjangoDbBlocker) -> Iterator[None]:
    """Let Django's connections, in every thread, be to the database of `url`."""
    connections.close_all()
    preloader.close()  # its thread has a connection like Django's
    known = connections["default"].settings_dict
    before = known["NAME"]
    known["NAME"] = urlsplit(url).path.lstrip("/")
    try:
        with blocker.unblock():
            yield
            connections.close_all()
    finally:
        preloader.close()
        known["NAME"] = before


# ---- rows ---------------------------------------------------------------------------------------------------------


@dataclass
class Ledger:
    """One tenant with one task in a database, and rows of it in any state."""

    url: str
    connection: psycopg.Connection
    tenant: bytes = field(default_factory=lambda: ids.new_uuid7(1).bytes)
    task: bytes = field(default_factory=lambda: ids.new_uuid7(2).bytes)
    slug: str = field(default_factory=lambda: "s" + secrets.token_hex(6))
    version: int = 0

    def __post_init__(self) -> None:
        tenant = Tenant(id=UUID(bytes=self.tenant), slug=self.slug, name=self.slug, **UNLIMITED)
        # What the model adds is filled in; the ORM itself would need Django's connection.
        fields = {str(f.column): f.pre_save(tenant, add=True) for f in Tenant._meta.concrete_fields}
        marks = ", ".join(["%s"] * len(fields))
        query = f"INSERT INTO tenants ({', '.join(fields)}) VALUES ({marks})"
        self.connection.execute(query, list(fields.values()))
        self.version = self.define()

    def define(
        self,
        *,
        handler: Any = None,
        policy: dict[str, Any] | None = None,
        timeout: float = 30,
        idempotent: bool = True,
        concurrency: dict[str, Any] | None = None,
        **parameters: Any,
    ) -> int:
        """A version of the task; rows that are added from now on name it."""
        handler = handler or HANDLER
        definition = {
            "handler": handler,
            "parameters": parameters,
            "timeout_seconds": timeout,
            "retry_policy": {**POLICY, **(policy or {})},
            "idempotent": idempotent,
            "concurrency": concurrency,
        }
        row = self.connection.execute(
            "INSERT INTO task_versions (task_id, tenant_id, number, name, definition, created_at, created_by,"
            " circuit_key)"
            " VALUES (encode(%s, 'hex')::uuid, encode(%s, 'hex')::uuid, %s, 'task', %s, clock_timestamp(), 'test', %s)"
            " RETURNING id",
            (self.task, self.tenant, secrets.randbelow(2**31), Jsonb(definition), key_of(handler)),
        ).fetchone()
        assert row is not None
        self.version = row[0]
        return self.version

    def now_us(self) -> int:
        """The database's clock."""
        row = self.connection.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        return row[0]

    def add(
        self,
        count: int = 1,
        *,
        status: Status = Status.PRELOADED,
        due_in_ms: int = 0,
        worker: int = 1,
        token: int = EPOCH << 32,
        attempt: int | None = None,
        slot_key: str | None = None,
        concurrency_key: str | None = None,
        overlap: Overlap = Overlap.ALLOW_ALL,
        origin: Origin = Origin.SCHEDULE,
        hold: Hold = Hold.NONE,
        class_index: int = 1,
        max_attempts: int = 4,
        task: bytes | None = None,
        payload: bytes | None = None,
        later_ms: int = 0,
    ) -> list[bytes]:
        """Rows of one state, as the statements that lead there leave them; their ids, sorted.

        due_in_ms: run_at and scheduled_at from now. later_ms: run_at alone is moved by this.
        """
        now_ms = self.now_us() // 1000
        rows = [
            NewExecution(
                id=identity,
                scheduled_us=ids.milliseconds(identity) * 1000,
                run_us=(ids.milliseconds(identity) + later_ms) * 1000,
                nominal_us=ids.milliseconds(identity) * 1000,
                tenant_id=self.tenant,
                task_id=task or self.task,
                version_id=self.version,
                max_attempts=max_attempts,
                class_index=class_index,
                priority=(2, 5, 9)[class_index],
                origin=origin,
                overlap=overlap,
                slot_key=slot_key,
                concurrency_key=concurrency_key,
                idempotency_key=identity.hex(),
                payload=payload,
            )
            for identity in ids.new_ids([now_ms + due_in_ms] * count)
        ]
        identities = sorted(store.insert(self.connection, rows))
        assert len(identities) == count
        self._put(identities, status, hold, worker, token, attempt)
        return identities

    def _put(
        self, identities: list[bytes], status: Status, hold: Hold, worker: int, token: int, attempt: int | None
    ) -> None:
        if status is Status.SCHEDULED and hold is Hold.NONE:
            return
        begun = {Status.RUNNING, Status.WAITING, Status.RETRYING, Status.COMPLETED, Status.DEAD_LETTER}
        values = {
            "ids": postgres.uuids(identities),
            "scheduled": postgres.instants([ids.milliseconds(i) * 1000 for i in identities]),
            "status": int(status),
            "hold": int(hold),
            "worker": worker if status in ACTIVE or status is Status.COMPLETED else None,
            "token": 0 if status in (Status.SCHEDULED, Status.PRELOADED, Status.SKIPPED) else token,
            "attempt": int(status in begun) if attempt is None else attempt,
            "active": status in ACTIVE,
            "resting": status in RESTING,
            "wake": status is Status.RETRYING and hold is Hold.NONE,
            "dead": status is Status.DEAD_LETTER,
            "slot": status in ACTIVE or status is Status.RETRYING,
        }
        self.connection.execute(_PUT, values)

    def row(self, identity: bytes) -> dict[str, Any]:
        """One execution, every column by name."""
        [row] = self.select("SELECT * FROM executions e WHERE e.id = encode(%s, 'hex')::uuid", identity)
        return row

    def status(self, identity: bytes) -> Status:
        return Status(self.row(identity)["status"])

    def statuses(self, identities: Sequence[bytes]) -> list[Status]:
        found = {w.id: Status(w.status) for w in store.states_of(self.connection, sorted(identities))}
        return [found[i] for i in identities]

    def token(self, identity: bytes) -> int:
        return self.row(identity)["token"]

    def attempts(self, identity: bytes) -> list[dict[str, Any]]:
        """What `attempts` tells of one execution, in order."""
        query = "SELECT * FROM attempts WHERE execution_id = encode(%s, 'hex')::uuid ORDER BY token, attempt"
        return self.select(query, identity)

    def outcomes(self, identity: bytes) -> list[Outcome]:
        return [Outcome(row["outcome"]) for row in self.attempts(identity)]

    def events(self, identity: bytes) -> list[dict[str, Any]]:
        query = "SELECT * FROM execution_events WHERE execution_id = encode(%s, 'hex')::uuid ORDER BY event_id"
        return self.select(query, identity)

    def slot_holder(self, key: str) -> bytes | None:
        """Who holds a slot."""
        found = self.select("SELECT execution_id FROM slots WHERE key = %s", key)
        return found[0]["execution_id"].bytes if found else None

    def places(self, key: str) -> dict[int, bytes]:
        """Who holds which place of a concurrency key."""
        found = self.select("SELECT n, execution_id FROM slots WHERE key = %s", key)
        return {row["n"]: row["execution_id"].bytes for row in found}

    def waiters(self, key: str) -> list[bytes]:
        query = "SELECT execution_id FROM slot_waiters WHERE key = %s ORDER BY scheduled_at, execution_id"
        return [row["execution_id"].bytes for row in self.select(query, key)]

    def outstanding(self) -> dict[bytes, tuple[int, int]]:
        """execution → (worker, token) of this tenant."""
        query = "SELECT * FROM outstanding WHERE tenant_id = encode(%s, 'hex')::uuid"
        return {row["execution_id"].bytes: (row["worker_id"], row["token"]) for row in self.select(query, self.tenant)}

    def select(self, query: str, *parameters: Any) -> list[dict[str, Any]]:
        return list(self.connection.cursor(row_factory=dict_row).execute(query, parameters))

    def lead(self, *roles: str, epoch: int = EPOCH) -> int:
        """Let roles (none named: every shard of the dispatchers) be held under `epoch` for an hour."""
        self.connection.execute(
            "INSERT INTO leases (role, holder, epoch, expires_at, acquired_at)"
            " SELECT r, gen_random_uuid(), %s, clock_timestamp() + interval '1 hour', clock_timestamp()"
            " FROM unnest(%s::text[]) r"
            " ON CONFLICT (role) DO UPDATE SET epoch = excluded.epoch, expires_at = excluded.expires_at",
            (epoch, list(roles) or [f"{SHARD_PREFIX}{shard}" for shard in range(ids.SHARDS)]),
        )
        return epoch

    def hold(self, target: bytes, reason: Hold) -> None:
        parameters = {"target": _uuid(target), "reason": int(reason), "note": "", "actor": "test"}
        self.connection.execute(store.named_sql("hold_set"), parameters)

    def release_hold(self, target: bytes, reason: Hold) -> None:
        parameters = {"target": _uuid(target), "reason": int(reason)}
        self.connection.execute(store.named_sql("hold_clear"), parameters)

    def hydrate(
        self, day: int, *, limit: int = 1000, lookahead_seconds: float = 3600, epoch: int = EPOCH
    ) -> list[Preloaded]:
        """Hydrate one day of this tenant, standard class."""
        return store.hydrate(
            self.connection,
            {Queue(1, self.tenant): limit},
            day=day,
            lookahead_seconds=lookahead_seconds,
            role="preloader",
            epoch=epoch,
        )

    def dispatch(
        self,
        identities: Sequence[bytes],
        *,
        worker: int = 1,
        epoch: int = EPOCH,
        window_ms: int = 250,
        retries: RetryRoom = store.UNLIMITED_RETRIES,
    ) -> dict[bytes, Status]:
        """Dispatch to one worker; what became of each that was answered."""
        ordered = sorted(identities)
        answered = store.dispatch(
            self.connection,
            ordered,
            [worker] * len(ordered),
            window_ms=window_ms,
            held=all_shards(epoch),
            retries=retries,
        )
        return {row.id: Status(row.status) for row in answered}

    def register_worker(self, *, lease_seconds: float = 3600) -> int:
        """A row in `workers`, without a process behind it."""
        return store.register_worker(self.connection, host="test", process_id=0, slots=4, lease_seconds=lease_seconds)


_PUT = """
WITH v AS (SELECT * FROM unnest(%(ids)s, %(scheduled)s) v(id, s)),
u AS (
    UPDATE executions e SET status = %(status)s, hold = %(hold)s, worker_id = %(worker)s::bigint, token = %(token)s,
        attempt = %(attempt)s, wake_at = CASE WHEN %(wake)s THEN e.run_at END,
        dispatched_at = CASE WHEN %(active)s THEN clock_timestamp() END,
        finished_at = CASE WHEN %(resting)s THEN clock_timestamp() END
    FROM v WHERE e.id = v.id AND e.scheduled_at = v.s
    RETURNING e.*
), o AS (
    INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
    SELECT id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at FROM u WHERE %(active)s
), d AS (
    INSERT INTO dead_letters (execution_id, scheduled_at, tenant_id, task_id, fingerprint, since)
    SELECT id, scheduled_at, tenant_id, task_id, 'test', clock_timestamp() FROM u WHERE %(dead)s
), s AS (
    INSERT INTO slots (key, n, execution_id, scheduled_at)
    SELECT slot_key, 0, id, scheduled_at FROM u WHERE %(slot)s AND slot_key IS NOT NULL
), k AS (
    INSERT INTO slots (key, n, execution_id, scheduled_at)
    SELECT concurrency_key, row_number() OVER (PARTITION BY concurrency_key ORDER BY id)
            + (SELECT coalesce(max(n), 0) FROM slots s WHERE s.key = concurrency_key), id, scheduled_at
    FROM u WHERE %(active)s AND concurrency_key IS NOT NULL
)
INSERT INTO slot_waiters (key, scheduled_at, execution_id, places)
SELECT CASE hold WHEN 4 THEN slot_key ELSE concurrency_key END, scheduled_at, id,
    CASE hold WHEN 4 THEN 1 ELSE (SELECT (definition -> 'concurrency' ->> 'limit')::int FROM task_versions v
        WHERE v.id = task_version_id) END
FROM u WHERE slot_key IS NOT NULL AND hold = 4 OR concurrency_key IS NOT NULL AND hold = 7
"""


def all_shards(epoch: int = EPOCH) -> dict[int, int]:
    """What a dispatcher that holds every shard holds: shard → epoch."""
    return dict.fromkeys(range(ids.SHARDS), epoch)


def _uuid(raw: bytes) -> str:
    return raw.hex()


@contextmanager
def ledger_on(url: str) -> Iterator[Ledger]:
    """A new tenant in the database of `url`, with a connection as the daemons have."""
    with postgres.connect("test", url=url) as connection:
        yield Ledger(url, connection)


@pytest.fixture
def ledger(module_database: str) -> Iterator[Ledger]:
    """A new tenant in the module's database, whose dispatcher leads under EPOCH."""
    with ledger_on(module_database) as made:
        made.lead()
        yield made


@pytest.fixture
def own_ledger(own_database: str) -> Iterator[Ledger]:
    """A tenant alone in its database. Nobody leads."""
    with ledger_on(own_database) as made:
        yield made


@pytest.fixture
def hot_tier(redis_client: redis.Redis, redis_prefix: str) -> HotTier:
    return HotTier(redis_client, redis_prefix)


# ---- daemons ------------------------------------------------------------------------------------------------------


def quick_config(prefix: str, **changes: Any) -> Config:
    """Settings under which what normally takes seconds takes tenths."""
    quick: dict[str, Any] = {
        "redis_prefix": prefix,
        "takeover_poll_ms": 50,
        "preloader_poll_seconds": 0.2,
        "lock_lost_seconds": 0.3,
        "heartbeat_seconds": 0.2,
    }
    return Config(**{**quick, **changes})


def addresses_of(url: str, services: ServiceAddresses) -> Addresses:
    """The database of `url`, and Redis streams as the transport."""
    return Addresses(url, url, services.redis_url, "")


class Running:
    """A daemon in the loop's shell, in a thread; its passes are remembered."""

    def __init__(self, daemon: Daemon, stop: Stop | None = None) -> None:
        self.daemon = daemon
        self.stop_flag = stop or Stop()
        self.health = Health(daemon.name)
        self.thread = threading.Thread(
            target=run_until_signal,
            args=(daemon,),
            kwargs={"stop": self.stop_flag, "health": self.health},
            name=f"test-{daemon.name}",
        )
        self.thread.start()

    def stop(self) -> None:
        self.stop_flag.requested.set()
        self.thread.join(60)
        assert not self.thread.is_alive(), f"{self.daemon.name} did not end"
        assert self.health.report()["failed_passes"] == 0, f"a pass of {self.daemon.name} failed; see the log"


@contextmanager
def running(*daemons: Daemon) -> Iterator[list[Running]]:
    """Run daemons until the end of the block. A pass that fails for a fault of ours fails the test."""
    started: list[Running] = []
    try:
        for daemon in daemons:
            started.append(Running(daemon))
        yield started
    finally:
        for one in started:
            one.stop_flag.requested.set()
        for one in started:
            one.stop()


def passes(daemon: Daemon, until: Callable[[], Any]) -> Any:
    """Run passes of a daemon, without its waits, until a condition holds; its value."""

    def one() -> Any:
        result = daemon.run_once()
        assert isinstance(result, Result)
        return until()

    return eventually(one)


# ---- processes ----------------------------------------------------------------------------------------------------


class QuickDaemons(Daemons):
    """The bench's, born of the nursery."""

    def start(self, name: str, *arguments: str) -> None:
        self.running[name] = nursery().start(
            [str(settings.BASE_DIR / "manage.py"), *arguments],
            environment=self.environment,
            log=self._logs / f"{name}.log",
            death_signal=signal.SIGTERM,
        )


class Processes(QuickDaemons):
    """`manage.py …` as processes on a database and a Redis prefix of their own; each dies with this one."""

    def __init__(self, url: str, services: ServiceAddresses, prefix: str, folder: Path, **more: str) -> None:
        self.folder = folder
        self.record = folder / "runs"
        self.record.mkdir()
        environment = {
            "DATABASE_URL": url,
            "DATABASE_DIRECT_URL": url,
            "REDIS_URL": services.redis_url,
            "KAFKA_BOOTSTRAP_SERVERS": "",
            "CHRONOWEB_REDIS_PREFIX": prefix,
            RECORD_VARIABLE: str(self.record),
            "LOG_LEVEL": "INFO",
            **more,
        }
        super().__init__(environment, folder)

    def log(self, name: str) -> str:
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def terminate(self, name: str, *, seconds: float = PATIENCE_SECONDS) -> int:
        """SIGTERM one; its exit code."""
        process = self.running.pop(name)
        process.terminate()
        return process.wait(seconds)

    def wait_for_exit(self, name: str, *, seconds: float = PATIENCE_SECONDS) -> int:
        return self.running.pop(name).wait(seconds)


@contextmanager
def processes(
    url: str, services: ServiceAddresses, prefix: str, folder: Path, **environment: str
) -> Iterator[Processes]:
    """Processes that end with the block."""
    started = Processes(url, services, prefix, folder, **environment)
    try:
        yield started
    finally:
        started.stop()
