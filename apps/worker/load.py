"""What a worker is busy with: processor and memory of its process tree, attempts ended in the last minute."""

import threading
from collections import deque

import psutil

from apps.executions.rows import WorkerLoad
from apps.executions.states import Outcome
from apps.worker.pace import Pace
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_MINUTE = 60.0


class LoadMeter:
    """Fed by the completer, read at each heartbeat."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._process = psutil.Process()
        self._cpu_seconds: float | None = None
        self._measured_at = clock.monotonic()
        self._ended: deque[tuple[float, int, int]] = deque()
        self._lock = threading.Lock()
        self.pace = Pace(clock)

    def ended(self, outcomes: list[Outcome]) -> None:
        """Attempts have ended."""
        good = sum(outcome is Outcome.SUCCEEDED for outcome in outcomes)
        with self._lock:
            self._ended.append((self._clock.monotonic(), good, len(outcomes) - good))

    def measure(self, *, active: int) -> WorkerLoad:
        """The load since the last call."""
        now = self._clock.monotonic()
        cpu, memory = self._process_tree()
        before, self._cpu_seconds = self._cpu_seconds, cpu
        elapsed, self._measured_at = max(1e-3, now - self._measured_at), now
        with self._lock:
            while self._ended and self._ended[0][0] < now - _MINUTE:
                self._ended.popleft()
            completed = sum(good for _, good, _ in self._ended)
            errors = sum(bad for _, _, bad in self._ended)
        percent = 0.0 if before is None else max(0.0, (cpu - before) / elapsed * 100)
        return WorkerLoad(round(percent, 1), memory, active, completed, errors)

    def _process_tree(self) -> tuple[float, int]:
        cpu, memory = 0.0, 0
        for process in [self._process, *self._process.children(recursive=True)]:
            try:
                times = process.cpu_times()
                cpu += times.user + times.system
                memory += process.memory_info().rss
            except psutil.Error:
                continue  # it has just ended
        return cpu, memory
