"""A worker's thread that writes the ledger: its own connection, and the patience to outlast PostgreSQL's absence."""

import logging
import random
import threading

import psycopg

from chronoweb.runtime import postgres
from chronoweb.runtime.away import AWAY, is_deadlock

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 2.0


class LedgerThread:
    """Calls `step` until stopped. A broken connection is replaced and the step repeated: steps must bear that."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False after a fault of ours ended the thread; the worker must end then."""
        return self._thread.is_alive()

    def step(self, connection: psycopg.Connection) -> None:
        """One piece of work, or a wait for one."""
        raise NotImplementedError

    def wake(self) -> None:
        """End a wait."""
        raise NotImplementedError

    def finished(self) -> bool:
        """Whether nothing is left to do once a stop has been asked for."""
        return True

    def stop(self, seconds: float) -> bool:
        """Ask for the end and wait up to `seconds` for it; True if the thread has ended."""
        self._stop.set()
        self.wake()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        connection: psycopg.Connection | None = None
        failures = 0
        while not (self._stop.is_set() and self.finished()):
            try:
                if connection is None or connection.closed:
                    connection = postgres.connect(f"worker-{self.name}", url=self._url)
                self.step(connection)
                failures = 0
            except AWAY as error:
                failures += 1
                logger.warning(
                    "PostgreSQL is away, trying again",
                    extra={"action": "worker.ledger_away", "part": self.name, "error": str(error)},
                )
                if connection is not None and not is_deadlock(error):
                    connection.close()
                pause = min(_LONGEST_PAUSE_SECONDS, 0.05 * 2 ** min(failures, 6))
                self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads retries, guards nothing
                if self._stop.is_set() and failures > 20:
                    return
            except Exception as error:
                self.failure = error
                logger.critical(
                    "a worker thread failed; this worker must end",
                    exc_info=True,
                    extra={"action": "worker.thread_failed", "part": self.name},
                )
                return
        if connection is not None:
            connection.close()
