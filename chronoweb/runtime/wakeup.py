"""Wake-ups: NOTIFY, sent after commit on another connection, at most one per 10 ms a process.

[P] A committing notifier holds a lock that the next one waits for, so the hot path never notifies itself. A wake-up
that is lost costs one polling interval, never an execution.
"""

import logging
import threading

import psycopg

from chronoweb.runtime import postgres

logger = logging.getLogger(__name__)

PRELOADER = "chronoweb_preloader"
_LEAST_SECONDS_BETWEEN = 0.01


class Waker:
    """Sends coalesced notifications from a thread of its own."""

    def __init__(self, channel: str = PRELOADER) -> None:
        self._channel = channel
        self._asked = threading.Event()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Ask for a wake-up; returns at once. Call it after the commit of what there is to see."""
        self._asked.set()
        if self._thread is None or not self._thread.is_alive():
            self._start()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="waker", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        connection: psycopg.Connection | None = None
        pause = threading.Event()
        while True:
            self._asked.wait()
            self._asked.clear()
            try:
                if connection is None or connection.closed:
                    connection = postgres.connect_like_django("waker")
                connection.execute("SELECT pg_notify(%s, '')", (self._channel,))
            except psycopg.Error as error:
                # Only a wake-up is lost; the preloader polls.
                logger.info("wake-up not sent", extra={"action": "wakeup.lost", "error": str(error)})
                connection = None
            pause.wait(_LEAST_SECONDS_BETWEEN)


preloader = Waker()
"""The process's one waker of the preloader."""


def wait(connection: psycopg.Connection, seconds: float) -> bool:
    """Wait up to `seconds` for a notification on a connection that listens; True if one came."""
    return any(True for _ in connection.notifies(timeout=seconds, stop_after=1))
