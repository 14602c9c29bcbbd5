"""How a worker's slots are shared between the classes of work: critical, standard, bulk.

Each class has slots of its own. Idle critical slots are lent, but for a reserve; what runs in a lent slot is never
stopped for it. Nobody else's slots are lent, so that no class can starve another. To bulk, critical slots are lent only
while there is no critical work: until then its own slots are its cap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.executions.states import ExecutionClass
from chronoweb.runtime.clock import Clock

CLASSES = len(ExecutionClass)
CRITICAL, STANDARD, BULK = (int(one) for one in ExecutionClass)
_RESERVE_FROM = 4
"""With fewer slots all critical slots are lent: a reserve would be most of what there is."""


@dataclass(frozen=True)
class ClassSlots:
    """own: slots by class, together `total`. reserve: of the critical ones, how many stay free for critical work."""

    total: int
    own: tuple[int, int, int]
    reserve: int

    @classmethod
    def split(cls, total: int, *, standard_percent: int, bulk_percent: int, reserve_percent: int) -> "ClassSlots":
        """Shares of `total`, at least one slot each where there are three; critical has the rest."""
        standard, bulk = total - 1, 0
        if total >= CLASSES:
            standard = min(max(1, round(total * standard_percent / 100)), total - 2)
            bulk = min(max(1, total * bulk_percent // 100), total - standard - 1)
        critical = total - standard - bulk
        reserve = max(1, total * reserve_percent // 100) if total >= _RESERVE_FROM and reserve_percent else 0
        return cls(total, (critical, standard, bulk), min(reserve, critical))

    @classmethod
    def shared(cls, total: int) -> "ClassSlots":
        """No shares: whoever comes first."""
        return cls(total, (total, 0, 0), 0)

    def room(self, used: Sequence[int], class_index: int, *, lends_to_bulk: bool) -> int:
        """How many more of a class may start now. used: slots in use by class."""
        lent = sum(max(0, used[c] - self.own[c]) for c in (STANDARD, BULK))
        idle = max(0, self.own[CRITICAL] - used[CRITICAL] - lent)
        if class_index == CRITICAL:
            return idle
        left = max(0, self.own[class_index] - used[class_index])
        if class_index == BULK and not lends_to_bulk:
            return left
        return left + max(0, idle - self.reserve)

    def reach(self, class_index: int) -> int:
        """The most that a class can ever use."""
        return self.room((0,) * CLASSES, class_index, lends_to_bulk=True)


class Lending:
    """Whether critical slots are lent to bulk: not while critical work waits here, nor for a while after it has come.

    Safe from any thread.
    """

    def __init__(self, after_seconds: float, clock: Clock) -> None:
        self._after = after_seconds
        self._clock = clock
        self._seen_at = float("-inf")

    def critical_seen(self) -> None:
        """Critical work has come, waits or begins."""
        self._seen_at = self._clock.monotonic()

    @property
    def to_bulk(self) -> bool:
        return self._clock.monotonic() - self._seen_at >= self._after
