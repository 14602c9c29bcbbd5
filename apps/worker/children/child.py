"""The loop of a child process: read a batch of jobs, run them one after the other, report."""

import marshal
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import close_old_connections

from apps.worker.children import framing
from apps.worker.children.framing import BEGUN, BEGUN_AT, FINISHED, LOG_LENGTH, LOG_START, SharedMemory
from apps.worker.children.link import Link
from apps.worker.handlers.context import Entry, TaskContext
from apps.worker.handlers.python import blocking, call
from apps.worker.handlers.registry import Registry, unknown_handler
from apps.worker.handlers.report import FAILED
from apps.worker.jobs import Report
from apps.worker.output.capture import Capture
from apps.worker.output.ring import Ring
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

FLUSH_AFTER_SECONDS = 0.001


class Child:
    """Runs what the runner sends over `connection` until it hangs up."""

    def __init__(
        self,
        connection: socket.socket,
        memory: SharedMemory,
        registry: Registry,
        capture: Capture | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._memory = memory
        self._registry = registry
        self._capture = capture
        self._link = Link(connection, memory, capture)
        self._functions: dict[str, tuple[Callable[..., Any], type[TaskContext]]] = {
            name: blocking(handler.function) for name, handler in registry.handlers.items()
        }
        self._clock = clock

    def serve(self) -> None:
        """Until end of file."""
        for entries in self._link.batches():
            self._run_batch(entries)

    def _run_batch(self, entries: list[tuple[Any, ...]]) -> None:
        close_stale_connections()
        if self._capture is not None:
            self._capture.between_batches()
        words = self._memory.words
        now, monotonic = self._clock.time, self._clock.monotonic
        begun_at = flushed_at = monotonic()
        for fields in entries:
            seq = fields[0]
            # Announce first, look at the revocation second: the runner, which revokes while this process is
            # stopped, then sees either an announced job, or one that will be passed over.
            words[BEGUN_AT] = int(begun_at * 1e9)
            words[BEGUN] = seq
            if words[framing.REVOKED_ABOVE] < seq <= words[framing.REVOKED_UPTO]:
                words[FINISHED] = seq
                continue
            started = now()
            report = self._run(Entry._make(fields), started)
            self._record(seq, started, now(), report)
            words[FINISHED] = seq
            begun_at = monotonic()
            if begun_at - flushed_at > FLUSH_AFTER_SECONDS:
                self._flush()
                flushed_at = begun_at
        self._flush()
        close_stale_connections()

    def _run(self, entry: Entry, started: float) -> Report:
        found = self._functions.get(entry.name)
        if found is None:
            error = unknown_handler(entry.name, list(self._functions), self._registry.broken)
            return Report(FAILED, None, error)
        function, kind = found
        self._link.current = entry.seq
        if self._capture is None:
            report = call(function, entry, started, self._link, kind)
        else:
            self._capture.job_begins(entry.seq)
            report = call(function, entry, started, self._link, kind)
            self._capture.job_ends()
        self._link.current = 0
        return report

    def _record(self, seq: int, started: float, finished: float, report: Report) -> None:
        body = marshal.dumps((seq, int(started * 1e6), int(finished * 1e6), *report))
        words = self._memory.words
        if LOG_START + words[LOG_LENGTH] + 4 + len(body) > framing.SIZE:
            self._flush()
        at = LOG_START + words[LOG_LENGTH]
        self._memory.map[at : at + 4 + len(body)] = len(body).to_bytes(4, "big") + body
        words[LOG_LENGTH] = at + 4 + len(body) - LOG_START

    def _flush(self) -> None:
        records = self._memory.unsent()
        if records:
            self._link.send(records)
            self._memory.words[LOG_LENGTH] = 0


def close_stale_connections() -> None:
    """What Django does around a request: drop database connections that are broken or too old."""
    if settings.configured:
        close_old_connections()


def _capture(output: list[int]) -> Capture:
    ring, out_reading, out_writing, err_reading, err_writing = output
    capture = Capture(Ring(ring), (out_reading, err_reading))
    capture.install((out_writing, err_writing))
    for descriptor in (ring, out_writing, err_writing):
        os.close(descriptor)
    return capture


def main(connection: socket.socket, descriptor: int, output: list[int], registry: Registry) -> None:
    """Serve and end the process; never returns. output: what a ChildOutput hands over; empty: nobody keeps logs."""
    code = 0
    try:
        memory = SharedMemory(descriptor)
        os.close(descriptor)
        Child(connection, memory, registry, _capture(output) if output else None).serve()
    except (BrokenPipeError, ConnectionResetError):
        pass  # the runner is gone: there is nobody to tell
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Not sys.exit: this process is a fork, and its parent's exit handlers are not its own.
        os._exit(code)
