"""The hot tier: in order, within credits, classes first and tenants in turn, fenced, and never a loss in flight."""

import secrets
import time
from collections import Counter
from collections.abc import Iterable

import pytest
import redis

from apps.dispatcher import recovery
from apps.dispatcher.hot_tier import HotTier, Popped
from apps.dispatcher.tenant_limits import TenantLimits
from apps.executions import ids
from apps.executions.rows import Preloaded, TenantLimit
from apps.executions.states import Status
from chronoweb.runtime import redis_client as clients
from chronoweb.runtime.errors import LeadershipLost
from tests.stack import EPOCH, Ledger, all_shards
from tests.waiting import PATIENCE_SECONDS, eventually

TENANT = bytes.fromhex("01" * 16)
OTHER = bytes.fromhex("02" * 16)


def entry(due_in_ms: float = 0, *, tenant: bytes = TENANT, class_index: int = 1, shard: int | None = None) -> Preloaded:
    identity = ids.new_id(1_790_000_000_000)
    if shard is not None:
        identity = identity[:15] + bytes([shard])
    return Preloaded(identity, due_in_ms, class_index, tenant)


class Popper:
    """A dispatcher's side, tick after tick."""

    def __init__(self, hot_tier: HotTier, *, epoch: int = EPOCH, limits: TenantLimits | None = None) -> None:
        self.hot_tier = hot_tier
        self.held = all_shards(epoch)
        self.limits = limits or TenantLimits()
        self.tick = 0

    def pop(self, limit: int = 1000, *, lead_ms: int = 0, shards: Iterable[int] | None = None) -> Popped:
        self.tick += 1
        held = self.held if shards is None else {shard: self.held[shard] for shard in shards}
        return self.hot_tier.pop(held, self.limits, lead_ms=lead_ms, tick=self.tick, limit=limit)

    def ids(self, limit: int = 1000, *, lead_ms: int = 0) -> list[bytes]:
        """What a tick takes, shard by shard. Tenants that it does not know yet it only names, for the next one."""
        return [i for group in self.pop(limit, lead_ms=lead_ms).by_shard.values() for i in group]


@pytest.fixture
def popper(hot_tier: HotTier) -> Popper:
    return Popper(hot_tier)


def acquainted(popper: Popper) -> Popper:
    """Its next tick knows the keys of whatever is due: a tick under no credit names them."""
    flying_before = sum(len(popper.hot_tier.in_flight(shard)) for shard in range(ids.SHARDS))
    found = popper.pop()
    assert not found.by_shard, "the first tick knows no tenant"
    assert sum(len(popper.hot_tier.in_flight(shard)) for shard in range(ids.SHARDS)) == flying_before
    return popper


# ---- what is kept -------------------------------------------------------------------------------------------------


def test_a_member_is_the_sixteen_bytes_of_the_id(hot_tier: HotTier, redis_client: redis.Redis) -> None:
    one = entry()
    hot_tier.add([one])
    key = hot_tier.entries_key(ids.shard(one.id), 1, TENANT.hex())
    assert redis_client.zrange(key, 0, -1) == [one.id]
    assert len(one.id) == 16


def test_the_score_is_the_due_time_by_rediss_clock(hot_tier: HotTier, redis_client: redis.Redis) -> None:
    one = entry(5_000)
    before = clients.now_ms(redis_client)
    hot_tier.add([one])
    after = clients.now_ms(redis_client)
    score = redis_client.zscore(hot_tier.entries_key(ids.shard(one.id), 1, TENANT.hex()), one.id)
    assert isinstance(score, float)
    assert before + 5_000 <= score <= after + 5_000


def test_all_keys_of_a_shard_share_a_hash_tag(hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str) -> None:
    hot_tier.add([entry(shard=7)])
    keys = [key.decode() for key in redis_client.scan_iter(match=f"{redis_prefix}*")]
    assert keys
    assert all(key.startswith(f"{redis_prefix}{{7}}:") for key in keys)


def test_adding_again_moves_an_entry_and_never_doubles_it(popper: Popper) -> None:
    one = entry(60_000)
    popper.hot_tier.add([one])
    popper.hot_tier.add([one._replace(due_in_ms=0.0)])
    assert popper.hot_tier.size() == 1
    assert acquainted(popper).ids() == [one.id]
    assert popper.ids() == []


def test_an_entry_that_was_moved_away_is_not_popped_early(popper: Popper) -> None:
    """The ring still has its old time; the pop corrects it."""
    one = entry(0)
    popper.hot_tier.add([one])
    popper.hot_tier.add([one._replace(due_in_ms=60_000)])
    acquainted(popper)
    assert popper.ids() == []
    wait = popper.pop().next_due_ms
    assert wait is not None
    assert 0 < wait <= 60_000


# ---- what is popped -----------------------------------------------------------------------------------------------


def test_what_is_due_is_popped_in_order(popper: Popper) -> None:
    entries = [entry(-n, shard=3) for n in range(50)]
    popper.hot_tier.add(entries)
    expected = [e.id for e in sorted(entries, key=lambda e: e.due_in_ms)]
    assert acquainted(popper).ids() == expected


def test_nothing_is_popped_before_its_time_less_the_lead(popper: Popper, redis_client: redis.Redis) -> None:
    entries = [entry(150 + 7 * n) for n in range(40)]
    start = clients.now_ms(redis_client)
    popper.hot_tier.add(entries)
    due = {e.id: start + e.due_in_ms for e in entries}
    seen: set[bytes] = set()
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(seen) < len(entries):
        assert time.monotonic() < deadline
        popped = popper.ids(lead_ms=100)
        now = clients.now_ms(redis_client)
        for identity in popped:
            assert due[identity] - 100 <= now, "popped early"
        seen |= set(popped)


def test_the_wait_is_told(popper: Popper) -> None:
    assert popper.pop().next_due_ms is None
    popper.hot_tier.add([entry(200_000), entry(100_000)])
    wait = popper.pop(lead_ms=40_000).next_due_ms
    assert wait is not None
    assert 0 < wait <= 60_000


@pytest.mark.parametrize("limit", [1, 5, 16, 40, 160])
def test_credits_are_respected(popper: Popper, limit: int) -> None:
    popper.hot_tier.add([entry() for _ in range(1000)])
    acquainted(popper)
    found = popper.ids(limit)
    assert 0 < len(found) <= -(-limit // ids.SHARDS) * min(limit, ids.SHARDS)
    if limit % ids.SHARDS == 0 or limit < ids.SHARDS:
        assert len(found) <= limit


def test_with_fewer_credits_than_shards_the_shards_take_turns(popper: Popper) -> None:
    popper.hot_tier.add([entry(shard=shard) for shard in range(ids.SHARDS)])
    acquainted(popper)
    found: list[bytes] = []
    for _ in range(2 * ids.SHARDS):
        found += popper.ids(1)
    assert {ids.shard(i) for i in found} == set(range(ids.SHARDS))


def test_only_the_shards_that_are_held_are_popped(popper: Popper) -> None:
    popper.hot_tier.add([entry(shard=shard) for shard in range(ids.SHARDS)])
    popper.pop()
    popped = popper.pop(shards=[2, 5])
    assert set(popped.by_shard) == {2, 5}
    assert popper.hot_tier.size() == ids.SHARDS - 2


def test_critical_work_comes_before_a_backlog_of_the_others(popper: Popper) -> None:
    popper.hot_tier.add([entry(-10_000, class_index=c, shard=0) for c in (2, 1) for _ in range(200)])
    urgent = [entry(-1, class_index=0, shard=0) for _ in range(5)]
    popper.hot_tier.add(urgent)
    acquainted(popper)
    popped = popper.pop(20, shards=[0]).by_shard[0]
    assert set(popped[:5]) == {e.id for e in urgent}
    assert len(popped) == 20


def test_tenants_take_turns_however_long_a_backlog_one_has(popper: Popper) -> None:
    popper.hot_tier.add([entry(-60_000, shard=0) for _ in range(5000)])
    few = [entry(-1, tenant=OTHER, shard=0) for _ in range(10)]
    popper.hot_tier.add(few)
    acquainted(popper)
    popped = popper.pop(40, shards=[0]).by_shard[0]
    assert {e.id for e in few} <= set(popped)
    assert len(popped) == 40, "what the small one leaves goes to the large one"


def test_many_tenants_get_the_same(popper: Popper) -> None:
    tenants = [secrets.token_bytes(16) for _ in range(20)]
    owner: dict[bytes, bytes] = {}
    for tenant in tenants:
        entries = [entry(-5, tenant=tenant, shard=0) for _ in range(50)]
        popper.hot_tier.add(entries)
        owner |= {e.id: tenant for e in entries}
    acquainted(popper)
    counts = Counter(owner[i] for i in popper.pop(200, shards=[0]).by_shard[0])
    assert set(counts) == set(tenants)
    assert set(counts.values()) == {10}


def test_weights_and_concurrency_limits_bound_a_tenant(hot_tier: HotTier) -> None:
    limits = TenantLimits()
    limits.know([TenantLimit(TENANT, 3, None, None), TenantLimit(OTHER, 1, 7, None)])
    limits.count({OTHER: 2}, {}, now=time.monotonic(), share=1.0)
    popper = Popper(hot_tier, limits=limits)
    owner: dict[bytes, bytes] = {}
    for tenant in (TENANT, OTHER, bytes(16)):
        entries = [entry(-5, tenant=tenant, shard=0) for _ in range(400)]
        hot_tier.add(entries)
        owner |= {e.id: tenant for e in entries}
    acquainted(popper)
    counts = Counter(owner[i] for i in popper.pop(200, shards=[0]).by_shard[0])
    assert counts[OTHER] == 5, "seven at once, two of them outstanding"
    assert counts.total() == 200
    assert 2.5 <= counts[TENANT] / counts[bytes(16)] <= 3.5


# ---- fences and flight --------------------------------------------------------------------------------------------


def test_a_stale_epoch_is_refused_and_touches_nothing(hot_tier: HotTier) -> None:
    one = entry(shard=4)
    hot_tier.add([one])
    current, stale = Popper(hot_tier, epoch=EPOCH + 1), Popper(hot_tier, epoch=EPOCH)
    current.pop()
    with pytest.raises(LeadershipLost):
        stale.pop()
    assert hot_tier.size() == 1
    assert hot_tier.in_flight(4) == {}
    assert current.ids() == [one.id]


def test_taking_over_fences_the_old_owner_before_it_pops_again(hot_tier: HotTier) -> None:
    old = Popper(hot_tier)
    old.pop()
    hot_tier.take_over(9, EPOCH + 1)
    with pytest.raises(LeadershipLost):
        old.pop(shards=[9])
    old.pop(shards=[8])


def test_two_that_pop_one_shard_never_get_the_same(
    hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str
) -> None:
    entries = [entry() for _ in range(500)]
    hot_tier.add(entries)
    one, other = acquainted(Popper(hot_tier)), acquainted(Popper(HotTier(redis_client, redis_prefix)))
    found: list[bytes] = []
    for _ in range(100):
        found += one.ids(32) + other.ids(32)
    assert sorted(found) == sorted(e.id for e in entries)


def test_what_is_popped_is_in_flight_until_it_has_landed(popper: Popper) -> None:
    one = entry(shard=2)
    popper.hot_tier.add([one])
    acquainted(popper).ids()
    assert list(popper.hot_tier.in_flight(2).values()) == [[one.id]]
    popper.hot_tier.landed([(2, EPOCH, popper.tick)])
    assert popper.hot_tier.in_flight(2) == {}


def test_missing_is_what_neither_waits_nor_flies(popper: Popper) -> None:
    waiting, flying, lost = entry(60_000), entry(), entry()
    popper.hot_tier.add([waiting, flying])
    assert acquainted(popper).ids() == [flying.id]
    assert popper.hot_tier.missing([waiting, flying, lost]) == [lost.id]


def test_an_emptied_or_replaced_server_is_noticed_shard_by_shard(hot_tier: HotTier, redis_client: redis.Redis) -> None:
    assert hot_tier.incomplete() == list(range(ids.SHARDS))
    hot_tier.mark(range(ids.SHARDS))
    assert hot_tier.incomplete() == []
    redis_client.delete(hot_tier.key(3, "runid"))
    redis_client.set(hot_tier.key(5, "runid"), "of-another-server")
    assert hot_tier.incomplete() == [3, 5]


def test_a_wait_ends_with_an_addition(hot_tier: HotTier, redis_client: redis.Redis, redis_prefix: str) -> None:
    hot_tier.wait(0.01)
    other = HotTier(redis_client, redis_prefix)
    other.add([entry()])
    began = time.monotonic()
    hot_tier.wait(2 * PATIENCE_SECONDS)
    assert time.monotonic() - began < PATIENCE_SECONDS
    began = time.monotonic()
    hot_tier.wait(0.2)
    assert 0.15 < time.monotonic() - began < PATIENCE_SECONDS
    hot_tier.close()


# ---- taking a shard over ------------------------------------------------------------------------------------------


def test_what_was_in_flight_is_settled_by_what_the_ledger_says(ledger: Ledger, popper: Popper) -> None:
    """PRELOADED is requeued; DISPATCHED, maybe never published, is taken back uncounted; RUNNING has arrived."""
    rows = {
        status: ledger.add(4, status=status)
        for status in (Status.PRELOADED, Status.DISPATCHED, Status.RUNNING, Status.COMPLETED)
    }
    everything = [i for group in rows.values() for i in group]
    popper.hot_tier.add([Preloaded(i, 0.0, 1, ledger.tenant) for i in everything])
    assert sorted(acquainted(popper).ids()) == sorted(everything)
    before = {i: ledger.row(i) for i in rows[Status.RUNNING] + rows[Status.COMPLETED]}
    assert recovery.recover(ledger.connection, popper.hot_tier, all_shards(EPOCH + 1)) == 8
    assert all(popper.hot_tier.in_flight(shard) == {} for shard in range(ids.SHARDS))
    assert set(ledger.statuses(rows[Status.PRELOADED] + rows[Status.DISPATCHED])) == {Status.PRELOADED}
    for identity in rows[Status.DISPATCHED]:
        row = ledger.row(identity)
        assert row["token"] == (EPOCH << 32) + 1
        assert row["attempt"] == 0
        assert row["wake_at"] is not None, "the preloader adds it again"
    assert {i: ledger.row(i) for i in before} == before
    heir = Popper(popper.hot_tier, epoch=EPOCH + 1)
    heir.pop()
    assert sorted(heir.ids()) == rows[Status.PRELOADED]
    assert recovery.recover(ledger.connection, popper.hot_tier, all_shards(EPOCH + 2)) == 4, (
        "again, and nothing is lost"
    )


def test_recovery_takes_only_the_shards_that_were_gained(ledger: Ledger, popper: Popper) -> None:
    identities = ledger.add(64)
    popper.hot_tier.add([Preloaded(i, 0.0, 1, ledger.tenant) for i in identities])
    acquainted(popper).ids()
    mine = dict.fromkeys(range(0, ids.SHARDS, 2), EPOCH + 1)
    moved = recovery.recover(ledger.connection, popper.hot_tier, mine)
    assert moved == sum(ids.shard(i) in mine for i in identities)
    flying = {i for shard in range(ids.SHARDS) for g in popper.hot_tier.in_flight(shard).values() for i in g}
    assert flying == {i for i in identities if ids.shard(i) not in mine}


def test_a_pop_survives_a_script_cache_that_was_emptied(popper: Popper, redis_client: redis.Redis) -> None:
    """As after a failover to a replica that has never seen the script."""
    one = entry()
    popper.hot_tier.add([one])
    acquainted(popper)
    redis_client.script_flush()
    eventually(lambda: one.id in popper.ids())
