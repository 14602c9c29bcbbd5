"""The preloader: occurrences become executions, executions enter the hot tier. The hot tier's only writer.

One leader; every write carries its epoch. NOTIFY wakes it; looking each second stays the truth.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
import redis
from django import db
from prometheus_client import Counter, Gauge

from apps.dispatcher.hot_tier import HotTier
from apps.executions import ids, partitions, store
from apps.executions.leases import Leadership
from apps.preloader import hydrate, skew
from apps.preloader.backfills import Backfills
from apps.preloader.dag_schedules import DagSchedules
from apps.preloader.materialise import Materialiser
from apps.preloader.pressure import Pressure
from apps.preloader.replays import Replays
from chronoweb.runtime import postgres, redis_client, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from chronoweb.runtime.loop import Result

logger = logging.getLogger(__name__)

ROLE = "preloader"
_DAY_SECONDS = 86_400
_DAYS_EVERY_SECONDS = 30.0
_RECLAIM_CHUNK = 1000

PRELOADED = Counter("chronoweb_preloaded_total", "Executions added to the hot tier")
LEADING = Gauge("chronoweb_preloader_leading", "1 while this process leads")


@dataclass
class _Connections:
    ledger: psycopg.Connection
    scan: psycopg.Connection
    listen: psycopg.Connection
    redis: redis.Redis
    hot_tier: HotTier


@dataclass
class Preloader:
    """The daemon."""

    config: Config
    addresses: Addresses
    leadership: Leadership
    clock: Clock = SYSTEM_CLOCK
    name: str = ROLE
    _open: _Connections | None = None
    _epoch: int | None = None
    _looked_everywhere_at: float = float("-inf")
    _known_days: list[int] = field(default_factory=list)
    _knew_days_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._room = hydrate.Room(self.config.hot_tier_entries)
        self._pressure = Pressure(self.config)
        self._materialiser = Materialiser(self.config, ROLE, self.clock)
        self._dag_schedules = DagSchedules(self.config, ROLE, self.clock)
        self._backfills = Backfills(ROLE)
        self._replays = Replays(ROLE)
        self._dags_started = 0

    def run_once(self) -> Result:
        """One pass: restore what Redis lost, hydrate, start runs of DAGs, move backfills on, materialise."""
        epoch = self.leadership.epoch
        LEADING.set(epoch is not None)
        if epoch is None:
            self._epoch = None
            return Result(0, self.config.takeover_poll_ms / 1000)
        links = self._links()
        try:
            return self._pass(links, epoch)
        except LeadershipLost:
            logger.warning("stale epoch", extra={"action": "preloader.stale", "epoch": epoch})
            self.leadership.lost()
            return Result(0, 0)

    def wait(self, seconds: float) -> None:
        """Until a notification, at most `seconds`."""
        if self._epoch is None:
            self.leadership.wait_until_leader(seconds)
        else:
            wakeup.wait(self._links().listen, seconds)

    def reset(self) -> None:
        if self._open is not None:
            for connection in (self._open.ledger, self._open.scan, self._open.listen):
                connection.close()
            self._open.redis.close()
            self._open = None
        db.connections.close_all()
        # The next pass adds again what may have been marked and not added.
        self._epoch = None
        self._room.forget()

    def close(self) -> None:
        self.reset()
        self.leadership.close()

    def _links(self) -> _Connections:
        if self._open is None:
            client = redis_client.connect(self.addresses.redis_url)
            listen = postgres.connect(
                "preloader-listen", url=self.addresses.database_direct_url, direct=True, hot=False
            )
            listen.execute(f"LISTEN {wakeup.PRELOADER}")
            self._open = _Connections(
                ledger=postgres.connect(ROLE, url=self.addresses.database_url),
                scan=postgres.connect("preloader-scan", url=self.addresses.database_url, hot=False),
                listen=listen,
                redis=client,
                hot_tier=HotTier(client, self.config.redis_prefix),
            )
        return self._open

    def _pass(self, links: _Connections, epoch: int) -> Result:
        now = self.clock.monotonic()
        everywhere = now - self._looked_everywhere_at >= self.config.preloader_poll_seconds
        self._restore(links, epoch, everywhere)
        if everywhere:
            self._pressure.look(links.hot_tier)
            self._pressure.relieve(links.ledger, links.hot_tier, role=ROLE, epoch=epoch)
            skew.measure(links.ledger, links.redis, self.clock)
        # First what waits in the ledger: who woke us waits for that, and what is made below has a pass of its own.
        hydrated, more = self._hydrate(links, epoch, everywhere)
        made = self._begin(epoch, everywhere) + self._materialiser.follow_zones(epoch)
        made += self._materialiser.materialise(epoch, links.scan)
        if everywhere:
            self._looked_everywhere_at = now
        return Result(hydrated + made, 0 if more or made else self.config.preloader_poll_seconds)

    def _hydrate(self, links: _Connections, epoch: int, everywhere: bool) -> tuple[int, bool]:
        """A batch of each day: (how many were added, whether more wait that had no turn yet)."""
        hydrator = hydrate.Hydrator(links.ledger, links.hot_tier, self.config, self._room, ROLE, epoch)
        did, more = 0, False
        try:
            for day in self._days(links, everywhere):
                count, left = hydrator.hydrate_day(day, lookahead_seconds=self._pressure.lookahead_seconds)
                PRELOADED.inc(count)
                did += count
                more = more or left
        except redis.exceptions.OutOfMemoryError:
            # What was marked and not added goes in at the next pass, once there is room.
            self._pressure.tighten("Redis is out of memory")
            self._pressure.relieve(links.ledger, links.hot_tier, role=ROLE, epoch=epoch)
            self._epoch = None
            return did, False
        return did, more

    def _begin(self, epoch: int, everywhere: bool) -> int:
        """Runs of DAGs that are due, and what backfills have room for; looked for each second, and while some are.

        While runs wait for others of their DAG each wake-up may be the end of one of those.
        """
        begun = self._dag_schedules.begin_queued(epoch) if everywhere or self._dag_schedules.some_wait else 0
        if everywhere or self._dags_started:
            self._dags_started = self._dag_schedules.start_due(epoch)
            begun += self._dags_started
        return begun + (self._backfills.move_on(epoch) + self._replays.move_on(epoch) if everywhere else 0)

    def _restore(self, links: _Connections, epoch: int, everywhere: bool) -> None:
        """Fill what Redis does not hold: all of it for a new leader, a shard when its mark is gone."""
        if epoch != self._epoch:
            shards: Sequence[int] = range(ids.SHARDS)
        else:
            shards = links.hot_tier.incomplete() if everywhere else []
            if shards:
                logger.warning("Redis was emptied or replaced", extra={"action": "preloader.emptied"})
                self._reclaim_unclaimed(links)
        if shards:
            hydrate.restore(links.scan, links.hot_tier, shards)
            self._room.forget()
        self._epoch = epoch

    def _reclaim_unclaimed(self, links: _Connections) -> None:
        """Workers' inboxes went with Redis: take back at once what had been sent there and was not claimed."""
        if self.addresses.kafka_bootstrap_servers:
            return
        while late := store.sent_by_day(links.ledger, "outstanding_unclaimed", seconds=0, limit=_RECLAIM_CHUNK):
            reason = "Redis, which carried it to its worker, was emptied"
            if not store.reclaim(links.ledger, late, reason=reason, actor=ROLE, only_unclaimed=True):
                break

    def _days(self, links: _Connections, everywhere: bool) -> list[int]:
        """Days to hydrate: today, near midnight the next, and each second every day where something waits."""
        seconds = self.clock.time()
        today = int(seconds // _DAY_SECONDS)
        ahead = int((seconds + self.config.lookahead_minutes * 60) // _DAY_SECONDS)
        days = list(range(today, ahead + 1))
        if everywhere:
            now = self.clock.monotonic()
            if now - self._knew_days_at > _DAYS_EVERY_SECONDS:
                self._known_days = sorted(partitions.existing_days(links.scan))
                self._knew_days_at = now
            others = [day for day in self._known_days if day not in days]
            days += store.days_that_wait(links.ledger, others)
        return days


def build(config: Config, addresses: Addresses) -> Preloader:
    """A preloader that stands for election from now on."""
    leadership = Leadership(ROLE, config, url=addresses.database_direct_url)
    leadership.start()
    return Preloader(config, addresses, leadership)
