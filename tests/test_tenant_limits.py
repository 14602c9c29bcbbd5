"""What a tenant may have dispatched: its weight, its concurrency and its rate, counted and split by shard."""

import os
import threading
import time
from typing import Any

import pytest
import redis

from apps.dispatcher import exact_limits
from apps.dispatcher.credits import Credit
from apps.dispatcher.hot_tier import HotTier
from apps.dispatcher.pools import Pools
from apps.dispatcher.tenant_limits import NO_LIMIT, TenantLimits
from apps.executions import ids, store
from apps.executions.rows import Dispatched, Preloaded, Queue, TenantLimit
from apps.executions.states import Status
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.stack import EPOCH, Ledger

A, B = b"\xaa" * 16, b"\xbb" * 16
HELD = dict.fromkeys(range(ids.SHARDS), 1)


def limits(
    *given: TenantLimit, outstanding: dict[bytes, int] | None = None, share: float = 1.0, **more: Any
) -> TenantLimits:
    made = TenantLimits()
    made.know(given)
    made.count(outstanding or {}, more.get("of_hour", {}), now=0.0, share=share)
    return made


def over_all(made: TenantLimits, tenant: bytes, places: int) -> int:
    """What all places together get."""
    return sum(made.most(tenant.hex(), place, places) for place in range(places))


def sent(tenant: bytes) -> Dispatched:
    return Dispatched(os.urandom(16), 1, Status.DISPATCHED, 1, 1, tenant, None, None, 0)


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
    assert limits().most(A.hex(), 0, 2) == NO_LIMIT
    assert limits(TenantLimit(A, 3, None, None), outstanding={A: 9}).most(A.hex(), 0, 1) == NO_LIMIT
    assert limits(TenantLimit(A, 3, None, None)).weight(A.hex()) == 3
    assert limits().weight(A.hex()) == 1
    assert NO_LIMIT < 0


def test_a_limit_that_was_taken_away_is_gone() -> None:
    made = limits(TenantLimit(A, 3, 5, None))
    made.know([TenantLimit(A, 1, None, None)])
    assert (made.most(A.hex(), 0, 1), made.weight(A.hex()), made.exact()) == (NO_LIMIT, 1, {})


@pytest.mark.parametrize(("allowed", "outstanding"), [(5, 0), (5, 3), (40, 1), (3, 7)])
def test_shards_together_get_what_concurrency_leaves(allowed: int, outstanding: int) -> None:
    made = limits(TenantLimit(A, 1, allowed, None), outstanding={A: outstanding})
    assert over_all(made, A, 16) == max(0, allowed - outstanding)


def test_what_was_sent_is_counted_until_the_next_count() -> None:
    made = limits(TenantLimit(A, 1, 2, None))
    made.spend([sent(A), sent(B)])
    assert over_all(made, A, 2) == 1


def test_a_rate_fills_up_with_time_and_never_beyond_a_second() -> None:
    made = limits(TenantLimit(A, 1, None, 10))
    made.spend([sent(A)] * 10)
    assert over_all(made, A, 1) == 0
    assert made.over_rate() == {A.hex(): 10}
    made.count({}, {}, now=0.5, share=1.0)
    assert over_all(made, A, 1) == 5
    made.count({}, {}, now=60.0, share=1.0)
    assert over_all(made, A, 1) == 10
    assert made.over_rate() == {}


def test_half_the_shards_get_half_the_rate() -> None:
    assert over_all(limits(TenantLimit(A, 1, None, 10), share=0.5), A, 8) == 5


def test_an_hour_has_so_many_executions_and_retries_are_none() -> None:
    made = limits(TenantLimit(A, 1, None, None, 10), of_hour={A: 7})
    made.spend([sent(A), sent(A)._replace(first=False)])
    assert over_all(made, A, 16) == 2
    made.held = frozenset({A.hex()})
    made.count({}, {A: 10}, now=0.1, share=1.0)
    assert made.most(A.hex(), 0, 1) == NO_LIMIT, "what is held leaves the hot tier, refused"


def test_thousands_of_tenants_that_have_nothing_due_cost_nothing() -> None:
    """Knowing them is once; a count and a tick touch those that are asked about."""
    many = [TenantLimit(os.urandom(16), 1, 200, 1000, 10_000) for _ in range(5000)]
    made = limits(*many)
    began = time.process_time()
    for n in range(100):
        made.count({}, {}, now=n / 10, share=1.0)
        for place in range(16):
            made.most(many[n].tenant_id.hex(), place, 16)
    assert time.process_time() - began < 5


def test_a_limited_tenant_stays_in_the_hot_tier_and_another_goes(tier: HotTier) -> None:
    fill(tier, A, 400)
    fill(tier, B, 100)
    allowed = limits(TenantLimit(A, 1, 7, None))
    tier.pop(HELD, allowed, lead_ms=0, tick=0, limit=1000)  # learns who is due
    tier.pop(HELD, allowed, lead_ms=0, tick=1, limit=1000)
    assert waiting(tier, A) == 393
    assert waiting(tier, B) == 0


def test_turns_go_by_weight(tier: HotTier) -> None:
    fill(tier, A, 800)
    fill(tier, B, 800)
    allowed = limits(TenantLimit(A, 3, None, None))
    tier.pop(HELD, allowed, lead_ms=0, tick=0, limit=320)
    tier.pop(HELD, allowed, lead_ms=0, tick=1, limit=320)
    gone = {tenant: 800 - waiting(tier, tenant) for tenant in (A, B)}
    assert gone[A] == pytest.approx(3 * gone[B], rel=0.1)


# ---- small limits hold exactly -----------------------------------------------------------------------------------


def test_limits_below_sixteen_are_exact() -> None:
    made = limits(TenantLimit(A, 1, 3, None), TenantLimit(B, 1, 16, None))
    assert made.exact() == {A.hex(): 3}


def test_a_tenant_with_an_exact_limit_has_pools_of_its_own() -> None:
    credit = Credit(1, [9] * 3, [0] * 3, {"redis": "x"})
    pools = Pools([credit], {}, exact={A.hex(): 3})
    mine, plain = pools.pool_of(A.hex(), 0), pools.pool_of(B.hex(), 0)
    assert mine is not None
    assert plain is not None
    assert mine != plain
    assert (pools.tenants[mine], pools.tenants[plain]) == (A.hex(), None)
    assert pools.members[mine] == pools.members[plain]


def test_two_dispatchers_at_once_never_exceed_a_small_limit(ledger: Ledger) -> None:
    """Each has popped its part and believes that there is room."""
    tenant, most = ledger.tenant.hex(), 3
    identities = ledger.add(40)
    parts = [identities[n::4] for n in range(4)]
    start = threading.Barrier(4)
    sent: list[bytes] = []

    def race(part: list[bytes]) -> None:
        with postgres.connect("racer", url=ledger.url) as connection:

            def put(going: dict[bytes, int]) -> list[Dispatched]:
                return store.dispatch(
                    connection, sorted(going), [1] * len(going), window_ms=250, held=dict.fromkeys(range(16), EPOCH)
                )

            start.wait()
            rows = exact_limits.dispatch(connection, {tenant: dict.fromkeys(part, 1)}, {tenant: most}, put)
            sent.extend(row.id for row in rows)

    threads = [threading.Thread(target=race, args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == most
    assert len(ledger.outstanding()) == most


def test_what_has_ended_makes_room(ledger: Ledger) -> None:
    running = ledger.add(2, status=Status.RUNNING)
    waiting = ledger.add(2)

    def put(going: dict[bytes, int]) -> list[Dispatched]:
        return store.dispatch(
            ledger.connection, sorted(going), [1] * len(going), window_ms=250, held=dict.fromkeys(range(16), EPOCH)
        )

    def dispatch() -> list[bytes]:
        chosen = {ledger.tenant.hex(): dict.fromkeys(waiting, 1)}
        return [row.id for row in exact_limits.dispatch(ledger.connection, chosen, {ledger.tenant.hex(): 2}, put)]

    assert dispatch() == []
    store.release(ledger.connection, running[:1], [EPOCH << 32], worker_id=1)
    assert dispatch() == waiting[:1], "the oldest first"
