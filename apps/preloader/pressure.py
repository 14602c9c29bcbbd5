"""Redis's memory: under pressure the lookahead shrinks and what is far off is put back into the ledger.

Nothing is lost by it: an evicted execution is SCHEDULED again and comes back when it is nearer.
"""

import logging
from contextlib import suppress
from dataclasses import dataclass

import psycopg
import redis
from prometheus_client import Gauge

from apps.dispatcher.hot_tier import HotTier
from apps.executions import store
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

_POLICY = "noeviction"
_HIGH = 0.8
_LOW = 0.6
_CHUNK = 2000

USED = Gauge("chronoweb_redis_memory_used_ratio", "Used memory ÷ maxmemory; 0 when there is no limit")
POLICY = Gauge("chronoweb_redis_noeviction", "1 while Redis keeps what it is given; 0 is an alarm")
LOOKAHEAD = Gauge("chronoweb_lookahead_seconds", "How far ahead executions enter the hot tier now")


@dataclass
class Pressure:
    """Remembers whether the lookahead is shrunk."""

    config: Config
    shrunk: bool = False

    @property
    def lookahead_seconds(self) -> float:
        """How far ahead to hydrate now."""
        minutes = self.config.lookahead_minutes
        return 60.0 * (min(minutes, self.config.lookahead_under_pressure_minutes) if self.shrunk else minutes)

    def look(self, hot_tier: HotTier) -> None:
        """Measure, and shrink or widen; call it about each second."""
        used, policy = hot_tier.memory()
        USED.set(used)
        POLICY.set(policy == _POLICY)
        if policy != _POLICY:
            # Redis would forget executions without a word. The watchdog's walk finds them, late.
            logger.error(
                "Redis may evict: set maxmemory-policy to noeviction",
                extra={"action": "preloader.eviction_policy", "policy": policy},
            )
        if not self.shrunk and used > _HIGH:
            self.tighten(f"Redis uses {used:.0%} of its memory")
        elif self.shrunk and used < _LOW:
            self.shrunk = False
            logger.info("lookahead widened again", extra={"action": "preloader.widened"})
        LOOKAHEAD.set(self.lookahead_seconds)
        with suppress(redis.ResponseError):  # it is for who looks: a Redis that takes no writes keeps nothing from due
            hot_tier.tell_lookahead(self.lookahead_seconds)

    def tighten(self, why: str) -> None:
        """Shrink the lookahead."""
        if not self.shrunk:
            logger.warning("lookahead shrunk", extra={"action": "preloader.shrunk", "reason": why})
        self.shrunk = True

    def relieve(self, connection: psycopg.Connection, hot_tier: HotTier, *, role: str, epoch: int) -> int:
        """While shrunk, put back what is beyond the shorter lookahead; returns how many executions."""
        if not self.shrunk:
            return 0
        evicted = 0
        for key, identities in hot_tier.beyond(self.lookahead_seconds * 1000, chunk=_CHUNK):
            evicted += len(store.evict(connection, sorted(identities), role=role, epoch=epoch))
            hot_tier.remove(key, identities)
        if evicted:
            logger.warning("evicted", extra={"action": "preloader.evicted", "executions": evicted})
        return evicted
