"""Limits of requests over time, counted in Redis in one atomic call. While Redis is away everything is let in."""

import logging
import math
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import ChronowebError
from chronoweb.runtime.redis_client import redis_url

logger = logging.getLogger(__name__)

_SCRIPT = (Path(__file__).parent / "lua" / "rate_limit.lua").read_text()
_PATIENCE_SECONDS = 0.2
"""A request waits no longer for its count."""
_AWAY_SECONDS = 1.0
"""After a failure Redis is left alone for so long: requests must not wait one after another."""


class Taken(NamedTuple):
    """limit, used: in the window. reset_seconds: until it ends; retry_seconds: until one more would be let in."""

    let_in: bool
    limit: int
    used: int
    window_seconds: int
    reset_seconds: int
    retry_seconds: int

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    def headers(self) -> dict[str, str]:
        """RateLimit-* as IETF's draft names them; Retry-After for who was not let in."""
        told = {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_seconds),
            "RateLimit-Policy": f"{self.limit};w={self.window_seconds}",
        }
        return told if self.let_in else {**told, "Retry-After": str(self.retry_seconds)}


class TooMany(ChronowebError):
    """A limit is reached; `taken` says when to come back."""

    def __init__(self, taken: Taken, message: str) -> None:
        self.taken = taken
        super().__init__(message)


class Limiter:
    """Safe from any thread."""

    def __init__(self, url: str, prefix: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._prefix = prefix
        self._clock = clock
        self._away_until = 0.0
        self._lock = threading.Lock()
        self._client = redis.Redis.from_url(
            url,
            socket_connect_timeout=_PATIENCE_SECONDS,
            socket_timeout=_PATIENCE_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
        self._take = self._client.register_script(_SCRIPT)

    def take(self, name: str, limit: int, *, window_seconds: int = 60, count: int = 1) -> Taken | None:
        """Count `count` requests under `name`; 0 only looks. None: Redis is away, so nobody counts."""
        terms = [limit, window_seconds * 1000, count]
        reply = self._asked(lambda: self._take(keys=[self._key(name)], args=terms))
        if reply is None:
            return None
        let_in, used, left_ms, wait_ms = (int(number) for number in reply)
        reset, retry = math.ceil(left_ms / 1000), math.ceil(wait_ms / 1000)
        return Taken(bool(let_in), limit, used, window_seconds, reset, retry)

    def note(self, name: str, seconds: int, *, anew: bool = False) -> bool:
        """Keep `name` for so long. anew: from now on again. Whether it was not kept until now; False: Redis is away."""
        return bool(self._asked(lambda: self._client.set(self._key(name), 1, ex=seconds, nx=not anew)))

    def is_noted(self, name: str) -> bool:
        """False if Redis is away, too."""
        return bool(self._asked(lambda: self._client.exists(self._key(name))))

    def _key(self, name: str) -> str:
        return f"{self._prefix}limit:{name}"

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What Redis answers; None: it is away."""
        if self._clock.monotonic() < self._away_until:
            return None
        try:
            return ask()
        except (redis.RedisError, OSError) as error:
            self._leave_alone(error)
            return None

    def _leave_alone(self, error: Exception) -> None:
        with self._lock:
            self._away_until = self._clock.monotonic() + _AWAY_SECONDS
        logger.warning("requests are not counted: Redis is away", extra={"action": "limit.away", "error": str(error)})


def limiter() -> Limiter:
    """This process's."""
    return _limiter(redis_url(), config().redis_prefix)


@cache
def _limiter(url: str, prefix: str) -> Limiter:
    return Limiter(url, prefix)
