"""From the ledger to the hot tier: what comes due within the lookahead is marked PRELOADED, then added.

Classes in order, tenants in turn, and at most so many entries of one queue (class, tenant, route): the tail of a
backlog stays in the ledger, and delays nobody else. The mark is committed before the addition; a crash in between is
healed by the next leader, which adds every PRELOADED row again.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from apps.dispatcher.hot_tier import HotTier
from apps.executions import feed, partitions, store
from apps.executions.rows import Queue
from chronoweb.runtime import faults
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

_ADD_CHUNK = 5000
_MOST_QUEUES = 10_000
_LEAST_TURN = 100


@dataclass
class Room:
    """How many more entries of each queue the hot tier may hold; asks Redis only when a queue may be near its bound."""

    most: int
    _at_most: dict[Queue, int] = field(default_factory=dict)

    def share_out(self, hot_tier: HotTier, queues: Sequence[Queue], batch: int) -> dict[Queue, int]:
        """A turn for each queue that has room: even parts of the batch."""
        turn = max(_LEAST_TURN, batch // max(1, len(queues)))
        unsure = [queue for queue in queues if self._at_most.get(queue, 0) + turn > self.most]
        if unsure:
            self._at_most.update(hot_tier.counts(unsure))
        rooms = {queue: min(turn, self.most - self._at_most.get(queue, 0)) for queue in queues}
        return {queue: room for queue, room in rooms.items() if room > 0}

    def added(self, queue: Queue, count: int) -> None:
        """Entries were added. What was popped since is not known here: the sum is an upper bound."""
        self._at_most[queue] = self._at_most.get(queue, 0) + count

    def forget(self) -> None:
        """The hot tier has been emptied or filled anew."""
        self._at_most.clear()


@dataclass
class Hydrator:
    """Moves due executions, batch by batch, under one epoch."""

    connection: psycopg.Connection
    hot_tier: HotTier
    config: Config
    room: Room
    role: str
    epoch: int

    def hydrate_day(self, day: int, *, lookahead_seconds: float) -> tuple[int, bool]:
        """One batch of one day: (how many were added, whether more are waiting that had no turn yet)."""
        queues = store.waiting_queues(self.connection, day=day, limit=_MOST_QUEUES)
        rooms = self.room.share_out(self.hot_tier, queues, self.config.hydrate_batch) if queues else {}
        if not rooms:
            return 0, False
        rows = store.hydrate(
            self.connection,
            rooms,
            day=day,
            lookahead_seconds=lookahead_seconds,
            role=self.role,
            epoch=self.epoch,
        )
        if not rows:
            return 0, False
        faults.point("preloader.preloaded")
        self.hot_tier.add(rows)
        feed.changed_many((row.tenant_id, row.id) for row in rows)
        counts: dict[Queue, int] = {}
        for row in rows:
            queue = Queue(row.class_index, row.tenant_id, row.route_id)
            counts[queue] = counts.get(queue, 0) + 1
        for queue, count in counts.items():
            self.room.added(queue, count)
        return len(rows), any(count >= rooms[queue] for queue, count in counts.items())


def restore(connection: psycopg.Connection, hot_tier: HotTier, shards: Sequence[int]) -> int:
    """Add everything PRELOADED of `shards` again, today's first; returns how many there were.

    connection: one that may read whole partitions. The shards are marked complete at the end, so a crash on the way
    starts it anew.
    """
    added = 0
    for day in sorted(partitions.existing_days(connection), reverse=True):
        rows = store.preloaded_of_day(connection, day=day, shards=shards)
        for start in range(0, len(rows), _ADD_CHUNK):
            added += hot_tier.add(rows[start : start + _ADD_CHUNK])
    hot_tier.mark(shards)
    if added:
        logger.info("hot tier restored", extra={"action": "preloader.restored", "executions": added})
    return added
