"""Metrics that every daemon has. Those of one daemon stand with its code."""

import logging

from prometheus_client import Gauge

from chronoweb.runtime.health import Health

logger = logging.getLogger(__name__)

LAST_SUCCESS_AGE = Gauge(
    "chronoweb_last_success_age_seconds", "Since the daemon's last successful pass; -1 before the first"
)


def watch_progress(health: Health) -> None:
    """Let /metrics show the age of the last successful pass."""

    def age() -> float:
        seconds = health.age_seconds()
        return -1.0 if seconds is None else seconds

    LAST_SUCCESS_AGE.set_function(age)


def announce(name: str, port: int) -> None:
    """Say where a daemon answers."""
    logger.info("answering probes", extra={"action": f"{name}.probes", "port": port})
