"""A child's end of its socket and memory: jobs come in, records and what handlers say go out."""

import math
import socket
import threading
from collections import deque
from collections.abc import Iterator
from typing import Any

from apps.worker.children import framing
from apps.worker.children.framing import ASKED, LISTENING, SharedMemory
from apps.worker.handlers.line import ENDED, Line
from apps.worker.handlers.registry import LeaseLost
from apps.worker.output.capture import Capture

READ_BYTES = 262144


class Link(Line):
    """The main thread waits for jobs; while one runs, the handler's threads speak and hear through the same socket."""

    def __init__(self, connection: socket.socket, memory: SharedMemory, capture: Capture | None = None) -> None:
        self._connection = connection
        self._memory = memory
        self._capture = capture
        self._received = bytearray()
        self._batches: deque[list[tuple[Any, ...]]] = deque()
        self._answers: dict[int, str | None] = {}
        self._asks = 0
        self._talking = threading.Lock()
        """Held by whoever uses the socket: frames must not mix, and an answer must reach who asked."""
        self._saying = threading.Lock()
        self.current = 0
        """seq of the job that runs; 0 between jobs."""

    def batches(self) -> Iterator[list[tuple[Any, ...]]]:
        """Jobs as they come, until the runner hangs up."""
        while True:
            while self._batches:
                yield self._batches.popleft()
            with self._talking:
                if not self._read():
                    return

    def send(self, records: bytes) -> None:
        """Send whole frames."""
        with self._talking:
            self._connection.sendall(records)

    def progress(self, seq: int, done: float, total: float | None) -> None:
        with self._saying:
            self._memory.words[LISTENING] = seq
            self._memory.say(seq, done, math.nan if total is None else total)

    def keep(self, seq: int, text: bytes) -> None:
        with self._talking:
            if seq != self.current:
                raise LeaseLost(ENDED)
            self._memory.words[LISTENING] = seq
            self._asks += 1
            self._connection.sendall(framing.frame(("checkpoint", seq, self._asks, text)))
            problem = self._answer(self._asks)
        if problem is not None:
            raise LeaseLost(problem)

    def asked(self, seq: int) -> bool:
        words = self._memory.words
        if seq == self.current:
            words[LISTENING] = seq
        return words[ASKED] == seq

    def log(self, seq: int, record: dict[str, Any]) -> bool:
        return self._capture is not None and self._capture.record(seq, record)

    def _answer(self, number: int) -> str | None:
        while number not in self._answers:
            if not self._read():
                return "the worker has ended"
        problem = self._answers[number]
        self._answers.clear()  # what is older was given up by an exception in the handler
        return problem

    def _read(self) -> bool:
        """Take in what has come; False at the end of file."""
        received = self._connection.recv(READ_BYTES)
        self._received += received
        for message in list(framing.take_messages(self._received)):
            if isinstance(message, tuple):
                self._answers[message[1]] = message[2]
            else:
                self._batches.append(message)
        return bool(received)
