"""The database's clock, as this process knows it: a lower bound, so that nothing starts early.

An answer that carries PostgreSQL's time was true at some moment before it arrived. So the time of arrival plus
(database time − time of arrival) never runs ahead of the database; the largest such difference is the closest bound.
Between answers the host's monotonic clock counts: its wall clock may be stepped, by hours even, and nothing starts
early or counts as late for it.
"""

import threading
from collections import deque

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_SAMPLES = 60
_LOOKS = 3


class DatabaseClock:
    """Fed by whoever asks the database for its time anyway; read by timers. Microseconds since the epoch. Until the
    first answer it is the host's.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._differences: deque[int] = deque(maxlen=_SAMPLES)
        self._bound = int(clock.time() * 1e6) - self._monotonic_us()
        self._lock = threading.Lock()

    def observe(self, database_us: int) -> None:
        """Note an answer of the database that has just arrived."""
        with self._lock:
            self._differences.append(database_us - self._monotonic_us())
            self._bound = max(self._differences)

    def now_us(self) -> int:
        """The database's time, or a little before it."""
        return self._monotonic_us() + self._bound

    def from_host_us(self, host_us: int) -> int:
        """A moment of the host's clock, as it goes now, on the database's."""
        return host_us + min(self._look() for _ in range(_LOOKS))[1]

    @property
    def skew_seconds(self) -> float:
        """Database − host."""
        return self.from_host_us(0) / 1e6

    def _look(self) -> tuple[int, int]:
        """(how long reading both clocks took, database − host). Who is held up in between reads two moments as one."""
        before = self._clock.time()
        now = self.now_us()
        after = self._clock.time()
        return abs(int((after - before) * 1e6)), now - int(before * 1e6)

    def _monotonic_us(self) -> int:
        return int(self._clock.monotonic() * 1e6)
