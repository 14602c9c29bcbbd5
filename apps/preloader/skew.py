"""How far the clocks are apart: PostgreSQL, Redis and this host. Nothing depends on it; people should know it."""

import logging

import psycopg
import redis
from prometheus_client import Gauge

from chronoweb.runtime import redis_client
from chronoweb.runtime.clock import Clock

logger = logging.getLogger(__name__)

_ALARM_SECONDS = 0.05

SKEW = Gauge("chronoweb_clock_skew_seconds", "That clock − PostgreSQL's, half a round trip uncertain", ["clock"])


def measure(connection: psycopg.Connection, client: redis.Redis, clock: Clock) -> dict[str, float]:
    """Seconds that Redis's and the host's clock are ahead of PostgreSQL's; above 50 ms it is logged."""
    before = clock.time()
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8 + %s", (0.0,)).fetchone()
    assert row is not None
    middle = (before + clock.time()) / 2
    host = middle - row[0]
    asked = clock.time()
    redis_seconds = redis_client.now_ms(client) / 1000
    found = {"host": host, "redis": redis_seconds - (asked + clock.time()) / 2 + host}
    for name, seconds in found.items():
        SKEW.labels(name).set(seconds)
        if abs(seconds) > _ALARM_SECONDS:
            logger.warning("clocks differ", extra={"action": "clock.skew", "clock": name, "seconds": round(seconds, 3)})
    return found
