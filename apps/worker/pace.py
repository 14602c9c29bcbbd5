"""How fast each tenant's attempts end: counted where they end, for who estimates when what waits will begin.

It is told once a second, of the tenants of which something ended within a minute: of the busiest, where they are many.
"""

import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

SHORT_SECONDS, LONG_SECONDS = 10.0, 60.0
"""A tenant of which little ends is known better over the longer time."""
ENOUGH = 5
"""So many in the last seconds tell a pace."""
_PART_SECONDS = 1.0
_MOST_TOLD = 200

Of = tuple[bytes, int]
"""Tenant, class."""
Part = tuple[float, Counter[Of]]
"""When it began, and what ended in it."""


@dataclass(frozen=True, slots=True)
class Told:
    """(ended, seconds) of the last seconds and of a longer time."""

    short: tuple[int, float]
    long: tuple[int, float]


class Pace:
    """One worker's; fed by its completer, told by its presence."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: deque[Part] = deque([(clock.monotonic(), Counter())])
        """One a second: when it began, and what ended since. The last is not complete."""

    def ended(self, of: Iterable[Of]) -> None:
        """Attempts have ended."""
        with self._lock:
            self._parts[-1][1].update(of)

    def to_tell(self) -> Mapping[Of, Told] | None:
        """What is to be told now; None: it is not time to."""
        now = self._clock.monotonic()
        with self._lock:
            if now - self._parts[-1][0] < _PART_SECONDS:
                return None
            self._parts.append((now, Counter()))
            while now - self._parts[0][0] > LONG_SECONDS + _PART_SECONDS:
                self._parts.popleft()
            complete = list(self._parts)[:-1]
        lately = [part for part in complete if now - part[0] <= SHORT_SECONDS + _PART_SECONDS / 2]
        short, long = _sum(lately), _sum(complete)
        over = now - complete[0][0]
        return {
            one: Told((short[one], now - _since(lately, one, short[one])), (count, over))
            for one, count in long.most_common(_MOST_TOLD)
        }


def _sum(parts: Sequence[Part]) -> Counter[Of]:
    total: Counter[Of] = Counter()
    for _, counts in parts:
        total.update(counts)
    return total


def _since(parts: Sequence[Part], one: Of, ended: int) -> float:
    """Since when they ended: what has only begun to end was no slower before, if enough have to tell."""
    if ended < ENOUGH:
        return parts[0][0]
    first = next(n for n, (_, counts) in enumerate(parts) if counts[one])
    return parts[min(first, len(parts) - min(2, len(parts)))][0]
