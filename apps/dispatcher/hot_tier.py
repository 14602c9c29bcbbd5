"""The hot tier: sorted sets in Redis of the executions that come due within the lookahead.

Everything here can be built again from PostgreSQL. All keys of a shard share a hash tag. A member is the 16 bytes of
the execution's id ([P] 76 bytes an entry, 107 as text), its score the due time in ms by Redis's own clock.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import redis

from apps.dispatcher.pools import NoBounds, Pools
from apps.dispatcher.tenant_limits import TenantLimits
from apps.executions import hot_keys, ids
from apps.executions.hot_keys import member_name
from apps.executions.rows import Preloaded, Queue
from chronoweb.runtime import redis_client
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import LeadershipLost

CLASSES = 3
_ID_BYTES = 16
_NAME_AHEAD_MS = 100
_TOLD_MS = 60_000
_POP = (Path(__file__).parent / "lua" / "pop.lua").read_text()


@dataclass
class Popped:
    """What one tick took out: ids by shard and by (class, pool), and how long until the next is due (None: nothing is
    waiting).
    """

    by_shard: dict[int, list[bytes]] = field(default_factory=dict)
    by_pool: dict[tuple[int, int], list[bytes]] = field(default_factory=dict)
    next_due_ms: float | None = None


class HotTier:
    """Reads and writes one installation's shards."""

    def __init__(self, client: redis.Redis, prefix: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._redis = client
        self._prefix = prefix
        self._clock = clock
        self._wakeups: redis.client.PubSub | None = None
        self._pop = client.register_script(_POP)
        # Members that the last call named as due soon: the keys that the next call must pass.
        self._due_soon: dict[int, list[tuple[int, str]]] = {}

    def key(self, shard: int, name: str) -> str:
        return hot_keys.shard_key(self._prefix, shard, name)

    def entries_key(self, shard: int, class_index: int, member: str) -> str:
        return hot_keys.entries_key(self._prefix, shard, class_index, member)

    @property
    def wake_channel(self) -> str:
        return f"{self._prefix}wake"

    # ---- the preloader's side ----

    def add(self, entries: Iterable[Preloaded]) -> int:
        """Add entries, or move them to their new score; one round trip, idempotent. Returns how many were given."""
        now = redis_client.now_ms(self._redis)
        groups: dict[tuple[int, int, bytes, int], list[tuple[float, bytes]]] = {}
        for entry in entries:
            group = (ids.shard(entry.id), entry.class_index, entry.tenant_id, entry.route_id)
            groups.setdefault(group, []).append((now + entry.due_in_ms, entry.id))
        if not groups:
            return 0
        pipeline = self._redis.pipeline(transaction=False)
        for (shard, class_index, tenant, route), pairs in groups.items():
            member = member_name(tenant, route)
            flat = [value for pair in pairs for value in pair]
            pipeline.execute_command("ZADD", self.entries_key(shard, class_index, member), *flat)
            pipeline.execute_command("ZADD", self.key(shard, f"ring:{class_index}"), "LT", min(pairs)[0], member)
        pipeline.publish(self.wake_channel, b"")
        pipeline.execute()
        return sum(len(pairs) for pairs in groups.values())

    def counts(self, queues: Sequence[Queue]) -> dict[Queue, int]:
        """Entries waiting of each queue."""
        pipeline = self._redis.pipeline(transaction=False)
        for class_index, tenant, route in queues:
            for shard in range(ids.SHARDS):
                pipeline.zcard(self.entries_key(shard, class_index, member_name(tenant, route)))
        cards = pipeline.execute()
        return {queue: sum(cards[n * ids.SHARDS : (n + 1) * ids.SHARDS]) for n, queue in enumerate(queues)}

    def memory(self) -> tuple[float, str]:
        """(used memory ÷ maxmemory, 0.0 when there is no limit; the policy once it is full)."""
        info = self._redis.info("memory")
        used = info["used_memory"] / info["maxmemory"] if info["maxmemory"] else 0.0
        return used, info["maxmemory_policy"]

    def tell_lookahead(self, seconds: float) -> None:
        """How far ahead the hot tier is filled now: for who looks."""
        self._redis.set(hot_keys.lookahead_key(self._prefix), f"{seconds:.0f}", px=_TOLD_MS)

    def beyond(self, ahead_ms: float, *, chunk: int) -> Iterator[tuple[str, list[bytes]]]:
        """(key, ids) of entries due later than `ahead_ms` from now, the latest first; remove each before the next."""
        edge = redis_client.now_ms(self._redis) + ahead_ms
        for shard in range(ids.SHARDS):
            for class_index in range(CLASSES):
                ring = cast("list[bytes]", self._redis.zrange(self.key(shard, f"ring:{class_index}"), 0, -1))
                for tenant in ring:
                    key = self.entries_key(shard, class_index, tenant.decode())
                    while found := self._redis.zrevrangebyscore(key, "+inf", edge, start=0, num=chunk):
                        yield key, cast("list[bytes]", found)

    def remove(self, key: str, identities: list[bytes]) -> None:
        """Take entries out; a tenant whose set is empty leaves the ring when it is looked at next."""
        self._redis.zrem(key, *identities)

    def mark(self, shards: Sequence[int]) -> None:
        """Write the server's run id into each shard: the shard is known to be complete on this very server."""
        run_id = self._run_id()
        pipeline = self._redis.pipeline(transaction=False)
        for shard in shards:
            pipeline.set(self.key(shard, "runid"), run_id)
        pipeline.execute()

    def incomplete(self) -> list[int]:
        """Shards whose mark is missing or another server's: Redis was emptied, restored or replaced."""
        run_id = self._run_id()
        pipeline = self._redis.pipeline(transaction=False)
        for shard in range(ids.SHARDS):
            pipeline.get(self.key(shard, "runid"))
        return [shard for shard, mark in enumerate(pipeline.execute()) if mark != run_id]

    def _run_id(self) -> bytes:
        return self._redis.info("server")["run_id"].encode()

    # ---- the dispatcher's side ----

    def pop(
        self,
        held: Mapping[int, int],
        limits: TenantLimits,
        pools: Pools | None = None,
        *,
        lead_ms: int,
        tick: int,
        limit: int,
    ) -> Popped:
        """Take what is due within the lead, at most about `limit`, into flight; one round trip for all shards.

        held: shard → epoch of the shards to pop. pools: what workers have room for; None: for anything. Raises
        LeadershipLost when a shard has seen a higher epoch.
        """
        pools = pools or NoBounds()
        shards = sorted(held)
        share = max(1, -(-limit // len(shards)))
        # With fewer credits than shards, the shards take turns.
        turn = [shards[(tick + n) % len(shards)] for n in range(min(limit, len(shards)))]
        named = {shard: self._named(shard, limits, place, len(turn), pools) for place, shard in enumerate(turn)}
        rooms = pools.rooms()
        totals = pools.totals()
        pipeline = self._redis.pipeline(transaction=False)
        for place, shard in enumerate(turn):
            parts = [_part(room, place, len(turn)) for room in totals]
            parts += [len(rooms), *(_part(room, place, len(turn)) for pool in rooms for room in pool)]
            call: tuple[int | str, ...] = (held[shard], lead_ms, _flight(held[shard], tick), share, _NAME_AHEAD_MS)
            self._queue_pop(pipeline, shard, named[shard], (*call, *parts))
        popped = Popped()
        for shard, reply in zip(turn, pipeline.execute(), strict=True):
            if reply[0] == -2:
                raise LeadershipLost(f"shard {shard} was popped under a higher epoch than {held[shard]}")
            self._take(popped, shard, reply)
        return popped

    def _named(
        self, shard: int, limits: TenantLimits, place: int, places: int, pools: Pools
    ) -> list[tuple[int, str, int, int, int]]:
        """(class, member, weight, most of its tenant, pool) of what is due soon and has somewhere to go."""
        named = []
        for class_index, member in self._due_soon.get(shard, []):
            tenant, _, route = member.partition(".")
            pool = pools.pool_of(tenant, int(route or 0))
            if pool is not None:
                most = limits.most(tenant, place, places)
                named.append((class_index, member, limits.weight(tenant), most, pool))
        return named

    def _queue_pop(
        self,
        pipeline: "redis.client.Pipeline",
        shard: int,
        named: list[tuple[int, str, int, int, int]],
        arguments: Sequence[int | str],
    ) -> None:
        keys = [
            self.key(shard, "epoch"),
            self.key(shard, "inflight"),
            *(self.key(shard, f"ring:{c}") for c in range(CLASSES)),
            *(self.entries_key(shard, one[0], one[1]) for one in named),
        ]
        flat = [value for one in named for value in one]
        self._pop(keys=keys, args=[*arguments, *flat], client=pipeline)

    def _take(self, popped: Popped, shard: int, reply: list[bytes]) -> None:
        wait = float(reply[0])
        if wait >= 0 and (popped.next_due_ms is None or wait < popped.next_due_ms):
            popped.next_due_ms = wait
        names = [name.decode().split(":", 1) for name in reply[1].split(b",") if name]
        self._due_soon[shard] = [(int(c), member) for c, member in names]
        for class_index, pool, blob in zip(reply[2::3], reply[3::3], reply[4::3], strict=True):
            identities = _split(blob)
            popped.by_shard.setdefault(shard, []).extend(identities)
            popped.by_pool.setdefault((int(class_index), int(pool)), []).extend(identities)

    def landed(self, done: Iterable[tuple[int, int, int]]) -> None:
        """Ticks whose work is confirmed (shard, epoch, tick): they need not be looked at after a crash."""
        pipeline = self._redis.pipeline(transaction=False)
        for shard, epoch, tick in done:
            pipeline.hdel(self.key(shard, "inflight"), _flight(epoch, tick))
        pipeline.execute()

    def in_flight(self, shard: int) -> dict[bytes, list[bytes]]:
        """What a shard's last owner had popped and not confirmed: tick → ids."""
        entries = cast("dict[bytes, bytes]", self._redis.hgetall(self.key(shard, "inflight")))
        return {tick: _split(blob) for tick, blob in entries.items()}

    def forget_in_flight(self, shard: int, ticks: Iterable[bytes]) -> None:
        """The ids of these ticks have been dealt with."""
        fields = list(ticks)
        if fields:
            self._redis.hdel(self.key(shard, "inflight"), *fields)

    def take_over(self, shard: int, epoch: int) -> None:
        """Refuse every pop of this shard under a lower epoch from now on."""
        self._redis.set(self.key(shard, "epoch"), epoch)

    def wait(self, seconds: float) -> None:
        """Wait for an addition, at most `seconds`.

        The time-out is this side's: an idle server ends a blocking command up to 100 ms late.
        """
        if self._wakeups is None:
            self._wakeups = self._redis.pubsub(ignore_subscribe_messages=True)
            self._wakeups.subscribe(self.wake_channel)
        deadline = self._clock.monotonic() + seconds
        while (left := deadline - self._clock.monotonic()) > 0:
            if self._wakeups.get_message(timeout=left) is not None:
                break
        while self._wakeups.get_message(timeout=0) is not None:
            pass

    def tell_over_rate(self, tenants: Mapping[str, int]) -> None:
        """Say which tenants (hex) have work due and no more of their rate, with it: for who explains a wait."""
        key = hot_keys.over_rate_key(self._prefix)
        now = redis_client.now_ms(self._redis)
        self._redis.hset(key, mapping={tenant: f"{now:.0f} {limit}" for tenant, limit in tenants.items()})
        self._redis.pexpire(key, _TOLD_MS)

    def close(self) -> None:
        """Give the subscription back."""
        if self._wakeups is not None:
            self._wakeups.close()
            self._wakeups = None

    # ---- the watchdog's side ----

    def missing(self, entries: Sequence[Preloaded]) -> list[bytes]:
        """Which of `entries` are neither waiting nor in flight."""
        pipeline = self._redis.pipeline(transaction=False)
        for entry in entries:
            shard = ids.shard(entry.id)
            member = member_name(entry.tenant_id, entry.route_id)
            pipeline.zscore(self.entries_key(shard, entry.class_index, member), entry.id)
        absent = [e.id for e, score in zip(entries, pipeline.execute(), strict=True) if score is None]
        flying: set[bytes] = set()
        for shard in {ids.shard(i) for i in absent}:
            for group in self.in_flight(shard).values():
                flying.update(group)
        return [i for i in absent if i not in flying]

    def size(self) -> int:
        """Entries waiting, all shards."""
        total = 0
        for shard in range(ids.SHARDS):
            for class_index in range(CLASSES):
                ring = cast("list[bytes]", self._redis.zrange(self.key(shard, f"ring:{class_index}"), 0, -1))
                for tenant in ring:
                    total += self._redis.zcard(self.entries_key(shard, class_index, tenant.decode()))
        return total


def _part(room: int, place: int, places: int) -> int:
    """A shard's part of a room; places go round, and the remainder with them."""
    return room // places + (place < room % places)


def _flight(epoch: int, tick: int) -> str:
    """The in-flight field of a tick: no two leaders ever share one."""
    return f"{epoch}-{tick}"


def _split(blob: bytes) -> list[bytes]:
    return [blob[n : n + _ID_BYTES] for n in range(0, len(blob), _ID_BYTES)]
