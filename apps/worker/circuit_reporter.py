"""What a worker tells the circuits: every failure, and the first success after failures, on whatever worker.

Successes of what does not fail cost a count in memory and no write. The count goes along with the next failure, so
that "half of the last twenty" is judged from what really ran.
"""

import logging

import psycopg
from prometheus_client import Counter

from apps.executions import circuit_store
from apps.executions.circuit_store import Key, News
from apps.executions.circuits import SAMPLE, CircuitTerms

logger = logging.getLogger(__name__)

_KEYS_KEPT = 10_000
_MESSAGE_CHARACTERS = 500

OPENED = Counter("chronoweb_circuits_opened_total", "Circuits that this worker's failures opened")


class CircuitReporter:
    """`note` and `flush` belong to one thread; `refresh` may be called from another."""

    def __init__(self, terms: CircuitTerms) -> None:
        self._terms = terms
        self._quiet: dict[Key, int] = {}
        self._troubled: set[Key] = set()
        self._pending: dict[Key, News] = {}

    def note(self, key: Key, letter: str, message: str | None) -> None:
        """An attempt has ended. letter: "S" it answered, "F" it is down, "" it tells nothing."""
        if letter == "S":
            if key in self._troubled:
                self._troubled.discard(key)
                self._add(key, "S", None)
            else:
                self._quiet[key] = self._quiet.get(key, 0) + 1
        elif letter == "F":
            self._troubled.add(key)
            self._add(key, "S" * min(SAMPLE, self._quiet.pop(key, 0)) + "F", message)

    def _add(self, key: Key, outcomes: str, message: str | None) -> None:
        before = self._pending.get(key, News("", None))
        told = message[:_MESSAGE_CHARACTERS] if message else before.last_error
        self._pending[key] = News(before.outcomes + outcomes, told)

    def flush(self, connection: psycopg.Connection) -> None:
        """Tell what has gathered. What could not be told is told with the next call."""
        if len(self._quiet) > _KEYS_KEPT:
            self._quiet.clear()
        if not self._pending:
            return
        opened = circuit_store.report(connection, self._pending, terms=self._terms)
        self._pending = {}
        OPENED.inc(len(opened))
        for tenant, key in opened:
            logger.warning(
                "circuit opened", extra={"action": "worker.circuit_opened", "tenant": tenant.hex(), "circuit": key}
            )

    def refresh(self, connection: psycopg.Connection) -> None:
        """Learn of which keys the next success is news, because others have failed."""
        self._troubled = circuit_store.unsettled(connection)
