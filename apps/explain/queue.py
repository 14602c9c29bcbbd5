"""What the hot tier says of one tenant's waiting work: how much is due, what comes before what, how fast it goes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple
from uuid import UUID

import redis

from apps.executions import hot_keys, ids
from apps.executions.states import ExecutionClass
from apps.worker.pace import ENOUGH
from chronoweb.runtime import redis_client

_TOLD_MS = 1000
"""A dispatcher tells ten times a second whose rate is used up."""
_PACE_MS = 4000
"""And a worker once a second how fast work ends."""
_CLASSES = [int(one) for one in ExecutionClass]
_SHARDS = range(ids.SHARDS)


class Entry(NamedTuple):
    """An execution as the hot tier has it."""

    id: bytes
    class_index: int
    route: int


@dataclass(frozen=True, slots=True)
class Place:
    """Who comes before it, of its tenant. ahead: with its class and labels. due: those of them that are due now.
    of_tenant: all that are due now and go before it, whatever their class: what shares its tenant's limits.
    """

    ahead: int
    due: int
    of_tenant: int


@dataclass(frozen=True)
class Queue:
    """due: executions in the hot tier whose time has come, by class, of the routes that were asked for.

    oldest_ms: how long ago the first of them was due. over_rate: the tenant's rate, where a dispatcher has just found
    it used up. pace: how many a second end, by class; a class of which nothing ends has none. places: of those that
    stand in the hot tier. complete: whether the hot tier is known to hold all that it should. frontier: the id that
    goes next of what is due; None: nothing is due.
    """

    due: Mapping[int, int] = field(default_factory=dict)
    oldest_ms: float | None = None
    over_rate: int | None = None
    pace: Mapping[int, float] = field(default_factory=dict)
    places: Mapping[bytes, Place] = field(default_factory=dict)
    complete: bool = True
    frontier: UUID | None = None

    @property
    def pace_of_all(self) -> float | None:
        return sum(self.pace.values()) or None


Counts = Mapping[tuple[int, str], Sequence[int]]
"""(class, member) → what is due now, by shard."""


def look(client: redis.Redis, prefix: str, *, tenant: UUID, entries: Sequence[Entry], routes: Sequence[int]) -> Queue:
    """routes: those of the tenant's work beside the entries' own. Two pipelines; one more for what is not due yet."""
    now = redis_client.now_ms(client)
    members = {route: hot_keys.member_name(tenant.bytes, route) for route in {0, *routes, *(e.route for e in entries)}}
    queues = list(product(_CLASSES, members.values()))
    pipeline = client.pipeline(transaction=False)
    pipeline.hget(hot_keys.over_rate_key(prefix), tenant.hex)
    pipeline.hgetall(hot_keys.pace_key(prefix, tenant.hex))
    pipeline.exists(*(hot_keys.shard_key(prefix, shard, "runid") for shard in _SHARDS))
    for entry in entries:
        key = hot_keys.entries_key(prefix, ids.shard(entry.id), entry.class_index, members[entry.route])
        pipeline.zscore(key, entry.id)
        pipeline.zrank(key, entry.id)
    for (one, member), shard in product(queues, _SHARDS):
        pipeline.zcount(hot_keys.entries_key(prefix, shard, one, member), "-inf", now)
        pipeline.zrange(hot_keys.entries_key(prefix, shard, one, member), 0, 0, withscores=True)
    over, paced, marks, *rest = pipeline.execute()
    own, found = rest[: 2 * len(entries)], rest[2 * len(entries) :]
    counts = {queue: found[2 * n * ids.SHARDS : 2 * (n + 1) * ids.SHARDS : 2] for n, queue in enumerate(queues)}
    firsts = [(score, identity) for first in found[1::2] for identity, score in first if score <= now]
    places = {}
    for entry, score, rank in zip(entries, own[0::2], own[1::2], strict=True):
        if score is None or rank is None:
            continue
        member = members[entry.route]
        if score <= now:
            places[entry.id] = place_of(entry, rank, counts, member)
        else:
            due, ahead = sum(counts[entry.class_index, member]), _before(client, prefix, entry, member, score)
            places[entry.id] = Place(ahead, due, _of_tenant(entry, None, counts, member) + due)
    return Queue(
        due={one: sum(sum(counts[one, member]) for member in members.values()) for one in _CLASSES},
        oldest_ms=now - min(firsts)[0] if firsts else None,
        frontier=UUID(bytes=min(identity for _, identity in firsts)) if firsts else None,
        over_rate=_over_rate(over, now),
        pace=_pace(paced, now),
        places=places,
        complete=marks == ids.SHARDS,
    )


def place_of(entry: Entry, rank: int, counts: Counts, member: str) -> Place:
    """Where a due entry stands that is the rank-th (from 0) of its shard. Pure.

    Shards go side by side, each as many at a time: of every other shard at most as many go before it, and one more of
    half of those that have more.
    """
    ahead = _in_turn(entry, rank, counts[entry.class_index, member], own=True)
    return Place(ahead, ahead, ahead + _of_tenant(entry, rank, counts, member))


def _in_turn(entry: Entry, rank: int, by_shard: Sequence[int], *, own: bool) -> int:
    mine = ids.shard(entry.id) if own else None
    others = [due for shard, due in enumerate(by_shard) if shard != mine]
    return (rank if own else 0) + sum(min(rank, due) for due in others) + sum(due > rank for due in others) // 2


def _of_tenant(entry: Entry, rank: int | None, counts: Counts, member: str) -> int:
    """More urgent classes go first; other labels of its class go in turn with it. rank None: behind all that is due."""
    total = 0
    for (one, other), by_shard in counts.items():
        if one < entry.class_index or (one == entry.class_index and other != member and rank is None):
            total += sum(by_shard)
        elif one == entry.class_index and other != member and rank is not None:
            total += _in_turn(entry, rank, by_shard, own=False)
    return total


def _before(client: redis.Redis, prefix: str, entry: Entry, member: str, score: float) -> int:
    pipeline = client.pipeline(transaction=False)
    for shard in _SHARDS:
        pipeline.zcount(hot_keys.entries_key(prefix, shard, entry.class_index, member), "-inf", f"({score}")
    return sum(pipeline.execute())


def _over_rate(told: bytes | None, now: float) -> int | None:
    if told is None:
        return None
    at, limit = (float(part) for part in told.split())
    return int(limit) if now - at < _TOLD_MS else None


def _pace(told: Mapping[bytes, bytes], now: float) -> dict[int, float]:
    """Of all workers together. One that has fallen silent is left out."""
    pace: dict[int, float] = {}
    for name, value in told.items():
        one = int(name.split(b".")[0])
        at, ended, seconds, more, longer = (float(part) for part in value.split())
        if now - at > _PACE_MS:
            continue
        if not more or not longer or not seconds:
            continue
        # Few tell little: a minute's do, if it was no other pace then.
        a_second = ended / seconds if ended >= ENOUGH else min(more / longer, (ended + 1) / seconds)
        pace[one] = pace.get(one, 0.0) + a_second
    return pace
