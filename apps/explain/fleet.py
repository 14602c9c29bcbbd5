"""What Redis says: the slots of live workers by class, and where an execution stands in the hot tier.

Both are hints that may be lost; what cannot be read is None, and the rest is told all the same.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import redis

from apps.executions import hot_keys, ids
from apps.worker.live_state import LiveState, LiveStates
from chronoweb.runtime import redis_client
from chronoweb.runtime.config import config

logger = logging.getLogger(__name__)

_TOLD_SECONDS = 1.0
"""A dispatcher tells ten times a second whose rate is used up."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """Live workers that may run it: how many, their slots for its class, and those that nothing is going to take.

    alive: those that are not another tenant's. sent_to: the same (slots, free) of the worker that it was sent to.
    """

    alive: int
    able: int
    slots: int
    free: int
    sent_to: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Its place in the hot tier. ahead: of its tenant, class and labels; members: queues of its class that have work
    due in its shard, its own included; None: not to be told, since most are other tenants'.
    """

    ahead: int
    members: int | None


@dataclass(frozen=True, slots=True)
class Sight:
    """All that was seen."""

    fleet: Fleet | None = None
    line: Line | None = None
    over_rate: int | None = None


def look(row: dict[str, Any], *, requires: Sequence[str], whole: bool = False) -> Sight:
    """row: of facts.read. whole: as there. Three pipelines."""
    try:
        client = _client()
        prefix = config().redis_prefix
        states = {worker: state for worker, (_, state) in LiveStates(client, prefix).read().items()}
        class_index = row["class"]
        fleet = fleet_of(list(states.values()), tenant=row["tenant_id"].hex, requires=requires, class_index=class_index)
        if own := states.get(row["worker_id"]):
            fleet = replace(fleet, sent_to=(own.slots[class_index], max(0, own.free[class_index])))
        return Sight(fleet, _line(client, prefix, row, whole=whole), _over_rate(client, prefix, row))
    except redis.RedisError as error:
        logger.warning("Redis is away", extra={"action": "explain.redis_away", "error": str(error)})
        return Sight()


def fleet_of(states: Sequence[LiveState], *, tenant: str, requires: Sequence[str], class_index: int) -> Fleet:
    """As dispatchers choose: a tenant's own workers, if they carry the labels, are all that may. Pure."""
    known = [s for s in states if s.tenant in (None, tenant)]
    able = [s for s in known if set(requires) <= set(s.labels)]
    able = [state for state in able if state.tenant is not None] or able
    slots = sum(state.slots[class_index] for state in able)
    return Fleet(len(known), len(able), slots, sum(max(0, state.free[class_index]) for state in able))


def _line(client: redis.Redis, prefix: str, row: dict[str, Any], *, whole: bool) -> Line | None:
    identity = row["id"].bytes
    member = hot_keys.member_name(row["tenant_id"].bytes, row["route_id"])
    shard, class_index = ids.shard(identity), row["class"]
    score = client.zscore(hot_keys.entries_key(prefix, shard, class_index, member), identity)
    if score is None:
        return None
    pipeline = client.pipeline(transaction=False)
    pipeline.zcount(hot_keys.ring_key(prefix, shard, class_index), "-inf", redis_client.now_ms(client))
    for each in range(ids.SHARDS):
        pipeline.zcount(hot_keys.entries_key(prefix, each, class_index, member), "-inf", f"({score}")
    members, *ahead = pipeline.execute()
    return Line(sum(ahead), max(1, members) if whole else None)


def _over_rate(client: redis.Redis, prefix: str, row: dict[str, Any]) -> int | None:
    told = client.hget(hot_keys.over_rate_key(prefix), row["tenant_id"].hex)
    if told is None:
        return None
    at, limit = (float(part) for part in told.split())
    return int(limit) if redis_client.now_ms(client) - at < _TOLD_SECONDS * 1000 else None


@cache
def _client() -> redis.Redis:
    return redis_client.connect(None)
