"""The preloader: occurrences become executions, executions enter the hot tier. The hot tier's only writer.

One leader; every write carries its epoch. NOTIFY wakes it; looking each second stays the truth.
"""

import logging
from dataclasses import dataclass

import psycopg
import redis
from django import db
from prometheus_client import Counter, Gauge

from apps.dispatcher.hot_tier import HotTier
from apps.executions import ids, store
from apps.executions.leases import Leadership
from apps.preloader import hydrate, materialise
from chronoweb.runtime import postgres, redis_client, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from chronoweb.runtime.loop import Result

logger = logging.getLogger(__name__)

ROLE = "preloader"
_DAY_SECONDS = 86_400

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

    def run_once(self) -> Result:
        """One pass: restore what Redis lost, materialise, hydrate."""
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
        if epoch != self._epoch:
            hydrate.restore(links.scan, links.hot_tier, range(ids.SHARDS))
            self._epoch = epoch
        elif everywhere:
            emptied = links.hot_tier.incomplete()
            if emptied:
                hydrate.restore(links.scan, links.hot_tier, emptied)
        looked_at = materialise.materialise(self.config, role=ROLE, epoch=epoch)
        did, full = 0, False
        for day in self._days(links, everywhere):
            count = hydrate.hydrate_day(links.ledger, links.hot_tier, self.config, day=day, role=ROLE, epoch=epoch)
            PRELOADED.inc(count)
            did += count
            full = full or count >= self.config.hydrate_batch
        if everywhere:
            self._looked_everywhere_at = now
        more = full or looked_at > 0
        return Result(did + looked_at, 0 if more else self.config.preloader_poll_seconds)

    def _days(self, links: _Connections, everywhere: bool) -> list[int]:
        """Days to hydrate: today, near midnight the next, and each second every day that asks for it."""
        seconds = self.clock.time()
        today = int(seconds // _DAY_SECONDS)
        ahead = int((seconds + self.config.lookahead_minutes * 60) // _DAY_SECONDS)
        days = list(range(today, ahead + 1))
        if everywhere:
            asked = store.days_to_wake(
                links.ledger,
                lookahead_seconds=self.config.lookahead_minutes * 60,
                limit=self.config.hydrate_batch,
            )
            days += [day for day in asked if day not in days]
        return days


def build(config: Config, addresses: Addresses) -> Preloader:
    """A preloader that stands for election from now on."""
    leadership = Leadership(ROLE, config, url=addresses.database_direct_url)
    leadership.start()
    return Preloader(config, addresses, leadership)
