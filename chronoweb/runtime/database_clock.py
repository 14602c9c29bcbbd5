"""The database's clock, as this process knows it: a lower bound, so that nothing starts early.

An answer that carries PostgreSQL's time was true at some moment before it arrived. So local time plus
(database time − time of arrival) never runs ahead of the database; the largest such difference is the closest bound.
"""

import threading
from collections import deque

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_SAMPLES = 60
_STEP_US = 5_000


class DatabaseClock:
    """Fed by whoever asks the database for its time anyway; read by timers. Microseconds since the epoch."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._differences: deque[int] = deque(maxlen=_SAMPLES)
        self._bound = 0
        self._wall_minus_monotonic = 0.0
        self._lock = threading.Lock()

    def observe(self, database_us: int) -> None:
        """Note an answer of the database that has just arrived."""
        with self._lock:
            wall, base = self._clock.time(), self._clock.time() - self._clock.monotonic()
            if abs(base - self._wall_minus_monotonic) * 1e6 > _STEP_US:
                self._differences.clear()  # the host's clock was stepped: what was measured before is void
            self._wall_minus_monotonic = base
            self._differences.append(database_us - int(wall * 1e6))
            self._bound = max(self._differences)

    def now_us(self) -> int:
        """The database's time, or a little before it."""
        return int(self._clock.time() * 1e6) + self._bound

    def from_host_us(self, host_us: int) -> int:
        """A moment of the host's clock on the database's."""
        return host_us + self._bound

    @property
    def skew_seconds(self) -> float:
        """Database − host."""
        return self._bound / 1e6
