"""How much of each class each worker may be sent now: so that a backlog waits in the hot tier, where cancel, pause and
priority act on it, and not in the transport; and so that no class fills a worker's inbox for the others.

A worker's credit for a class = the slots that the class may use + a quarter second of its measured claim rate, never
less than the floor, minus what it has outstanding. [P] Starting from slots alone costs a burst 0.6 s. A worker not
heard of for a second has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from apps.executions.labels import is_special
from apps.worker.class_slots import CLASSES
from apps.worker.live_state import LiveState

_PREFETCH_SECONDS = 0.25
_RATE_DECAY = 0.8


@dataclass
class Credit:
    """What one worker may still be sent, by class; its free slots; where it is reached; what it carries.

    tenant: id (hex) of the only one that it serves. special: it carries what most do not.
    """

    worker_id: int
    left: list[int]
    free: list[int]
    inbox: Mapping[str, Any]
    labels: frozenset[str] = frozenset()
    tenant: str | None = None
    special: bool = False


@dataclass
class _Seen:
    stamp_ms: float
    claimed: list[int]
    rates: list[float] = field(default_factory=lambda: [0.0] * CLASSES)


@dataclass
class Credits:
    """Remembers each worker's claim rates from one look to the next."""

    floor: int
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def count(
        self,
        alive: Mapping[int, tuple[float, LiveState]],
        outstanding: Mapping[tuple[int, int], int],
        *,
        share: float = 1.0,
    ) -> list[Credit]:
        """Credits of the workers that live and have an inbox.

        outstanding: (worker, class) → how many. share: the part of all shards that the asking dispatcher holds; the
        others spend the rest.
        """
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in alive}
        found = []
        for worker, (stamp, state) in alive.items():
            rates = self._rates(worker, stamp, state)
            if not state.inbox:
                continue
            left = []
            for c in range(CLASSES):
                allowed = max(self._floor(state, c), int(state.slots[c] + rates[c] * _PREFETCH_SECONDS))
                left.append(max(0, ceil((allowed - outstanding.get((worker, c), 0)) * share)))
            labels = frozenset(state.labels)
            free = list(state.free)
            found.append(Credit(worker, left, free, state.inbox, labels, state.tenant, is_special(labels)))
        return found

    def _floor(self, state: LiveState, class_index: int) -> int:
        """The least that a worker may have outstanding: what it could run in the prefetch time, if that is known."""
        mean = state.mean_run_seconds[class_index]
        return self.floor if not mean else min(self.floor, int(state.slots[class_index] * _PREFETCH_SECONDS / mean))

    def _rates(self, worker: int, stamp_ms: float, state: LiveState) -> list[float]:
        """Claims a second: they rise at once, and fall slowly."""
        seen = self._seen.setdefault(worker, _Seen(stamp_ms, list(state.claimed)))
        if stamp_ms > seen.stamp_ms:
            for c in range(CLASSES):
                now = (state.claimed[c] - seen.claimed[c]) * 1000 / (stamp_ms - seen.stamp_ms)
                before = seen.rates[c]
                seen.rates[c] = now if now > before else before * _RATE_DECAY + now * (1 - _RATE_DECAY)
            seen.stamp_ms, seen.claimed = stamp_ms, list(state.claimed)
        return seen.rates
