"""The one place that reads this machine's clock.

Due times and leases are decided by PostgreSQL's or Redis's clock; the host's clock only paces loops, stamps
log lines and is the base that measured offsets are added to.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What code that needs time is handed, so that tests can hand it another."""

    def now(self) -> datetime:
        """The present instant, aware, in UTC."""

    def time(self) -> float:
        """Seconds since the epoch by the host's clock; it may step."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Wait; negative values return at once."""


class SystemClock:
    """The host's own clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)


SYSTEM_CLOCK = SystemClock()
