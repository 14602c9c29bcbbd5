"""Which workers are lost: seen from outside, so that a dead one need not say so.

A worker's session lock counts as lost only if it was seen held, then free for two seconds, with no heartbeat since,
under the same postmaster start, by a watchdog that could read and write the ledger all the while. If more than max(2,
20 %) vanish at once, that is a network or database event, and only leases decide.

A lease counts as run out only once it has been seen so for the same two seconds. Where the ledger took no heartbeats
for longer than a lease, all have run out when it is back, and whoever lives needs a moment to say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from apps.executions.rows import WorkerRow

_AT_ONCE_LEAST = 2
_AT_ONCE_SHARE = 0.2
_AT_ONCE_SECONDS = 0.5
"""Sessions that end together are not seen to end in the same instant."""


@dataclass
class _Seen:
    """free_since: monotonic seconds at which the lock was first seen free; None while it is held."""

    free_since: float | None
    heartbeat: float


@dataclass
class LostWorkers:
    """Remembers locks from one look to the next."""

    lock_lost_seconds: float
    _postmaster_start: float | None = None
    _seen: dict[int, _Seen] = field(default_factory=dict)
    _over_since: dict[int, float] = field(default_factory=dict)
    """Leases that have run out: monotonic seconds at which that was first seen."""

    def forget(self) -> None:
        """The ledger was away, or took no writes: what kept the watchdog from it kept heartbeats from it, too."""
        self._seen.clear()
        self._over_since.clear()

    def judge(self, rows: Sequence[WorkerRow], *, now: float) -> list[tuple[WorkerRow, str]]:
        """(worker, reason) of those that are lost. now: monotonic seconds."""
        if rows and rows[0].postmaster_start != self._postmaster_start:
            # The server was restarted: every lock is free for a moment, and nobody is dead for it.
            self.forget()
            self._postmaster_start = rows[0].postmaster_start
        self._seen = {row.id: self._seen[row.id] for row in rows if row.id in self._seen}
        silent = [row for row in rows if self._is_lock_gone(row, now)]
        at_once = [row for row in rows if self._is_lock_gone(row, now + min(_AT_ONCE_SECONDS, self.lock_lost_seconds))]
        massacre = len(at_once) > max(_AT_ONCE_LEAST, _AT_ONCE_SHARE * len(rows))
        lost = [] if massacre else [(row, "its session is gone") for row in silent]
        self._over_since = {row.id: self._over_since.get(row.id, now) for row in rows if row.lease_over}
        over = {one for one, since in self._over_since.items() if now - since >= self.lock_lost_seconds}
        expired = [row for row in rows if row.id in over and all(row.id != found.id for found, _ in lost)]
        return lost + [(row, "its lease has run out") for row in expired]

    def _is_lock_gone(self, row: WorkerRow, now: float) -> bool:
        seen = self._seen.get(row.id)
        if row.lock_held:
            self._seen[row.id] = _Seen(None, row.heartbeat)
            return False
        if seen is None:
            return False  # never seen held: only its lease tells
        if seen.free_since is None or row.heartbeat > seen.heartbeat:
            self._seen[row.id] = _Seen(now, row.heartbeat)
            return False
        return now - seen.free_since >= self.lock_lost_seconds
