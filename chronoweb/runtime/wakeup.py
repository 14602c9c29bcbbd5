"""Wake-ups: NOTIFY, sent after commit on another connection, at most one per 10 ms a process.

[P] A committing notifier holds a lock that the next one waits for, so the hot path never notifies itself. A wake-up
that is lost costs one polling interval, never an execution.
"""

import atexit
import logging
import threading

import psycopg

from chronoweb.runtime import postgres

logger = logging.getLogger(__name__)

PRELOADER = "chronoweb_preloader"
_LEAST_SECONDS_BETWEEN = 0.01
_MOST_SECONDS_TO_CLOSE = 1.0


class Waker:
    """Sends coalesced notifications from a thread of its own."""

    def __init__(self, channel: str = PRELOADER) -> None:
        self._channel = channel
        self._asked = threading.Event()
        self._looks = threading.Event()  # set where the thread has something to see: a wish, or the end
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._lock = threading.Lock()

    def wake(self) -> None:
        """Ask for a wake-up; returns at once. Call it after the commit of what there is to see."""
        self._asked.set()
        self._looks.set()
        if self._thread is None or not self._thread.is_alive():
            self._start()

    def close(self) -> None:
        """Send what is asked for, end the thread and its connection; a later `wake` starts them again."""
        with self._lock:
            thread = self._thread
            if thread is not None and thread.is_alive():
                self._closing.set()
                self._looks.set()
                thread.join(_MOST_SECONDS_TO_CLOSE)
            self._thread = None

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._closing = threading.Event()
                self._thread = threading.Thread(target=self._run, args=(self._closing,), name="waker", daemon=True)
                self._thread.start()

    def _run(self, closing: threading.Event) -> None:
        connection: psycopg.Connection | None = None
        pause = threading.Event()
        try:
            while not closing.is_set() or self._asked.is_set():
                self._looks.wait()
                self._looks.clear()
                if self._asked.is_set():
                    self._asked.clear()
                    connection = self._send(connection)
                    pause.wait(_LEAST_SECONDS_BETWEEN)
        finally:
            if connection is not None:
                connection.close()

    def _send(self, connection: psycopg.Connection | None) -> psycopg.Connection | None:
        """Notify; returns the connection to go on with, None after trouble."""
        try:
            if connection is None or connection.closed:
                connection = postgres.connect_like_django("waker")
            connection.execute("SELECT pg_notify(%s, '')", (self._channel,))
            return connection
        except psycopg.Error as error:
            # Only a wake-up is lost; the preloader polls.
            logger.info("wake-up not sent", extra={"action": "wakeup.lost", "error": str(error)})
            return None


preloader = Waker()
"""The process's one waker of the preloader."""
atexit.register(preloader.close)


def wait(connection: psycopg.Connection, seconds: float) -> bool:
    """Wait up to `seconds` for a notification on a connection that listens; True if one came."""
    return any(True for _ in connection.notifies(timeout=seconds, stop_after=1))
