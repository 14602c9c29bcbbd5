"""The three topics that executions travel through: their names, and making them where they are missing."""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, wait

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.base import CLASSES

LOG = logging.getLogger(__name__)

REQUEST_TIMEOUT_SECONDS = 5.0
PAUSE_BETWEEN_REQUESTS_SECONDS = 0.5
BROKER_DEFAULT = -1  # the replication factor is the broker's business
RETENTION_MS = 3_600_000  # the ledger takes unclaimed work back after seconds; an hour is for looking at it

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


def topic_names(prefix: str) -> tuple[str, ...]:
    """One topic per class, in the order of CLASSES."""
    return tuple(f"{prefix}executions.{name}" for name in CLASSES)


def is_missing_topic(error: KafkaError) -> bool:
    return error.code() in _MISSING


class Topics:
    """Makes `<prefix>executions.<class>` without blocking; safe to ask for at any time by any number of processes.

    Topics that exist are left as they are: their partitions are the operator's to raise.
    """

    def __init__(self, bootstrap_servers: str, *, prefix: str, partitions: int) -> None:
        self.names = topic_names(prefix)
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap_servers,
            "socket.timeout.ms": 5000,
        }
        self._partitions = partitions
        self._admin: AdminClient | None = None  # referenced while futures are open: they die with it
        self._requests: Mapping[str, Future[None]] = {}
        self._not_before = 0.0

    def ensure(self) -> None:
        """Ask for the topics, at most every PAUSE_BETWEEN_REQUESTS_SECONDS and once at a time."""
        asked_already = any(not request.done() for request in self._requests.values())
        if asked_already or time.monotonic() < self._not_before:
            return
        self._not_before = time.monotonic() + PAUSE_BETWEEN_REQUESTS_SECONDS
        self._admin = self._admin or AdminClient(self._settings, logger=LOG)
        wanted = [
            NewTopic(
                name,
                num_partitions=self._partitions,
                replication_factor=BROKER_DEFAULT,
                config={"retention.ms": str(RETENTION_MS)},
            )
            for name in self.names
        ]
        self._requests = self._admin.create_topics(wanted, request_timeout=REQUEST_TIMEOUT_SECONDS)

    def wait(self, timeout_seconds: float) -> bool:
        """Whether the topics exist, as far as the last `ensure` found out within this time.

        Raises ServiceUnavailable when the broker refused, or did not answer for REQUEST_TIMEOUT_SECONDS.
        """
        done, open_ones = wait(self._requests.values(), timeout_seconds)
        for request in done:
            _require_topic(request)
        return bool(done) and not open_ones


def _require_topic(request: Future[None]) -> None:
    error = request.exception()
    if error is None:
        return
    if isinstance(error, KafkaException) and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
        return
    raise ServiceUnavailable(f"A topic could not be made: {error}; the next call tries again") from error
