"""From the ledger to the hot tier: what comes due within the lookahead is marked PRELOADED, then added.

Classes in order, tenants in turn, and at most so many entries of one (tenant, class): the tail of a backlog stays in
the ledger, and delays nobody else. The mark is committed before the addition; a crash in between is healed by the next
leader, which adds every PRELOADED row again.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from apps.dispatcher.hot_tier import HotTier
from apps.executions import feed, partitions, store
from chronoweb.runtime import faults
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

_ADD_CHUNK = 5000
_MOST_PAIRS = 10_000
_LEAST_TURN = 100

Pair = tuple[int, bytes]
"""(class, tenant)."""


@dataclass
class Room:
    """How many more entries of each pair the hot tier may hold; asks Redis only when a pair may be near its bound."""

    most: int
    _at_most: dict[Pair, int] = field(default_factory=dict)

    def share_out(self, hot_tier: HotTier, pairs: Sequence[Pair], batch: int) -> dict[Pair, int]:
        """A turn for each pair that has room: even parts of the batch."""
        turn = max(_LEAST_TURN, batch // max(1, len(pairs)))
        unsure = [pair for pair in pairs if self._at_most.get(pair, 0) + turn > self.most]
        if unsure:
            self._at_most.update(hot_tier.counts(unsure))
        rooms = {pair: min(turn, self.most - self._at_most.get(pair, 0)) for pair in pairs}
        return {pair: room for pair, room in rooms.items() if room > 0}

    def added(self, pair: Pair, count: int) -> None:
        """Entries were added. What was popped since is not known here: the sum is an upper bound."""
        self._at_most[pair] = self._at_most.get(pair, 0) + count

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
        pairs = store.waiting_pairs(self.connection, day=day, limit=_MOST_PAIRS)
        rooms = self.room.share_out(self.hot_tier, pairs, self.config.hydrate_batch) if pairs else {}
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
        counts: dict[Pair, int] = {}
        for row in rows:
            pair = (row.class_index, row.tenant_id)
            counts[pair] = counts.get(pair, 0) + 1
        for pair, count in counts.items():
            self.room.added(pair, count)
        return len(rows), any(count >= rooms[pair] for pair, count in counts.items())


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
