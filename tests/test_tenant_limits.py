"""What a tenant may have dispatched: its weight, its concurrency and its rate, counted and split by shard."""

import os

import pytest
import redis

from apps.dispatcher.hot_tier import HotTier
from apps.dispatcher.tenant_limits import NO_LIMIT, TenantLimits
from apps.executions import ids
from apps.executions.rows import Dispatched, Preloaded, Queue, TenantLimit
from apps.executions.states import Status
from chronoweb.runtime.clock import SYSTEM_CLOCK

A, B = b"\xaa" * 16, b"\xbb" * 16
HELD = dict.fromkeys(range(ids.SHARDS), 1)


def limits(*given: TenantLimit, share: float = 1.0) -> TenantLimits:
    made = TenantLimits()
    made.count(given, now=0.0, share=share)
    return made


def sent(tenant: bytes) -> Dispatched:
    return Dispatched(os.urandom(16), 1, Status.DISPATCHED, 1, 1, tenant, None, 0, 0)


@pytest.fixture
def tier(redis_client: redis.Redis, redis_prefix: str) -> HotTier:
    return HotTier(redis_client, redis_prefix)


def fill(tier: HotTier, tenant: bytes, count: int) -> None:
    now = int(SYSTEM_CLOCK.time() * 1000)
    tier.add([Preloaded(identity, -1000.0, 1, tenant) for identity in ids.new_ids([now] * count)])


def waiting(tier: HotTier, tenant: bytes) -> int:
    queue = Queue(1, tenant)
    return tier.counts([queue])[queue]


def test_no_limit_is_no_limit() -> None:
    assert limits().for_shards([1, 2]) == {1: {}, 2: {}}
    assert limits(TenantLimit(A, 3, None, None, 9)).for_shards([1]) == {1: {}}
    assert limits(TenantLimit(A, 3, None, None, 9)).weight(A.hex()) == 3
    assert limits().weight(A.hex()) == 1
    assert NO_LIMIT < 0


@pytest.mark.parametrize(("allowed", "outstanding"), [(5, 0), (5, 3), (40, 1), (3, 7)])
def test_shards_together_get_what_concurrency_leaves(allowed: int, outstanding: int) -> None:
    parts = limits(TenantLimit(A, 1, allowed, None, outstanding)).for_shards(list(range(16)))
    assert sum(part[A.hex()] for part in parts.values()) == max(0, allowed - outstanding)


def test_what_was_sent_is_counted_until_the_next_count() -> None:
    made = limits(TenantLimit(A, 1, 2, None, 0))
    made.spend([sent(A), sent(B)])
    assert sum(part[A.hex()] for part in made.for_shards([0, 1]).values()) == 1


def test_a_rate_fills_up_with_time_and_never_beyond_a_second() -> None:
    made = limits(TenantLimit(A, 1, None, 10, 0))
    made.spend([sent(A)] * 10)
    assert sum(part[A.hex()] for part in made.for_shards([0]).values()) == 0
    made.count([TenantLimit(A, 1, None, 10, 0)], now=0.5, share=1.0)
    assert sum(part[A.hex()] for part in made.for_shards([0]).values()) == 5
    made.count([TenantLimit(A, 1, None, 10, 0)], now=60.0, share=1.0)
    assert sum(part[A.hex()] for part in made.for_shards([0]).values()) == 10


def test_half_the_shards_get_half_the_rate() -> None:
    made = limits(TenantLimit(A, 1, None, 10, 0), share=0.5)
    assert sum(part[A.hex()] for part in made.for_shards(list(range(8))).values()) == 5


def test_a_limited_tenant_stays_in_the_hot_tier_and_another_goes(tier: HotTier) -> None:
    fill(tier, A, 400)
    fill(tier, B, 100)
    allowed = limits(TenantLimit(A, 1, 7, None, 0))
    tier.pop(HELD, allowed, lead_ms=0, tick=0, limit=1000)  # learns who is due
    tier.pop(HELD, allowed, lead_ms=0, tick=1, limit=1000)
    assert waiting(tier, A) == 393
    assert waiting(tier, B) == 0


def test_turns_go_by_weight(tier: HotTier) -> None:
    fill(tier, A, 800)
    fill(tier, B, 800)
    allowed = limits(TenantLimit(A, 3, None, None, 0))
    tier.pop(HELD, allowed, lead_ms=0, tick=0, limit=320)
    tier.pop(HELD, allowed, lead_ms=0, tick=1, limit=320)
    gone = {tenant: 800 - waiting(tier, tenant) for tenant in (A, B)}
    assert gone[A] == pytest.approx(3 * gone[B], rel=0.1)
