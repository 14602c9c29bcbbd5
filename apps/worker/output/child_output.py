"""The runner's side of what one child prints: its ring, and the reading ends of its pipes."""

import os
from collections.abc import Callable

from apps.logs.attempt_log import AttemptLog
from apps.logs.records import STDERR, STDOUT
from apps.worker.output.capture import MISSING
from apps.worker.output.ring import Ring

LogOf = Callable[[int], AttemptLog | None]
"""The log of the job with a ticket; None if nobody knows that job any more."""
TOO_SLOW = "the worker did not take them in time"
_READ_BYTES = 65536


class ChildOutput:
    """Made with the child; `descriptors` are handed to it. patience_seconds: how long it waits for room."""

    def __init__(self, *, patience_seconds: float) -> None:
        ring = Ring.create()
        self._ring = Ring(ring)
        self._ring.patience_seconds = patience_seconds
        self._raw: list[tuple[int, int]] = []
        self.descriptors = [ring]
        for stream in (STDOUT, STDERR):
            reading, writing = os.pipe()
            os.set_blocking(reading, False)
            self._raw.append((reading, stream))
            self.descriptors += [os.dup(reading), writing]

    def pass_on(self, log_of: LogOf, *, forced: bool = False) -> None:
        """Hand over what is in the ring. What there is no room for stays, and the child waits; forced: there is."""
        while (written := self._ring.peek()) is not None:
            log = log_of(written.ticket)
            if log is not None:
                if written.stream == MISSING:
                    log.drop(int(written.data), TOO_SLOW)
                elif not log.write(written.stream, written.time_us, written.data, forced=forced):
                    return
            self._ring.consume(written)

    def pass_on_raw(self, current: Callable[[], int], log_of: LogOf, now_us: int, *, forced: bool = False) -> None:
        """The same for the pipes. current: asks which job runs; it does not change while its bytes are taken."""
        self._ring.reading = True
        try:
            log = log_of(current())
            if log is None:
                return
            for descriptor, stream in self._raw:
                if not forced and not log.has_room(_READ_BYTES):
                    continue
                while data := _read(descriptor):
                    log.write(stream, now_us, data, forced=True)
                    if not forced:
                        break
        finally:
            self._ring.reading = False

    @property
    def has_news(self) -> bool:
        return self._ring.has_news

    def close(self) -> None:
        """Once the child has ended."""
        self._ring.close()
        for descriptor, _ in self._raw:
            os.close(descriptor)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _READ_BYTES)
    except BlockingIOError:
        return b""
