"""Connections to Redis (or Valkey)."""

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from chronoweb.runtime.errors import ConfigurationError


def redis_url() -> str:
    """Where Redis is."""
    from django.conf import settings

    url = settings.SERVICES.redis_url
    if not url:
        raise ConfigurationError(
            "REDIS_URL is not set and no embedded services run: set it, or start `manage.py quickstart`"
        )
    return url


def connect(url: str | None = None) -> redis.Redis:
    """A client whose answers are bytes. It does not retry by itself: the loop that uses it decides."""
    return redis.Redis.from_url(
        url or redis_url(),
        socket_connect_timeout=2,
        socket_timeout=5,
        socket_keepalive=True,
        health_check_interval=15,
        retry=Retry(NoBackoff(), 0),
    )


def connect_async(url: str | None = None) -> redis.asyncio.Redis:
    """The same for an event loop. Without a time limit on answers: blocking reads have their own."""
    return redis.asyncio.Redis.from_url(
        url or redis_url(),
        socket_connect_timeout=2,
        socket_keepalive=True,
        health_check_interval=15,
        retry=AsyncRetry(NoBackoff(), 0),
    )


def now_ms(client: redis.Redis) -> float:
    """Redis's clock, in milliseconds since the epoch."""
    seconds, microseconds = client.time()
    return seconds * 1000 + microseconds / 1000
