"""The worker's side: takes what attempts write, and hands it to the transport from a thread of its own.

Bounded: `write` refuses what the buffer has no room for, and whoever writes waits, stops reading a pipe, or counts what
it drops. One attempt has half of the buffer at most, and what is refused of it holds up nobody else. An attempt that
writes nothing costs the making of one small object.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from prometheus_client import Counter, Gauge

from apps.logs.assembly import Limits
from apps.logs.attempt_log import ITEM_BYTES, AttemptLog, Item, Missing
from apps.logs.batching import BATCH_BYTES, batches_of
from apps.logs.masking import Masker
from apps.logs.transport.base import LogPublisher, Taken
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import ServiceUnavailable

logger = logging.getLogger(__name__)

GATHER_SECONDS = 0.02
RETRY_SECONDS = 0.05
AWAY_SECONDS = 0.25
IDLE_SECONDS = 0.5

LINES = Counter("chronoweb_log_lines_total", "Log lines handed to the transport")
DROPPED = Counter("chronoweb_log_lines_dropped_total", "Log lines dropped for a limit or for want of room")
BUFFERED = Gauge("chronoweb_log_buffer_bytes", "Bytes of log that wait in the worker")
FENCED = Counter("chronoweb_log_batches_fenced_total", "Batches refused because a newer attempt had already written")


class Attempted(Protocol):
    """What is to be known of an attempt."""

    execution_id: bytes
    token: int
    attempt: int


class LogDesk:
    """A thread. hidden: secret values of the process, masked in every log."""

    def __init__(
        self, publisher: LogPublisher, config: Config, *, hidden: Iterable[str] = (), clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._publisher = publisher
        self._hidden = frozenset(hidden)
        self._clock = clock
        self._most = int(config.log_buffer_mib * (1 << 20))
        self.block_seconds = config.log_block_seconds
        self.limits = Limits(config.log_line_kib * 1024, int(config.log_attempt_mib * (1 << 20)))
        self._bytes = 0
        self._ready: dict[AttemptLog, None] = {}
        self._changed = threading.Condition(threading.RLock())
        self._stop = threading.Event()
        self._stop_by = float("inf")
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log desk", daemon=True)
        self.failure: BaseException | None = None

    # From any thread

    def open(self, attempted: Attempted, secrets: Callable[[], Iterable[str]] = tuple) -> AttemptLog:
        """The log of an attempt. secrets: asked once, when it is first needed."""
        return AttemptLog(self, attempted.execution_id, attempted.token, attempted.attempt, secrets)

    def masker(self, secrets: Iterable[str]) -> Masker:
        return Masker(self._hidden.union(secrets))

    def put(self, log: AttemptLog, item: Item, size: int, *, forced: bool = False) -> bool:
        with self._changed:
            if log.ended or not (forced or self._has_room(log, size)):
                return log.ended  # after its end it is dropped, which is no reason to wait
            log.spoke = True
            log.items.append(item)
            log.waiting += size
            self._bytes += size
            self._ready.setdefault(log)
            self._changed.notify_all()
            return True

    def put_missing(self, log: AttemptLog, count: int, why: str) -> None:
        with self._changed:
            last = log.items[-1] if log.items else None
            if isinstance(last, Missing) and last.why == why:
                last.count += count
            else:
                self.put(log, Missing(count, why), ITEM_BYTES, forced=True)

    def put_patiently(self, log: AttemptLog, item: Item, size: int) -> bool:
        """As `put`, but waits for room. Once it has waited in vain, it does not wait again until there is some."""
        until = self._clock.monotonic() + (0 if log.given_up else self.block_seconds)
        while not self.put(log, item, size):
            with self._changed:
                left = until - self._clock.monotonic()
                if left <= 0 or self._stop.is_set():
                    log.given_up = True
                    return False
                self._changed.wait_for(lambda: log.ended or self._has_room(log, size), min(left, IDLE_SECONDS))
        log.given_up = False
        return True

    def has_room(self, log: AttemptLog, size: int) -> bool:
        with self._changed:
            return self._has_room(log, size)

    def _has_room(self, log: AttemptLog, size: int) -> bool:
        if not self._bytes:
            return True
        return self._bytes + size <= self._most and log.waiting + size <= self._most // 2 and self.failure is None

    @property
    def buffered(self) -> int:
        """Bytes that wait here."""
        return self._bytes

    @property
    def alive(self) -> bool:
        """False after a fault of ours ended the thread; the worker must end then."""
        return self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()

    def stop(self, seconds: float) -> bool:
        """Hand over what is here, for at most so long; True if all of it was."""
        self._stop_by = self._clock.monotonic() + seconds
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(seconds + 5)
        if self._bytes:
            logger.warning(
                "log lines were lost: the transport did not take them",
                extra={"action": "worker.log_lost", "bytes": self._bytes, "attempts": len(self._ready)},
            )
        return not self._bytes

    # On its thread

    def _run(self) -> None:
        try:
            while not (self._stop.is_set() and not self._ready) and self._clock.monotonic() < self._stop_by:
                self._step()
        except Exception as error:
            self.failure = error
            logger.critical(
                "the log desk failed; this worker must end", exc_info=True, extra={"action": "worker.thread_failed"}
            )
        finally:
            self._publisher.close()

    def _step(self) -> None:
        with self._changed:
            if not self._ready:
                self._changed.wait(IDLE_SECONDS)
            if not self._ready:
                return
        self._pause.wait(GATHER_SECONDS)
        with self._changed:
            ready = list(self._ready)
        batches = [log for log in ready if log.batches or self._assemble(log)]
        try:
            left = self._publish(batches)
        except ServiceUnavailable as error:
            logger.warning("logs wait", extra={"action": "worker.log_transport_away", "error": str(error)})
            self._pause.wait(AWAY_SECONDS)
            left = []
        if left and len(left) == len(batches):
            self._pause.wait(RETRY_SECONDS)
        BUFFERED.set(self._bytes)

    def _assemble(self, log: AttemptLog) -> bool:
        """Make the next batch of what an attempt wrote; whether there is one."""
        assembler = log.assembler()
        dropped_before, taken, ended, now = assembler.dropped, 0, False, self._now_us()
        with self._changed:
            items: list[Item] = []
            while log.items and taken < BATCH_BYTES:
                items.append(item := log.items.popleft())
                taken += ITEM_BYTES + (len(item[2]) if isinstance(item, tuple) else 0)
        for item in items:
            if isinstance(item, tuple):
                assembler.feed(*item)
            elif isinstance(item, Missing):
                assembler.missing(item.count, item.why)
            else:
                assembler.end(now)
                ended = True
        if assembler.dropped > dropped_before:
            DROPPED.inc(assembler.dropped - dropped_before)
        lines = assembler.take()
        made = batches_of(log.execution, log.token, log.attempt, lines, last=assembler.last, ended=ended, now_us=now)
        # The bytes of the buffer that they stand for are given back with the last of them.
        log.batches.extend((batch, taken if batch is made[-1] else 0) for batch in made)
        if not log.batches:
            self._settle(log, taken)
        return bool(log.batches)

    def _publish(self, logs: Sequence[AttemptLog]) -> list[AttemptLog]:
        """Offer the first batch of each; those whose batch was not taken."""
        left = []
        answers = self._publisher.publish([log.batches[0][0] for log in logs])
        for log, answer in zip(logs, answers, strict=True):
            if answer is Taken.NOT_NOW:
                left.append(log)
                continue
            batch, size = log.batches.popleft()
            if answer is Taken.FENCED:
                FENCED.inc()
            elif answer is Taken.NEVER:
                DROPPED.inc(batch.last - batch.first + 1)
            else:
                LINES.inc(batch.last - batch.first + 1)
            self._settle(log, size)
        return left

    def _settle(self, log: AttemptLog, size: int) -> None:
        with self._changed:
            log.waiting -= size
            self._bytes -= size
            if not log.items and not log.batches:
                self._ready.pop(log, None)
            self._changed.notify_all()

    def _now_us(self) -> int:
        return int(self._clock.time() * 1e6)
