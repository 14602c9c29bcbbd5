"""In a child: what the running job prints goes to its log.

What Python prints goes straight into the ring, with its own time. What comes round Python (libraries in C, programs
that a handler starts) arrives in a pipe for each stream: the runner empties them while a job takes long, the child
when a job ends, before the next one begins. So each byte is the job's that ran when it was written. What a thread
writes after its job has ended is nobody's: it goes where the worker's own log goes.
"""

import json
import logging
import os
import select
import sys
import threading
from typing import Any
from weakref import WeakKeyDictionary

from apps.logs.records import LOG, STDERR, STDOUT
from apps.worker.output.ring import CAPACITY, MOST_BYTES, Ring
from apps.worker.output.text import CapturedText
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

PARTIAL_BYTES = 8192
RECORD_BYTES = 128 * 1024
LONGEST_MESSAGE = 16 * 1024
MISSING = 255
"""Stream number of the mark that lines were dropped; its bytes are their number."""
_PAUSE_SECONDS = 0.001
_READ_BYTES = 65536


class Capture:
    """ticket: of the job that runs, 0 between jobs; the child sets it. raw: the reading ends of the two pipes."""

    def __init__(self, ring: Ring, raw: tuple[int, int], clock: Clock = SYSTEM_CLOCK) -> None:
        self.ticket = 0
        self._ring = ring
        self._raw = {raw[0]: STDOUT, raw[1]: STDERR}
        self._clock = clock
        self._poll = select.poll()
        for descriptor in raw:
            self._poll.register(descriptor, select.POLLIN)
        self._process = os.getpid()
        self._main = threading.get_ident()
        self._threads: WeakKeyDictionary[threading.Thread, int] = WeakKeyDictionary()
        self._lock = threading.RLock()
        self._inside = False
        """Whether the lock's holder is writing: a signal's handler, or a finaliser, may print in the middle of that."""
        self._partial = {STDOUT: b"", STDERR: b""}
        self._missing = 0
        self._nobody = os.dup(2)

    def install(self, writing: tuple[int, int]) -> None:
        """From now on it is the standard output and error of this process. writing: the writing ends of the pipes."""
        olds = sys.stdout, sys.stderr
        for target, descriptor in zip((1, 2), writing, strict=True):
            os.dup2(descriptor, target)
        news = []
        for stream, target, old in zip((STDOUT, STDERR), (1, 2), olds, strict=True):
            old.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            news.append(CapturedText(self._writer(stream, target), target, self._flusher(stream)))
        sys.stdout, sys.stderr = news
        for old, new in zip(olds, news, strict=True):
            _move_handlers(old, new)

    def job_begins(self, ticket: int) -> None:
        """Wait until the runner has taken what the job before may have left in the pipes."""
        while self._ring.reading:
            self._clock.sleep(_PAUSE_SECONDS / 10)
        self.ticket = ticket

    def job_ends(self) -> None:
        """Everything that it printed is in the ring when this returns."""
        partial = self._partial
        if partial[STDOUT] or partial[STDERR] or self._missing or self._poll.poll(0):
            with self._lock:  # threads of the job may still speak
                for stream in (STDOUT, STDERR):
                    self._flush(stream)
                self._drain(self.ticket)
                if self._missing:
                    self._tell_missing(self.ticket)
        self.ticket = 0

    def between_batches(self) -> None:
        """What is in the pipes now was written by what a job has left behind."""
        if self._poll.poll(0):
            with self._lock:
                self._drain(0)

    def record(self, ticket: int, record: dict[str, Any]) -> bool:
        """A line of `context.log`; False if its job is not the one that runs."""
        if ticket != self.ticket or os.getpid() != self._process:
            return False
        data = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace")
        if len(data) > RECORD_BYTES:
            short = {**record, "message": record["message"][:LONGEST_MESSAGE], "fields": {"…": "too large"}}
            data = json.dumps(short, ensure_ascii=False).encode("utf-8", "replace")
        with self._lock:
            if self._inside:
                return False
            self._inside = True
            try:
                self._put(ticket, LOG, data)
            finally:
                self._inside = False
        return True

    def _writer(self, stream: int, descriptor: int) -> Any:
        def write(data: bytes) -> None:
            if os.getpid() != self._process:
                os.write(descriptor, data)  # a fork of ours: the ring is not its
                return
            ticket = self._ticket()
            if not ticket:
                os.write(self._nobody, data)
                return
            with self._lock:
                if self._inside:
                    os.write(self._nobody, data)
                    return
                self._inside = True
                try:
                    self._text(ticket, stream, data)
                finally:
                    self._inside = False

        return write

    def _ticket(self) -> int:
        """Whose what is written now is: a thread belongs to the job that it first spoke in."""
        if threading.get_ident() == self._main:
            return self.ticket
        first = self._threads.setdefault(threading.current_thread(), self.ticket)
        return self.ticket if first == self.ticket else 0

    def _text(self, ticket: int, stream: int, data: bytes) -> None:
        end = data.rfind(b"\n") + 1
        if end:
            data, rest = self._partial[stream] + data[:end], data[end:]
            self._partial[stream] = rest
            self._put(ticket, stream, data)
        else:
            self._partial[stream] += data
            rest = self._partial[stream]
        if len(rest) > PARTIAL_BYTES:
            self._partial[stream] = b""
            self._put(ticket, stream, rest)

    def _flusher(self, stream: int) -> Any:
        def flush() -> None:
            if os.getpid() == self._process and self._partial[stream] and self.ticket and not self._inside:
                with self._lock:
                    self._flush(stream)

        return flush

    def _flush(self, stream: int) -> None:
        data, self._partial[stream] = self._partial[stream], b""
        if data:
            self._put(self.ticket, stream, data)

    def _drain(self, ticket: int) -> None:
        for descriptor, stream in self._raw.items():
            while data := _read(descriptor):
                if ticket:
                    self._put(ticket, stream, data)
                else:
                    os.write(self._nobody, data)

    def _put(self, ticket: int, stream: int, data: bytes) -> None:
        """Into the ring, for whose room it waits; what does not fit in time is counted."""
        now = int(self._clock.time() * 1e6)
        if self._missing and self._ring.room > CAPACITY // 4:
            self._tell_missing(ticket)
        pieces = [data] if len(data) <= MOST_BYTES or stream == LOG else _pieces(data)
        for piece in pieces:
            if self._missing or not self._wait_for_room(ticket, now, stream, piece):
                self._missing += max(1, piece.count(b"\n"))

    def _tell_missing(self, ticket: int) -> None:
        now = int(self._clock.time() * 1e6)
        self._ring.append(ticket, now, MISSING, str(self._missing).encode(), reserve=0)
        self._missing = 0

    def _wait_for_room(self, ticket: int, now: int, stream: int, data: bytes) -> bool:
        until = self._clock.monotonic() + self._ring.patience_seconds
        while not self._ring.append(ticket, now, stream, data):
            if self._clock.monotonic() >= until:
                return False
            self._clock.sleep(_PAUSE_SECONDS)
        return True


def _pieces(data: bytes) -> list[bytes]:
    return [data[at : at + MOST_BYTES] for at in range(0, len(data), MOST_BYTES)]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return b""


def _move_handlers(old: Any, new: Any) -> None:
    """Handlers of `logging` keep the stream that they were made with."""
    loggers = [
        logging.root,
        *(one for one in logging.root.manager.loggerDict.values() if isinstance(one, logging.Logger)),
    ]
    for logger in loggers:
        for handler in logger.handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is old:
                handler.setStream(new)
