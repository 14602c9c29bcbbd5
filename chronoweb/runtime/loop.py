"""The shell around every daemon: signals, sleeping, backing off, surviving errors.

A daemon is `run_once() -> Result`. This module alone decides when it is called again, and what happens when
PostgreSQL, Redis or the broker is away: it backs off, has the daemon drop its connections, and tries for ever.
"""

import logging
import random
import signal
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Protocol

import redis

from chronoweb.runtime.away import is_away
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.health import Health

logger = logging.getLogger(__name__)

_SHORTEST_BACKOFF_SECONDS = 0.1
_LONGEST_BACKOFF_SECONDS = 5.0
_TRANSIENT = (redis.RedisError, OSError, ServiceUnavailable)


@dataclass(frozen=True)
class Result:
    """What one pass did. wait_seconds: how long nothing needs doing (0: go on at once)."""

    did: int
    wait_seconds: float


class Daemon(Protocol):
    """One of the four daemons, as the shell sees it."""

    name: str

    def run_once(self) -> Result:
        """Do what is due and return; never sleeps."""

    def wait(self, seconds: float) -> None:
        """Sleep up to `seconds`, or until a wake-up says that there is something to do."""

    def reset(self) -> None:
        """Drop connections after an error; the next pass makes new ones."""

    def close(self) -> None:
        """Give back what the daemon holds (leases, claimed work)."""


class Stop:
    """Set by SIGTERM and SIGINT; a second signal says: hurry."""

    def __init__(self) -> None:
        self.requested = threading.Event()
        self.hurry = threading.Event()

    def install(self) -> None:
        """Listen for the two signals; only the main thread may."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested.is_set():
            self.hurry.set()
        self.requested.set()


def run_until_signal(daemon: Daemon, *, stop: Stop, health: Health, once: bool = False) -> None:
    """Run `daemon` until a signal comes; with `once`, a single pass whose errors are raised."""
    logger.info("started", extra={"action": f"{daemon.name}.started"})
    try:
        if once:
            result = daemon.run_once()
            logger.info("one pass", extra={"action": f"{daemon.name}.once", "did": result.did})
            return
        _run(daemon, stop, health)
    finally:
        daemon.close()
        logger.info("stopped", extra={"action": f"{daemon.name}.stopped"})


def _run(daemon: Daemon, stop: Stop, health: Health) -> None:
    failures = 0
    while not stop.requested.is_set():
        try:
            result = daemon.run_once()
            health.succeeded()
            failures = 0
            if result.wait_seconds > 0 and not stop.requested.is_set():
                daemon.wait(result.wait_seconds)
        except Exception as error:
            if not is_transient(error):
                failures = _after_a_fault(error, daemon, health, stop, failures)
                continue
            failures += 1
            pause = min(_LONGEST_BACKOFF_SECONDS, _SHORTEST_BACKOFF_SECONDS * 2 ** min(failures - 1, 10))
            logger.warning(
                "a service is away, trying again",
                extra={"action": f"{daemon.name}.backoff", "error": str(error), "seconds": round(pause, 2)},
            )
            daemon.reset()
            stop.requested.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries, guards nothing


def is_transient(error: Exception) -> bool:
    """Whether a service is away."""
    return is_away(error) or isinstance(error, _TRANSIENT) or isinstance(error.__cause__, _TRANSIENT)


def _after_a_fault(error: Exception, daemon: Daemon, health: Health, stop: Stop, failures: int) -> int:
    """A fault of ours must not end scheduling: it is logged whole, counted, and the next pass starts afresh."""
    health.failed()
    logger.error("a pass failed", exc_info=error, extra={"action": f"{daemon.name}.failed"})
    daemon.reset()
    stop.requested.wait(min(_LONGEST_BACKOFF_SECONDS, 0.5 * (failures + 1)))
    return failures + 1
