"""Which shards this dispatcher holds: each shard is a lease with an epoch, and all dispatchers share them evenly.

A member has one lease, renewed together with its shards, and one session lock, which its death frees. All members see
the same ranking of the living, and each takes the shards that fall to its rank. A shard that falls to another is given
back once nothing of it is under way. A dead member is replaced in one poll, a silent one when its lease runs out.
"""

import logging
import threading
import uuid

import psycopg

from apps.executions import ids, locks
from apps.executions.leases import STAND_BACK_POLLS
from apps.executions.store import named_sql
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

SHARD_PREFIX = "dispatcher/"
MEMBER_PREFIX = "dispatcher-member/"


def falling_to(me: uuid.UUID, members: list[uuid.UUID]) -> set[int]:
    """The shards of `me` when `members` (ordered) live: every n-th, so that shares differ by at most one."""
    if me not in members:
        return set()
    return {shard for shard in range(ids.SHARDS) if shard % len(members) == members.index(me)}


class Shards:
    """Keeps this process's leases from a thread of its own; the tick asks `held`."""

    def __init__(self, config: Config, *, url: str | None = None, clock: Clock = SYSTEM_CLOCK) -> None:
        self.holder = uuid.uuid4()
        self._config = config
        self._url = url
        self._clock = clock
        self._poll = config.takeover_poll_ms / 1000
        self._held: dict[int, int] = {}
        self._leaving: set[int] = set()
        self._settled: set[int] = set()
        self._refused = False
        self._renewed_at = float("-inf")
        self._connection: psycopg.Connection | None = None
        self._changed = threading.Condition(threading.RLock())
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shards", daemon=True)

    def start(self) -> None:
        self._thread.start()

    # ---- the tick's side ----

    def held(self) -> dict[int, int]:
        """Shard → epoch of what may be popped now."""
        with self._changed:
            return {shard: epoch for shard, epoch in self._held.items() if shard not in self._leaving}

    def leaving(self) -> set[int]:
        """Shards to be given back when nothing of them is under way: say `settle` then."""
        with self._changed:
            return self._leaving - self._settled

    def settle(self, shards: set[int]) -> None:
        """Nothing of these leaving shards is under way any more."""
        with self._changed:
            self._settled |= shards & self._leaving

    def wait_until_held(self, seconds: float) -> bool:
        """Wait up to `seconds` to hold any shard; True if one is held."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._held), seconds)

    def lost(self) -> None:
        """A write was refused as stale: pop nothing until the leases have been asked for again."""
        with self._changed:
            self._refused = True
            self._set({})

    def close(self) -> None:
        """Give every shard back, so that nobody need wait for the lease to run out."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        if self._connection is not None and not self._connection.closed:
            try:
                self._give_back(self._connection, set(self._held))
                parameters = {"prefix": f"{MEMBER_PREFIX}%", "holder": self.holder}
                self._connection.execute(named_sql("members_forget"), parameters)
            except psycopg.Error as error:  # PostgreSQL is away: the lock goes with the session, the leases run out
                logger.warning("shards not given back", extra={"action": "shards.error", "error": str(error)})
            self._connection.close()
        self._set({})

    # ---- the thread's side ----

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._stop.wait(self._step())
            except psycopg.Error as error:
                logger.warning("shards not confirmed", extra={"action": "shards.error", "error": str(error)})
                self._drop()
                self._stop.wait(self._poll)

    def _step(self) -> float:
        """Renew, see who lives, give back and take; returns seconds until the next step."""
        if self._connection is None or self._connection.closed:
            self._join()
        connection = self._connection
        assert connection is not None
        if self._refused or not self._renew(connection):
            self._refused = False
            self._drop()
            return STAND_BACK_POLLS * self._poll
        found = connection.execute(
            named_sql("members"), {"prefix": f"{MEMBER_PREFIX}%", "lock_class": locks.MEMBER}
        ).fetchall()
        members = [row[0] for row in found]
        mine = falling_to(self.holder, members)
        with self._changed:
            self._leaving = set(self._held) - mine
            going = self._leaving & self._settled
        self._give_back(connection, going)
        self._take(connection, mine - set(self._held), members)
        return self._poll

    def _join(self) -> None:
        """A new session is a new member: whatever the old one held is taken over from it, in-flight work and all."""
        self.holder = uuid.uuid4()
        self._connection = postgres.connect("shards", url=self._url, direct=True, hot=False)
        self._connection.execute("SELECT pg_advisory_lock(%s, %s)", (locks.MEMBER, locks.member_object(self.holder)))
        parameters = {
            "role": f"{MEMBER_PREFIX}{self.holder}",
            "holder": self.holder,
            "ttl": self._config.lease_ttl_seconds,
        }
        self._connection.execute(named_sql("member_join"), parameters)
        self._renewed_at = self._clock.monotonic()

    def _renew(self, connection: psycopg.Connection) -> bool:
        """Renew when it is time; False when something was lost: this process was deposed, or silent for too long."""
        if self._clock.monotonic() - self._renewed_at < self._config.lease_renew_seconds:
            return self._keeps_all(connection) if self._held else True
        parameters = {"holder": self.holder, "ttl": self._config.lease_ttl_seconds}
        kept = {role for role, _ in connection.execute(named_sql("holder_renew"), parameters)}
        self._renewed_at = self._clock.monotonic()
        missing = {f"{SHARD_PREFIX}{shard}" for shard in self._held} | {f"{MEMBER_PREFIX}{self.holder}"}
        missing -= kept
        if missing:
            logger.warning("leases lost", extra={"action": "shards.lost", "roles": sorted(missing)})
        return not missing

    def _keeps_all(self, connection: psycopg.Connection) -> bool:
        row = connection.execute(
            "SELECT count(*) FROM leases WHERE holder = %s AND role LIKE %s", (self.holder, f"{SHARD_PREFIX}%")
        ).fetchone()
        assert row is not None
        return row[0] >= len(self._held)

    def _take(self, connection: psycopg.Connection, wanted: set[int], members: list[uuid.UUID]) -> None:
        if not wanted:
            return
        parameters = {
            "roles": [f"{SHARD_PREFIX}{shard}" for shard in wanted],
            "holder": self.holder,
            "ttl": self._config.lease_ttl_seconds,
            "living": members,
        }
        taken = {
            int(role.removeprefix(SHARD_PREFIX)): epoch
            for role, epoch in connection.execute(named_sql("shards_take"), parameters)
        }
        if taken:
            logger.info("shards taken", extra={"action": "shards.taken", "shards": sorted(taken)})
            self._set({**self._held, **taken})

    def _give_back(self, connection: psycopg.Connection, shards: set[int]) -> None:
        if not shards:
            return
        roles = [f"{SHARD_PREFIX}{shard}" for shard in shards]
        with self._changed:
            self._set({shard: epoch for shard, epoch in self._held.items() if shard not in shards})
            self._leaving -= shards
            self._settled -= shards
        connection.execute(named_sql("shards_give_back"), {"roles": roles, "holder": self.holder})
        logger.info("shards given back", extra={"action": "shards.given_back", "shards": sorted(shards)})

    def _drop(self) -> None:
        # Without its session the lock is gone: somebody else may hold the shards already.
        self._set({})
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _set(self, held: dict[int, int]) -> None:
        with self._changed:
            self._held = held
            if not held:
                self._leaving = set()
                self._settled = set()
            self._changed.notify_all()
