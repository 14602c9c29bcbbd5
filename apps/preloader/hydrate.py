"""From the ledger to the hot tier: what comes due within the lookahead is marked PRELOADED, then added.

The mark is committed before the addition; a crash in between is healed by the next leader, which adds every
PRELOADED row again.
"""

import logging
from collections.abc import Sequence

import psycopg

from apps.dispatcher.hot_tier import HotTier
from apps.executions import feed, partitions, store
from chronoweb.runtime import faults
from chronoweb.runtime.config import Config

logger = logging.getLogger(__name__)

_ADD_CHUNK = 5000


def hydrate_day(
    connection: psycopg.Connection, hot_tier: HotTier, config: Config, *, day: int, role: str, epoch: int
) -> int:
    """Hydrate one batch of one day; returns how many executions were added."""
    rows = store.hydrate(
        connection,
        day=day,
        lookahead_seconds=config.lookahead_minutes * 60,
        limit=config.hydrate_batch,
        role=role,
        epoch=epoch,
    )
    faults.point("preloader.preloaded")
    if rows:
        hot_tier.add(rows)
        feed.changed_many((row.tenant_id, row.id) for row in rows)
    return len(rows)


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
