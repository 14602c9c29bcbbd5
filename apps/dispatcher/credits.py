"""How much each worker may be sent now: so that a backlog waits in the hot tier, where cancel, pause and priority
act on it, and not in the transport.

A worker's credit = its slots + a quarter second of its measured claim rate, never less than the floor, minus what it
has outstanding. [P] Starting from slots alone costs a burst 0.6 s. A worker not heard of for a second has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from apps.worker.live_state import LiveState

_PREFETCH_SECONDS = 0.25
_RATE_DECAY = 0.8


@dataclass
class Credit:
    """What one worker may still be sent, and where."""

    worker_id: int
    left: int
    inbox: Mapping[str, Any]


@dataclass
class _Seen:
    stamp_ms: float
    claimed: int
    rate: float = 0.0


@dataclass
class Credits:
    """Remembers each worker's claim rate from one look to the next."""

    floor: int
    _seen: dict[int, _Seen] = field(default_factory=dict)

    def count(
        self,
        alive: Mapping[int, tuple[float, LiveState]],
        outstanding: Mapping[int, int],
        *,
        share: float = 1.0,
    ) -> list[Credit]:
        """Credits of the workers that live and have an inbox; the freest first.

        share: the part of all shards that the asking dispatcher holds; the others spend the rest.
        """
        self._seen = {worker: seen for worker, seen in self._seen.items() if worker in alive}
        found = []
        for worker, (stamp, state) in alive.items():
            rate = self._rate(worker, stamp, state.claimed)
            if state.inbox:
                allowed = max(self._floor(state), int(state.slots + rate * _PREFETCH_SECONDS))
                found.append(Credit(worker, max(0, ceil((allowed - outstanding.get(worker, 0)) * share)), state.inbox))
        return sorted(found, key=lambda credit: -credit.left)

    def _floor(self, state: LiveState) -> int:
        """The least that a worker may have outstanding: what it could run in the prefetch time, if that is known."""
        if not state.mean_run_seconds:
            return self.floor
        return min(self.floor, int(state.slots * _PREFETCH_SECONDS / state.mean_run_seconds))

    def _rate(self, worker: int, stamp_ms: float, claimed: int) -> float:
        """Claims a second: rises at once, falls slowly."""
        seen = self._seen.setdefault(worker, _Seen(stamp_ms, claimed))
        if stamp_ms > seen.stamp_ms:
            now = (claimed - seen.claimed) * 1000 / (stamp_ms - seen.stamp_ms)
            seen.rate = now if now > seen.rate else seen.rate * _RATE_DECAY + now * (1 - _RATE_DECAY)
            seen.stamp_ms, seen.claimed = stamp_ms, claimed
        return seen.rate


def assign(count: int, credits: list[Credit]) -> list[int]:
    """Share `count` executions out: (worker id) for each, in proportion to what workers have left.

    The caller asks for no more than all credits together; a remainder by rounding goes to the freest.
    """
    total = sum(credit.left for credit in credits)
    workers: list[int] = []
    for credit in credits:
        share = min(credit.left, -(-count * credit.left // total)) if total else 0
        workers += [credit.worker_id] * share
    del workers[count:]
    workers += [credits[0].worker_id] * (count - len(workers))
    return workers
