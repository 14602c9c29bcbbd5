"""Leadership of a role: one holder, an epoch that grows with each change, proof on every write.

Each candidate holds one direct connection. Its session lock makes a dead leader visible in one poll; the lease's
expiry, by the database's clock, makes a silent one replaceable. Writers pass the epoch, and the statement refuses a
stale one: a leader that was paused finds out by writing nothing.
"""

import logging
import threading
import uuid

import psycopg

from apps.executions import locks
from apps.executions.store import named_sql
from chronoweb.runtime import postgres
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)


STAND_BACK_POLLS = 4
"""Polls that a process which lost a lease sits out, so that a standby gets it."""


class Leadership:
    """Keeps trying to hold `role` from a thread of its own."""

    def __init__(self, role: str, config: Config, *, url: str | None = None) -> None:
        self.role = role
        self.holder = uuid.uuid4()
        self._config = config
        self._url = url
        self._epoch: int | None = None
        self._connection: psycopg.Connection | None = None
        self._locked = False
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._deposed = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease-{role}", daemon=True)

    @property
    def epoch(self) -> int | None:
        """The epoch that this process holds; None while another leads."""
        return self._epoch

    def start(self) -> None:
        self._thread.start()

    def wait_until_leader(self, seconds: float) -> bool:
        """Wait up to `seconds` to become the leader; True if it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._epoch is not None, seconds)

    def lost(self) -> None:
        """A write was refused as stale: stop leading at once and stand for election again."""
        self._deposed.set()
        self._set(None)
        self._wake.set()  # or the lock would be kept, idle, until the next renewal

    def close(self) -> None:
        """Give the role up, so that a standby need not wait for the lease to run out."""
        self._stop.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._connection is not None and not self._connection.closed:
            self._release(self._connection)
            self._connection.close()
        self._set(None)

    def _release(self, connection: psycopg.Connection) -> None:
        if self._epoch is None:
            return
        parameters = {"role": self.role, "holder": self.holder, "epoch": self._epoch}
        try:
            connection.execute(named_sql("lease_release"), parameters)
        except psycopg.Error as error:  # PostgreSQL is away: the lock goes with the session, the lease runs out
            logger.warning(
                "lease not given back", extra={"action": "lease.error", "role": self.role, "error": str(error)}
            )

    def _run(self) -> None:
        while not self._stop.is_set():
            self._wake.clear()
            try:
                pause = self._step()
            except psycopg.Error as error:
                logger.warning(
                    "lease not confirmed", extra={"action": "lease.error", "role": self.role, "error": str(error)}
                )
                self._drop()
                pause = self._config.takeover_poll_ms / 1000
            if not self._stop.is_set():
                self._wake.wait(pause)

    def _step(self) -> float:
        """Renew or stand for election; returns seconds until the next step."""
        if self._connection is None or self._connection.closed:
            self._locked = False
            self._connection = postgres.connect(f"lease-{self.role}", url=self._url, direct=True, hot=False)
        if self._epoch is not None:
            if self._renew(self._connection):
                return self._pause_of_leader(self._connection)
            # Deposed, or silent for too long: whoever waits comes first.
            logger.warning("lease lost", extra={"action": "lease.lost", "role": self.role, "epoch": self._epoch})
            self._set(None)
            self._unlock(self._connection)
            return STAND_BACK_POLLS * self._config.takeover_poll_ms / 1000
        if self._deposed.is_set():
            self._deposed.clear()
            self._unlock(self._connection)
            return STAND_BACK_POLLS * self._config.takeover_poll_ms / 1000
        taken = self._take(self._connection)
        if taken is not None:
            logger.info("leading", extra={"action": "lease.taken", "role": self.role, "epoch": taken})
            self._set(taken)
            return self._pause_of_leader(self._connection)
        return self._config.takeover_poll_ms / 1000

    def _pause_of_leader(self, connection: psycopg.Connection) -> float:
        """Until the next renewal. Who took over from a silent leader lacks the lock as long as that one has it, and
        must get it before the silent one, resumed, has stood back: or that one would take a dead leader's role."""
        if not self._locked:
            self._lock(connection)
        return self._config.lease_renew_seconds if self._locked else self._config.takeover_poll_ms / 1000

    def _take(self, connection: psycopg.Connection) -> int | None:
        self._lock(connection)
        row = connection.execute(
            named_sql("lease_take"),
            {"role": self.role, "holder": self.holder, "ttl": self._config.lease_ttl_seconds, "locked": self._locked},
        ).fetchone()
        return None if row is None else row[0]

    def _lock(self, connection: psycopg.Connection) -> None:
        if not self._locked:
            self._locked = connection.execute(
                "SELECT pg_try_advisory_lock(%s, %s)", (locks.ROLE, locks.role_object(self.role))
            ).fetchone() == (True,)

    def _renew(self, connection: psycopg.Connection) -> bool:
        parameters = {
            "role": self.role,
            "holder": self.holder,
            "epoch": self._epoch,
            "ttl": self._config.lease_ttl_seconds,
        }
        return connection.execute(named_sql("lease_renew"), parameters).fetchone() is not None

    def _unlock(self, connection: psycopg.Connection) -> None:
        connection.execute("SELECT pg_advisory_unlock_all()")
        self._locked = False

    def _drop(self) -> None:
        # Without its session the lock is gone: somebody else may lead already.
        self._set(None)
        self._locked = False
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _set(self, epoch: int | None) -> None:
        with self._changed:
            self._epoch = epoch
            self._changed.notify_all()
