"""How many executions of each tenant this worker has begun by hand-over: dispatchers charge them to rates and budgets.

Few tenants at a time: what is said of a worker goes to Redis many times a second. A tenant that has no place is handed
nothing over.
"""

import threading
from collections import deque
from dataclasses import dataclass, field

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

MOST_TENANTS = 50
_IDLE_SECONDS = 60.0
_RECENT_SECONDS = 1.0


@dataclass
class _Tally:
    total: int = 0
    at: float = 0.0
    recent: deque[float] = field(default_factory=deque)


class Tallies:
    """Filled by the completer, read by the presence."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._tenants: dict[bytes, _Tally] = {}
        self._lock = threading.Lock()

    def recent(self, tenant: bytes) -> int | None:
        """How many there were in the last second; None: the tenant has no place."""
        now = self._clock.monotonic()
        with self._lock:
            tally = self._tenants.get(tenant)
            if tally is None:
                self._forget_idle(now)
                return 0 if len(self._tenants) < MOST_TENANTS else None
            while tally.recent and now - tally.recent[0] >= _RECENT_SECONDS:
                tally.recent.popleft()
            return len(tally.recent)

    def add(self, tenant: bytes) -> None:
        """One more."""
        now = self._clock.monotonic()
        with self._lock:
            tally = self._tenants.setdefault(tenant, _Tally())
            tally.total += 1
            tally.at = now
            tally.recent.append(now)

    def totals(self) -> dict[str, int]:
        """tenant (hex) → how many since it has had its place."""
        with self._lock:
            return {tenant.hex(): tally.total for tenant, tally in self._tenants.items()}

    def _forget_idle(self, now: float) -> None:
        idle = [tenant for tenant, tally in self._tenants.items() if now - tally.at > _IDLE_SECONDS]
        for tenant in idle:
            del self._tenants[tenant]
