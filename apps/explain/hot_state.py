"""The hot tier at a glance, for who operates it and for one tenant: sizes, the oldest that is due, memory, lookahead.

All of it is a hint that may be lost; None: Redis is away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import redis

from apps.executions import hot_keys, ids
from apps.executions.states import ExecutionClass
from apps.explain import looking
from chronoweb.runtime import redis_client

MOST_QUEUES = 100
"""Of one shard and class: beyond it its size is a lower bound."""


@dataclass(frozen=True, slots=True)
class ShardSize:
    """waiting: entries by class. oldest_ms: by class, how long ago the earliest entry was due; None: nothing is due.

    popped: ticks whose dispatch is not confirmed yet. at_least: not all queues were counted.
    """

    waiting: tuple[int, ...]
    oldest_ms: tuple[float | None, ...]
    popped: int = 0
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """limit: None where there is none. policy: what Redis does once it is full. server: name and version."""

    used: int
    limit: int | None
    policy: str
    server: str

    @property
    def share(self) -> float | None:
        return None if self.limit is None else self.used / self.limit


@dataclass(frozen=True, slots=True)
class HotState:
    """lookahead_seconds: how far ahead it is filled now; None: no preloader has said so lately."""

    shards: list[ShardSize]
    lookahead_seconds: int | None
    memory: Memory | None = None

    @property
    def waiting(self) -> tuple[int, ...]:
        return tuple(sum(shard.waiting[one] for shard in self.shards) for one in ExecutionClass)

    @property
    def oldest_ms(self) -> float | None:
        due = [ms for shard in self.shards for ms in shard.oldest_ms if ms is not None]
        return max(due, default=None)

    @property
    def at_least(self) -> bool:
        return any(shard.at_least for shard in self.shards)


def of_all() -> HotState | None:
    """All tenants' together, with memory: for the platform alone. Three pipelines."""

    def read(client: redis.Redis, prefix: str) -> HotState:
        now_ms = redis_client.now_ms(client)
        rings = _rings(client, prefix)
        cards = client.pipeline(transaction=False)
        for (shard, one), (members, _) in rings.items():
            for member, _ in members:
                cards.zcard(hot_keys.entries_key(prefix, shard, one, member.decode()))
        counts = iter(cards.execute())
        waiting = {place: sum(next(counts) for _ in members) for place, (members, _) in rings.items()}
        rest = client.pipeline(transaction=False)
        for shard in range(ids.SHARDS):
            rest.hlen(hot_keys.shard_key(prefix, shard, "inflight"))
        rest.get(hot_keys.lookahead_key(prefix))
        rest.info("memory")
        rest.info("server")
        *popped, lookahead, memory, server = rest.execute()
        shards = [
            ShardSize(
                waiting=tuple(waiting[shard, one] for one in ExecutionClass),
                oldest_ms=tuple(_due(rings[shard, one][0], now_ms) for one in ExecutionClass),
                popped=popped[shard],
                at_least=any(rings[shard, one][1] > len(rings[shard, one][0]) for one in ExecutionClass),
            )
            for shard in range(ids.SHARDS)
        ]
        return HotState(shards, _seconds(lookahead), _memory(memory, server))

    return looking.ask(read)


def of_tenant(tenant: bytes, routes: Sequence[int]) -> HotState | None:
    """One tenant's alone, of these routes (0: what asks for no labels). One pipeline."""
    members = [hot_keys.member_name(tenant, route) for route in routes]

    def read(client: redis.Redis, prefix: str) -> HotState:
        now_ms = redis_client.now_ms(client)
        pipeline = client.pipeline(transaction=False)
        for shard in range(ids.SHARDS):
            for one in ExecutionClass:
                for member in members:
                    key = hot_keys.entries_key(prefix, shard, one, member)
                    pipeline.zcard(key)
                    pipeline.zrange(key, 0, 0, withscores=True)
        pipeline.get(hot_keys.lookahead_key(prefix))
        *answers, lookahead = pipeline.execute()
        parts = iter(zip(answers[0::2], answers[1::2], strict=True))
        shards = []
        for _ in range(ids.SHARDS):
            of_class = [[next(parts) for _ in members] for _ in ExecutionClass]
            shards.append(
                ShardSize(
                    waiting=tuple(sum(count for count, _ in found) for found in of_class),
                    oldest_ms=tuple(_due([e for _, first in found for e in first], now_ms) for found in of_class),
                )
            )
        return HotState(shards, _seconds(lookahead))

    return looking.ask(read)


def _rings(client: redis.Redis, prefix: str) -> dict[tuple[int, int], tuple[list[tuple[bytes, float]], int]]:
    """(shard, class) → (its first queues with the time of their earliest entry, how many queues there are)."""
    pipeline = client.pipeline(transaction=False)
    places = [(shard, int(one)) for shard in range(ids.SHARDS) for one in ExecutionClass]
    for shard, one in places:
        key = hot_keys.ring_key(prefix, shard, one)
        pipeline.zrange(key, 0, MOST_QUEUES - 1, withscores=True)
        pipeline.zcard(key)
    answers = pipeline.execute()
    return {place: (answers[2 * n], answers[2 * n + 1]) for n, place in enumerate(places)}


def _due(entries: Sequence[tuple[bytes, float]], now_ms: float) -> float | None:
    earliest = min((score for _, score in entries), default=now_ms)
    return now_ms - earliest if earliest < now_ms else None


def _seconds(told: bytes | None) -> int | None:
    return None if told is None else int(told)


def _memory(memory: dict[str, Any], server: dict[str, Any]) -> Memory:
    name = str(server.get("server_name") or "redis")
    version = server.get(f"{name}_version") or server.get("redis_version") or ""
    limit = int(memory["maxmemory"]) or None
    return Memory(int(memory["used_memory"]), limit, str(memory["maxmemory_policy"]), f"{name} {version}".strip())
