"""What a worker tells the circuits: every failure, and the first success after failures, on whatever worker.

Successes of what does not fail cost a count in memory and no write. The count goes along with the next failure, so
that "half of the last fifty" is judged from what really ran in the last minute.
"""

import logging
from dataclasses import dataclass

import psycopg
from prometheus_client import Counter

from apps.executions import circuit_store
from apps.executions.circuit_store import Key, News
from apps.executions.circuits import SAMPLE, CircuitTerms
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

_KEYS_KEPT = 10_000
_MESSAGE_CHARACTERS = 500

OPENED = Counter("chronoweb_circuits_opened_total", "Circuits that this worker's failures opened")


@dataclass(slots=True)
class _Successes:
    """How many since an instant (monotonic seconds), which is moved on when it has become old."""

    since: float
    count: int = 1


class CircuitReporter:
    """`note` and `flush` belong to one thread; `refresh` may be called from another."""

    def __init__(self, terms: CircuitTerms, clock: Clock = SYSTEM_CLOCK) -> None:
        self._terms = terms
        self._clock = clock
        self._quiet: dict[Key, _Successes] = {}
        self._troubled: set[Key] = set()
        self._pending: dict[Key, News] = {}

    def note(self, key: Key, letter: str, message: str | None) -> None:
        """An attempt has ended. letter: "S" it answered, "F" it is down, "" it tells nothing."""
        if letter == "S":
            if key in self._troubled:
                self._troubled.discard(key)
                self._add(key, "S", None)
            else:
                self._succeeded(key)
        elif letter == "F":
            self._troubled.add(key)
            self._add(key, "S" * self._successes(key) + "F", message)

    def _succeeded(self, key: Key) -> None:
        now = self._clock.monotonic()
        quiet = self._quiet.get(key)
        if quiet is None or now - quiet.since > self._terms.sample_seconds:
            self._quiet[key] = _Successes(now)
        else:
            quiet.count += 1

    def _successes(self, key: Key) -> int:
        quiet = self._quiet.pop(key, None)
        if quiet is None or self._clock.monotonic() - quiet.since > 2 * self._terms.sample_seconds:
            return 0
        return min(SAMPLE, quiet.count)

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
