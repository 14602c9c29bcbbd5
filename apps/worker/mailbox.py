"""How other threads hand the runner's thread something to do."""

import os
import selectors
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class Mailbox:
    """Calls to be made on the thread that selects on `selector`; posting wakes it."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self._waiting: deque[Callable[[], None]] = deque()
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._reading = False
        selector.register(self._descriptor, selectors.EVENT_READ, lambda _mask: os.eventfd_read(self._descriptor))

    def post(self, act: Callable[[], None]) -> None:
        """Have `act` called soon; never blocks."""
        self._waiting.append(act)
        if not self._reading:
            self.wake()

    def call(self, act: Callable[[], Any], *, timeout_seconds: float) -> Any:
        """What `act` returns there. Raises TimeoutError."""
        answer: Future[Any] = Future()
        self.post(lambda: answer.set_result(act()))
        return answer.result(timeout_seconds)

    def wake(self) -> None:
        """End the selector's wait."""
        # An abandoned thread may post long after the end; the descriptor's number may be another file's by then.
        with self._lock:
            if self._descriptor >= 0:
                os.eventfd_write(self._descriptor, 1)

    def read(self) -> None:
        """Make the calls that were posted; on the selecting thread."""
        self._reading = True
        self._make_calls()
        self._reading = False
        self._make_calls()  # what was posted between the last look and the line above woke nobody

    def close(self) -> None:
        """What is posted from now on is not called."""
        with self._lock:
            os.close(self._descriptor)
            self._descriptor = -1

    def _make_calls(self) -> None:
        while self._waiting:
            self._waiting.popleft()()
