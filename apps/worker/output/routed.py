"""In the worker itself: what threads and coroutines of handlers print goes to their attempt's log.

Known by a context variable: it is in force in the handler's thread or task, in what asyncio starts from there, and in
`asyncio.to_thread`; a thread that a handler starts by itself prints where the worker's own log goes.
"""

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from apps.logs.attempt_log import AttemptLog
from apps.logs.records import STDERR, STDOUT
from apps.worker.output.text import CapturedText
from chronoweb.runtime.clock import SYSTEM_CLOCK


class Speaker(NamedTuple):
    """patient: whether it may be held up while the transport is full; an event loop may not."""

    log: AttemptLog
    patient: bool


_SPEAKER: ContextVar[Speaker | None] = ContextVar("chronoweb_speaker", default=None)


class RoutedText(CapturedText):
    """A stream of the process, with a turning for whoever speaks for an attempt."""

    def __init__(self, original: io.TextIOBase, stream: int) -> None:
        super().__init__(self._route, 1 if stream == STDOUT else 2, self._flush_original)
        self.original = original
        self._stream = stream

    def _route(self, data: bytes) -> None:
        speaker = _SPEAKER.get()
        if speaker is None:
            self.original.write(data.decode("utf-8", "replace"))
        else:
            speak(speaker, self._stream, data)

    def _flush_original(self) -> None:
        if _SPEAKER.get() is None:
            self.original.flush()

    def isatty(self) -> bool:
        return self.original.isatty()


class _ToAttempt(logging.Handler):
    """What `logging` says in a handler's thread or task; the worker's own log has it, too."""

    def emit(self, record: logging.LogRecord) -> None:
        speaker = _SPEAKER.get()
        if speaker is not None:
            speak(speaker, STDERR, self.format(record).encode("utf-8", "replace") + b"\n")


_HANDLER = _ToAttempt()


def speak(speaker: Speaker, stream: int, data: bytes) -> None:
    """Write to an attempt's log; wait for room if that may be, else drop what has none."""
    now = int(SYSTEM_CLOCK.time() * 1e6)
    if speaker.patient:
        speaker.log.write_patiently(stream, now, data)
    elif not speaker.log.write(stream, now, data):
        speaker.log.drop(max(1, data.count(b"\n")))


@contextmanager
def speaking(log: AttemptLog | None, *, patient: bool) -> Iterator[None]:
    """In this context what is printed is the attempt's. None: nobody keeps it."""
    if log is None:
        yield
        return
    _install()
    before = _SPEAKER.set(Speaker(log, patient))
    try:
        yield
    finally:
        _SPEAKER.reset(before)


def _install() -> None:
    if not isinstance(sys.stdout, RoutedText):
        sys.stdout = RoutedText(sys.stdout, STDOUT)  # type: ignore[arg-type]
    if not isinstance(sys.stderr, RoutedText):
        sys.stderr = RoutedText(sys.stderr, STDERR)  # type: ignore[arg-type]
    if _HANDLER not in logging.root.handlers:
        formatter: Any = next((h.formatter for h in logging.root.handlers if h.formatter), None)
        _HANDLER.setFormatter(formatter)
        logging.root.addHandler(_HANDLER)


def uninstall() -> None:
    """Give the process its own streams back."""
    if isinstance(sys.stdout, RoutedText):
        sys.stdout = sys.stdout.original
    if isinstance(sys.stderr, RoutedText):
        sys.stderr = sys.stderr.original
    logging.root.removeHandler(_HANDLER)
