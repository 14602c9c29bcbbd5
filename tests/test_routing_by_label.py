"""Labels: what a task may require and a worker carry, who gets what, and what becomes of work that nobody may run."""

from typing import Any
from uuid import UUID

import pytest

from apps.dispatcher.assigning import Assigner
from apps.dispatcher.credits import Credit, Credits
from apps.dispatcher.hot_tier import HotTier
from apps.dispatcher.pools import ASIDE, Pools
from apps.dispatcher.tenant_limits import TenantLimits
from apps.dispatcher.unroutable import Unroutable
from apps.executions import ids, labels, store
from apps.executions.rows import Preloaded, Queue
from apps.executions.states import Hold, Status
from apps.worker.live_state import LiveState
from chronoweb.runtime.errors import ConfigurationError, InvalidInputs
from tests.stack import Ledger, all_shards

ACME, OTHER = "aa" * 16, "bb" * 16
GPU, EU = 7, 8
ROUTES = {GPU: frozenset({"gpu"}), EU: frozenset({"gpu", "region=eu"})}


# ---- words --------------------------------------------------------------------------------------------------------


def test_a_task_requires_labels() -> None:
    assert labels.read_requires(["region=eu", "gpu", "gpu"]) == ["gpu", "region=eu"]
    assert labels.read_requires([]) == []


@pytest.mark.parametrize("given", ["GPU", "", "a b", "=x", "x=", 7, None, "tenant=acme", "tenant", "x" * 70])
def test_what_is_no_label_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInputs) as refused:
        labels.read_requires(["gpu", given])
    assert [error.pointer for error in refused.value.errors] == ["/1"]


def test_a_container_task_requires_an_engine_by_itself() -> None:
    assert labels.required_by({"handler": {"type": "container"}, "requires": ["gpu"]}) == ["container", "gpu"]
    assert labels.required_by({"handler": {"type": "python"}}) == [], "a version from before there were labels"


def test_a_worker_that_names_no_resource_type_is_for_general_use() -> None:
    assert labels.read_worker_labels([]) == (("cpu", "io"), None)
    assert labels.read_worker_labels(["region=eu"]) == (("cpu", "io", "region=eu"), None)
    assert labels.read_worker_labels(["gpu", "tenant=acme"]) == (("gpu",), "acme")


@pytest.mark.parametrize("given", [["GPU"], ["container"], ["tenant"], ["tenant=a", "tenant=b"]])
def test_a_worker_with_a_wrong_label_does_not_start(given: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        labels.read_worker_labels(given)


# ---- who may run what ---------------------------------------------------------------------------------------------


def credit(worker: int, *carries: str, tenant: str | None = None, left: int = 100, free: int = 0) -> Credit:
    carried = frozenset({"cpu", "io", *carries})
    return Credit(worker, [left] * 3, [free] * 3, {"redis": "x"}, carried, tenant, labels.is_special(carried))


def able(pools: Pools, tenant: str, route: int = 0) -> set[int]:
    pool = pools.pool_of(tenant, route)
    return set() if pool is None else {one.worker_id for one in pools.members[pool]}


def test_only_workers_with_every_label_may_run_it() -> None:
    pools = Pools([credit(1), credit(2, "gpu"), credit(3, "gpu", "region=eu")], ROUTES)
    assert able(pools, ACME) == {1, 2, 3}
    assert able(pools, ACME, GPU) == {2, 3}
    assert able(pools, ACME, EU) == {3}
    assert pools.rooms()[pools.pool_of(ACME, GPU) or 0] == [200] * 3
    assert pools.totals() == [300] * 3


def test_a_tenants_own_workers_run_nothing_else_and_its_work_goes_nowhere_else() -> None:
    pools = Pools([credit(1), credit(2, "gpu"), credit(3, tenant=ACME)], ROUTES)
    assert able(pools, ACME) == {3}
    assert able(pools, OTHER) == {1, 2}
    assert able(pools, ACME, GPU) == {2}, "its own worker lacks the label"


def test_work_without_a_worker_waits_a_while_and_goes_aside_then() -> None:
    unroutable = Unroutable(3.0)
    for now, expected in ((10.0, None), (12.0, None), (13.1, ASIDE)):
        unroutable.begin(now)
        assert Pools([credit(1)], ROUTES, unroutable.goes_aside).pool_of(ACME, GPU) == expected
    unroutable.begin(14.0)
    assert Pools([credit(1), credit(2, "gpu")], ROUTES, unroutable.goes_aside).is_served(ACME, GPU)
    unroutable.begin(15.0)
    assert Pools([credit(1)], ROUTES, unroutable.goes_aside).pool_of(ACME, GPU) is None, "it counts from anew"


def test_work_that_needs_nothing_is_not_put_aside() -> None:
    unroutable = Unroutable(0.0)
    unroutable.begin(1.0)
    assert Pools([credit(1, tenant=OTHER)], ROUTES, unroutable.goes_aside).pool_of(ACME, 0) is None


# ---- who gets what ------------------------------------------------------------------------------------------------


def of_task(mark: int, count: int) -> list[bytes]:
    task = bytes(14) + mark.to_bytes(2, "big")
    return ids.new_ids([1_790_000_000_000] * count, of=task)


def counted(chosen: dict[bytes, int]) -> dict[int, int]:
    return {worker: list(chosen.values()).count(worker) for worker in set(chosen.values())}


def test_executions_of_a_task_share_a_mark() -> None:
    assert {ids.task_mark(i) for i in of_task(0x0ABC, 50)} == {0x0ABC}
    assert len(set(of_task(0x0ABC, 50))) == 50
    assert {UUID(bytes=i).version for i in of_task(1, 5)} == {7}


def test_in_proportion_to_what_workers_have_left() -> None:
    workers = [credit(1, left=90), credit(2, left=10)]
    assert counted(Assigner().assign(of_task(1, 50), 1, workers)) == {1: 45, 2: 5}
    assert [one.left[1] for one in workers] == [45, 5]
    assert [one.left[0] for one in workers] == [90, 10], "each class by itself"


def test_rare_workers_get_what_the_others_have_no_room_for() -> None:
    workers = [credit(1, left=10), credit(2, "gpu", left=100)]
    assert counted(Assigner().assign(of_task(1, 8), 1, workers)) == {1: 8}
    assert counted(Assigner().assign(of_task(1, 8), 1, workers)) == {1: 2, 2: 6}


def test_a_task_goes_where_it_ran_last_while_there_are_free_slots() -> None:
    assigner = Assigner()
    first = assigner.assign(of_task(5, 1), 1, [credit(1, left=1), credit(2, left=500, free=3)])
    assert counted(first) == {2: 1}
    again = [credit(1, left=5000, free=9), credit(2, left=50, free=3)]
    assert counted(assigner.assign(of_task(5, 3), 1, again)) == {2: 3}
    assert counted(assigner.assign(of_task(5, 1), 1, again)) == {1: 1}, "no free slot is left there"
    assert counted(assigner.assign(of_task(6, 2), 1, [credit(1, left=9, free=1)])) == {1: 2}


def test_more_than_all_have_left_goes_to_the_freest() -> None:
    assert len(Assigner().assign(of_task(1, 5), 1, [credit(1, left=2), credit(2, left=1)])) == 5


def test_each_class_has_credits_of_its_own() -> None:
    state = LiveState([0, 0, 0], [10, 12, 10], [10, 12, 10], [None, 0.001, 0.05], {"redis": "x"}, ["cpu", "io"])
    [found] = Credits(200).count({4: (1000.0, state)}, {(4, 2): 45})
    assert found.left == [200, 200, 5], "50 of 50 ms are a quarter second for ten slots"
    assert not found.special


# ---- the hot tier -------------------------------------------------------------------------------------------------


def fill(tier: HotTier, count: int, class_index: int, route: int = 0) -> None:
    entries = [
        Preloaded(i, -1000.0, class_index, bytes.fromhex(ACME), route) for i in ids.new_ids([1_790_000_000_000] * count)
    ]
    tier.add(entries)


def popped(tier: HotTier, pools: Pools, limit: int = 1000) -> dict[tuple[int, int], int]:
    tier.pop(all_shards(1), TenantLimits(), pools, lead_ms=0, tick=0, limit=limit)  # learns who is due
    found = tier.pop(all_shards(1), TenantLimits(), pools, lead_ms=0, tick=1, limit=limit)
    return {key: len(group) for key, group in found.by_pool.items()}


def test_a_backlog_of_bulk_takes_no_credit_of_critical_work(hot_tier: HotTier) -> None:
    fill(hot_tier, 3000, 2)
    fill(hot_tier, 500, 0)
    worker = credit(1)
    worker.left = [64, 0, 32]
    assert popped(hot_tier, Pools([worker])) == {(0, 1): 64, (2, 1): 32}


def test_what_nobody_may_run_stays_and_is_in_nobodys_way(hot_tier: HotTier) -> None:
    fill(hot_tier, 500, 1, GPU)
    fill(hot_tier, 600, 1)
    pools = Pools([credit(1, left=160)], ROUTES)
    assert popped(hot_tier, pools) == {(1, 1): 160}
    rare, plain = Queue(1, bytes.fromhex(ACME), GPU), Queue(1, bytes.fromhex(ACME))
    assert hot_tier.counts([rare, plain]) == {rare: 500, plain: 440}


def test_each_pool_gets_what_its_workers_have_room_for(hot_tier: HotTier) -> None:
    fill(hot_tier, 500, 1, GPU)
    fill(hot_tier, 500, 1)
    pools = Pools([credit(1, left=160), credit(2, "gpu", left=32)], ROUTES)
    found = popped(hot_tier, pools)
    gpu = pools.pool_of(ACME, GPU)
    assert gpu is not None
    assert 0 < found[1, gpu] <= 32
    assert sum(found.values()) == 192, "and not what two pools that share a worker have"


# ---- the ledger ---------------------------------------------------------------------------------------------------


def routed(ledger: Ledger, count: int, status: Status = Status.PRELOADED) -> tuple[int, list[bytes]]:
    row = ledger.connection.execute(
        "INSERT INTO routes (labels) VALUES (ARRAY['gpu']) ON CONFLICT (labels) DO UPDATE SET labels = excluded.labels"
        " RETURNING id"
    ).fetchone()
    assert row is not None
    identities = ledger.add(count, status=status)
    ledger.connection.execute(
        "UPDATE executions SET route_id = %s WHERE id = ANY(%s::uuid[])", (row[0], [UUID(bytes=i) for i in identities])
    )
    return row[0], identities


def test_put_aside_and_let_go(ledger: Ledger) -> None:
    ledger.lead("preloader")
    route, identities = routed(ledger, 5)
    assert {i for i, _ in store.put_aside(ledger.connection, identities, held=all_shards())} == set(identities)
    assert {(ledger.row(i)["status"], ledger.row(i)["hold"], ledger.row(i)["wake_at"]) for i in identities} == {
        (Status.SCHEDULED, Hold.NO_WORKER, None)
    }
    tenant = UUID(bytes=ledger.tenant)
    assert (route, tenant) in store.routes_waited_for(ledger.connection)
    assert ledger.hydrate(ids.day(identities[0])) == [], "nobody looks at it"
    cleared, woken = store.wake_route_waiters(ledger.connection, route=route, tenant_id=tenant, limit=3)
    assert cleared == len(woken) == 3
    assert {i for _, i in woken} == set(identities[:3]), "the oldest first"
    assert store.wake_route_waiters(ledger.connection, route=route, tenant_id=tenant, limit=10)[0] == 2
    rows = store.hydrate(
        ledger.connection,
        {Queue(1, ledger.tenant, route): 10},
        day=ids.day(identities[0]),
        lookahead_seconds=60,
        role="preloader",
        epoch=7,
    )
    assert {row.id for row in rows} == set(identities)
    assert {row.route_id for row in rows} == {route}


def test_a_stale_dispatcher_puts_nothing_aside(ledger: Ledger) -> None:
    _, identities = routed(ledger, 2)
    assert store.put_aside(ledger.connection, identities, held=all_shards(3)) == []
    assert set(ledger.statuses(identities)) == {Status.PRELOADED}


def test_what_was_cancelled_meanwhile_is_not_woken(ledger: Ledger) -> None:
    route, [identity] = routed(ledger, 1)
    store.put_aside(ledger.connection, [identity], held=all_shards())
    ledger.connection.execute("UPDATE executions SET status = 7, hold = 0 WHERE id = %s", (UUID(bytes=identity),))
    tenant = UUID(bytes=ledger.tenant)
    assert store.wake_route_waiters(ledger.connection, route=route, tenant_id=tenant, limit=10) == (1, [])
    assert ledger.status(identity) is Status.CANCELLED


def test_the_places_of_what_waits_no_more_are_cleared(ledger: Ledger) -> None:
    route, identities = routed(ledger, 3)
    store.put_aside(ledger.connection, identities, held=all_shards())
    gone = UUID(bytes=identities[1])
    ledger.connection.execute("UPDATE executions SET hold = 1 WHERE id = %s", (gone,))
    tenant = UUID(bytes=ledger.tenant)
    assert store.forget_gone_waiters(ledger.connection, route=route, tenant_id=tenant, limit=10) == 1
    assert store.wake_route_waiters(ledger.connection, route=route, tenant_id=tenant, limit=10)[0] == 2


def test_a_message_that_came_to_a_worker_without_the_label_is_not_its_to_run(ledger: Ledger) -> None:
    _, [special] = routed(ledger, 1, Status.DISPATCHED)
    [plain] = ledger.add(status=Status.DISPATCHED)
    both = sorted([special, plain])

    def unfit(*carries: str, tenant: str | None = None) -> set[bytes]:
        return {i for i, _ in store.unfit(ledger.connection, both, labels=carries, tenant=tenant)}

    assert unfit("cpu") == {special}
    assert unfit("cpu", "gpu") == set()
    assert unfit("gpu", tenant=ACME) == set(both)
    assert unfit("gpu", tenant=ledger.tenant.hex()) == set()
