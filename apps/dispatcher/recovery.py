"""Taking a shard over: what its last owner had in flight is requeued, taken back, or left alone.

Row status decides: PRELOADED was popped and never dispatched; DISPATCHED may or may not have been published, so it is
taken back uncounted under a new token; RUNNING and later has arrived.
"""

import logging
from collections.abc import Mapping

import psycopg

from apps.dispatcher.hot_tier import HotTier
from apps.executions import store
from apps.executions.dags.completion import settle_ended
from apps.executions.rows import Preloaded
from apps.executions.states import RESTING, Status

logger = logging.getLogger(__name__)


def recover(connection: psycopg.Connection, hot_tier: HotTier, held: Mapping[int, int]) -> int:
    """Clear the in-flight entries of shards (shard → epoch) after a change of owner; returns how many were moved.

    Crash-safe: entries are forgotten only after what they named has been dealt with, and each step is idempotent.
    """
    moved = 0
    for shard, epoch in held.items():
        hot_tier.take_over(shard, epoch)
        flying = hot_tier.in_flight(shard)
        identities = sorted({identity for group in flying.values() for identity in group})
        if identities:
            moved += _settle(connection, hot_tier, identities)
        hot_tier.forget_in_flight(shard, flying)
    if moved:
        logger.info("recovered", extra={"action": "dispatcher.recovered", "executions": moved})
    return moved


def _settle(connection: psycopg.Connection, hot_tier: HotTier, identities: list[bytes]) -> int:
    found = store.states_of(connection, identities)
    waiting = [
        Preloaded(w.id, w.due_in_ms, w.class_index, w.tenant_id, w.route_id)
        for w in found
        if w.status == Status.PRELOADED
    ]
    hot_tier.add(waiting)
    unsure = [(w.id, w.token) for w in found if w.status == Status.DISPATCHED]
    taken = store.reclaim(
        connection,
        unsure,
        reason="the dispatcher was lost before the transport had confirmed it",
        actor="dispatcher",
        only_unclaimed=True,
    )
    settle_ended(connection, [identity for identity, status, _ in taken if status in RESTING])
    return len(waiting) + len(unsure)
