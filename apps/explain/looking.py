"""Looking at Redis for who explains: what it says is a hint, so it is asked briefly, and left alone while it is away.

A list of executions must not wait for a Redis that is stopped.
"""

import logging
import time
from collections.abc import Callable
from functools import cache
from typing import TypeVar

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chronoweb.runtime.config import config
from chronoweb.runtime.redis_client import redis_url

logger = logging.getLogger(__name__)
T = TypeVar("T")

_PATIENCE_SECONDS = 2.0
_LEAVE_SECONDS = 5.0
"""How long nobody asks again after no answer came."""

_away_until: dict[str, float] = {}
"""Its address → until when it is not asked, in monotonic seconds."""


def ask(read: Callable[[redis.Redis, str], T]) -> T | None:
    """What `read` finds, given the client and the prefix of all keys; None: Redis is away."""
    url = redis_url()
    if time.monotonic() < _away_until.get(url, float("-inf")):
        return None
    try:
        return read(_client(url), config().redis_prefix)
    except redis.RedisError as error:
        _away_until[url] = time.monotonic() + _LEAVE_SECONDS
        logger.warning("Redis is away", extra={"action": "explain.redis_away", "error": str(error)})
        return None


@cache
def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=_PATIENCE_SECONDS,
        socket_timeout=_PATIENCE_SECONDS,
        socket_keepalive=True,
        health_check_interval=15,
        retry=Retry(NoBackoff(), 0),
    )
