"""A worker's sign of life: its row, its lock, its heartbeat, and what it says of itself in Redis.

The lock shows a death at once, the heartbeat a silence. Only a worker that reaches PostgreSQL, and whose receiving
loop moves, offers itself to the dispatcher.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import psycopg
import redis

from apps.executions import locks, store
from apps.executions.labels import TENANT, read_worker_labels
from apps.executions.rows import WorkerLoad
from apps.worker.class_slots import ClassSlots
from apps.worker.live_state import LiveState, LiveStates
from apps.worker.pace import Of, Told
from chronoweb.runtime import postgres, redis_client
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from chronoweb.runtime.errors import ConfigurationError
from chronoweb.runtime.version import VERSION

logger = logging.getLogger(__name__)

_REPORT_SECONDS = 0.05
_LOOK_SECONDS = 1.0
_DEAF_SECONDS = 3.0
_SIGN_OFF_SECONDS = 1.0
_LOCK_LOOKS = 6


@dataclass(frozen=True)
class Identity:
    """Who a worker is. labels: what it was started with. tenant: id (hex) of the only tenant that it serves."""

    worker_id: int
    labels: tuple[str, ...] = ()
    tenant: str | None = None


def register(
    addresses: Addresses, config: Config, *, slots: ClassSlots, labels: Sequence[str] = ()
) -> tuple[Identity, psycopg.Connection]:
    """A new worker, and the direct connection that holds its lock. labels: as given, `tenant=SLUG` among them.

    Raises ConfigurationError for a label that is none, and for a tenant that there is not.
    """
    carried, slug = read_worker_labels(labels)
    connection = postgres.connect("worker-presence", url=addresses.database_direct_url, direct=True, hot=False)
    try:
        tenant = None if slug is None else store.tenant_of_slug(connection, slug)
        if slug is not None and tenant is None:
            raise ConfigurationError(f"the worker's label {TENANT}={slug} names no tenant: make it, or mend the label")
        worker_id = store.register_worker(
            connection,
            host=socket.gethostname(),
            process_id=os.getpid(),
            slots=slots.total,
            class_slots=slots.own,
            labels=carried,
            tenant_id=tenant,
            lease_seconds=config.worker_lease_seconds,
            version=VERSION,
        )
        _lock(connection, worker_id)
    except (psycopg.Error, ConfigurationError):
        connection.close()
        raise
    return Identity(worker_id, carried, tenant.hex if tenant else None), connection


def _lock(connection: psycopg.Connection, worker_id: int) -> bool:
    """False while the server believes in an earlier session of this worker, which holds the lock still."""
    row = connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (locks.WORKER, worker_id & 0x7FFF_FFFF)).fetchone()
    return row == (True,)


class Presence:
    """Runs in a thread of its own from `start` to `close`."""

    def __init__(
        self,
        *,
        identity: Identity,
        connection: psycopg.Connection,
        addresses: Addresses,
        config: Config,
        database_clock: DatabaseClock,
        describe: Callable[[], LiveState],
        measure: Callable[[], WorkerLoad],
        slots_used: Callable[[], Sequence[int]],
        each_second: Callable[[psycopg.Connection], None],
        on_lost: Callable[[str], None],
        on_drain: Callable[[], None],
        paces: Callable[[], Mapping[Of, Told] | None] = lambda: None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.worker_id = identity.worker_id
        self._connection = connection
        self._addresses = addresses
        self._config = config
        self._database_clock = database_clock
        self._describe = describe
        self._measure = measure
        self._slots_used = slots_used
        self._each_second = each_second
        self._on_lost = on_lost
        self._on_drain = on_drain
        self._paces = paces
        self._clock = clock
        self._received_at = clock.monotonic()
        self._looked_at = float("-inf")
        self._beat_at = float("-inf")
        self._reached_at = clock.monotonic()
        self._state = "active"
        self._locked = True
        self._redis: redis.Redis | None = None
        self._states: LiveStates | None = None
        self._stop = threading.Event()
        self._told_draining = threading.Event()
        self._withdrawn = False
        self._thread = threading.Thread(target=self._run, name="presence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False after a fault ended the thread: nobody would hear of this worker any more."""
        return self._thread.is_alive()

    def receiving(self) -> None:
        """The receiving loop has gone round."""
        self._received_at = self._clock.monotonic()

    def draining(self) -> None:
        """Take no more work: the dispatcher is told at once, the row within a moment."""
        self._state = "draining"
        self._beat_at = self._looked_at = float("-inf")
        try:
            self._live_states().withdraw(self.worker_id)
        except redis.RedisError:
            self._drop_redis()  # the entry grows old by itself

    def close(self) -> None:
        """The worker has ended in order."""
        if self.alive:
            self._told_draining.wait(_SIGN_OFF_SECONDS)
        self._stop.set()
        self._thread.join(timeout=5)
        try:
            store.stop_worker(self._connection, worker_id=self.worker_id)
            self._connection.close()
        except psycopg.Error as error:
            logger.warning("not signed off", extra={"action": "worker.sign_off", "error": str(error)})
        self._drop_redis()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._look()
                self._report()
            except psycopg.Error as error:
                self._reconnect(error)
            except redis.RedisError as error:
                logger.warning("Redis is away", extra={"action": "worker.redis_away", "error": str(error)})
                self._drop_redis()
                self._stop.wait(0.2)
            self._stop.wait(_REPORT_SECONDS)

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        database_us, asked_to_drain = store.worker_look(self._connection, worker_id=self.worker_id)
        self._database_clock.observe(database_us)
        if asked_to_drain and self._state == "active":
            self._on_drain()
        # Without the lock this worker looks dead as soon as the server has buried its last session.
        self._locked = self._locked or _lock(self._connection, self.worker_id)
        if now - self._beat_at >= self._config.heartbeat_seconds:
            self._beat_at, state = now, self._state
            alive = store.heartbeat(
                self._connection,
                worker_id=self.worker_id,
                state=state,
                lease_seconds=self._config.worker_lease_seconds,
                load=self._measure(),
                class_used=self._slots_used(),
                labels=self._describe().labels,
            )
            if state == "draining":
                self._told_draining.set()
            if not alive:
                self._on_lost("the watchdog has given this worker up")
        self._each_second(self._connection)
        self._reached_at = self._clock.monotonic()

    def _report(self) -> None:
        now = self._clock.monotonic()
        fit = now - self._received_at < _DEAF_SECONDS and now - self._reached_at < _DEAF_SECONDS
        if self._state != "active":
            if not self._withdrawn:
                # Once more: a report may have been on its way when `draining` withdrew it.
                self._live_states().withdraw(self.worker_id)
                self._withdrawn = True
        elif fit and self._locked:
            self._live_states().report(self.worker_id, self._describe())
        if told := self._paces():
            self._live_states().tell_pace(self.worker_id, told)

    def _reconnect(self, error: psycopg.Error) -> None:
        logger.warning("PostgreSQL is away", extra={"action": "worker.ledger_away", "error": str(error)})
        self._connection.close()
        try:
            self._connection = postgres.connect(
                "worker-presence", url=self._addresses.database_direct_url, direct=True, hot=False
            )
            self._beat_at = float("-inf")
            self._locked = self._take_lock()
        except psycopg.Error:
            self._stop.wait(0.2)

    def _take_lock(self) -> bool:
        """The server buries the session before within milliseconds: a second look now, not at the next pass."""
        for _ in range(_LOCK_LOOKS):
            if _lock(self._connection, self.worker_id):
                return True
            self._stop.wait(_REPORT_SECONDS)
        return False

    def _live_states(self) -> LiveStates:
        if self._states is None:
            self._redis = redis_client.connect(self._addresses.redis_url)
            self._states = LiveStates(self._redis, self._config.redis_prefix)
        return self._states

    def _drop_redis(self) -> None:
        if self._redis is not None:
            self._redis.close()
        self._redis = self._states = None
