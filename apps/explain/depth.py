"""How many executions wait in the hot tier, by class."""

from dataclasses import dataclass
from typing import cast

import redis

from apps.executions import hot_keys, ids
from apps.executions.states import ExecutionClass

MOST_QUEUES = 20_000
"""Of one class, over all shards: beyond it the count is a lower bound."""


@dataclass(frozen=True, slots=True)
class Depth:
    """waiting: entries of any time to come. due: queues that have work due now. at_least: not all were counted."""

    waiting: int
    due: int
    at_least: bool


def depths(client: redis.Redis, prefix: str, *, now_ms: float) -> dict[str, Depth]:
    """Two pipelines a class."""
    found = {}
    for one in ExecutionClass:
        rings = client.pipeline(transaction=False)
        for shard in range(ids.SHARDS):
            key = hot_keys.ring_key(prefix, shard, int(one))
            rings.zrange(key, 0, MOST_QUEUES // ids.SHARDS - 1)
            rings.zcard(key)
            rings.zcount(key, "-inf", now_ms)
        answers = rings.execute()
        cards = client.pipeline(transaction=False)
        for shard, members in enumerate(answers[0::3]):
            for member in cast("list[bytes]", members):
                cards.zcard(hot_keys.entries_key(prefix, shard, int(one), member.decode()))
        waiting = sum(cards.execute())
        counted, known = sum(len(members) for members in answers[0::3]), sum(answers[1::3])
        found[one.word] = Depth(waiting, sum(answers[2::3]), counted < known)
    return found
