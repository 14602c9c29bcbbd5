"""Scheduling quotas: counted where they are used, judged at once, told once a window, and the work waits meanwhile."""

import time
from typing import Any
from uuid import UUID

import pytest

from apps.dispatcher.tenancy import Tenancy
from apps.executions import ids, store, usage
from apps.executions.quotas import UNITS, Use
from apps.executions.rows import Dispatched
from apps.executions.states import Hold, Status
from tests.stack import EPOCH, Ledger, all_shards


def limit(ledger: Ledger, **limits: int | None) -> None:
    for name, value in limits.items():
        query = f"UPDATE tenants SET {name} = %s WHERE id = %s::uuid"
        ledger.connection.execute(query, (value, ledger.tenant.hex()))


def use(ledger: Ledger, what: Use, amount: int) -> None:
    usage.add(ledger.connection, {(ledger.tenant, int(what)): amount})


def held(ledger: Ledger) -> list[Hold]:
    return [hold for target, hold in store.wide_holds(ledger.connection) if target == ledger.tenant]


def told(ledger: Ledger) -> list[dict[str, Any]]:
    query = "SELECT detail FROM audit_log WHERE tenant_id = %s::uuid AND action = 'quota.reached' ORDER BY id"
    return [row["detail"] for row in ledger.select(query, ledger.tenant.hex())]


def quotas(ledger: Ledger) -> dict[Use, usage.Quota]:
    return {quota.use: quota for quota in usage.quotas_of(ledger.connection, [UUID(bytes=ledger.tenant)])}


@pytest.mark.parametrize(
    ("what", "most"), [(Use.EXECUTIONS, 10_000), (Use.COMPUTE, 50_000), (Use.LOGS, 100)], ids=lambda value: str(value)
)
def test_a_quota_holds_when_it_is_used_up_and_not_before(ledger: Ledger, what: Use, most: int) -> None:
    limit(ledger, **{what.quota: most})
    use(ledger, what, most * UNITS[what] - 1)
    assert held(ledger) == []
    use(ledger, what, 1)
    assert held(ledger) == [Hold.QUOTA]
    quota = quotas(ledger)[what]
    assert (quota.use.shown(quota.used), quota.use.shown(quota.most or 0)) == (most, most)
    assert quota.told_at is not None
    assert [(entry["quota"], entry["limit"]) for entry in told(ledger)] == [(what.quota, most)]


def test_owners_are_told_once_a_window(ledger: Ledger) -> None:
    limit(ledger, executions_per_hour=10)
    use(ledger, Use.EXECUTIONS, 10)
    use(ledger, Use.EXECUTIONS, 5)
    limit(ledger, executions_per_hour=20)
    assert usage.clear(ledger.connection) == [UUID(bytes=ledger.tenant)]
    use(ledger, Use.EXECUTIONS, 5)
    assert held(ledger) == [Hold.QUOTA]
    assert len(told(ledger)) == 1


def test_it_goes_on_when_the_window_moves(ledger: Ledger) -> None:
    limit(ledger, executions_per_hour=10)
    use(ledger, Use.EXECUTIONS, 10)
    assert usage.clear(ledger.connection) == []
    ledger.connection.execute(
        "UPDATE tenant_usage SET window_start = window_start - interval '1 hour' WHERE tenant_id = %s::uuid",
        (ledger.tenant.hex(),),
    )
    assert usage.clear(ledger.connection) == [UUID(bytes=ledger.tenant)]
    assert held(ledger) == []


def test_logs_count_until_their_day_is_dropped(ledger: Ledger) -> None:
    today = ids.day(ids.new_id(ledger.now_us() // 1000))
    limit(ledger, log_storage_gb=1)
    usage.add_logs(ledger.connection, today - 5, {ledger.tenant: 700_000_000})
    usage.add_logs(ledger.connection, today, {ledger.tenant: 400_000_000})
    assert held(ledger) == [Hold.QUOTA]
    usage.drop_logs(ledger.connection, today - 4)
    assert quotas(ledger)[Use.LOGS].used == 400_000_000
    assert usage.clear(ledger.connection) == [UUID(bytes=ledger.tenant)]


def test_what_waits_for_a_quota_is_neither_refused_nor_lost(own_ledger: Ledger) -> None:
    own_ledger.lead()
    epoch = own_ledger.lead("preloader")
    popped, waiting = own_ledger.add(), own_ledger.add(status=Status.SCHEDULED)
    running = own_ledger.add(status=Status.DISPATCHED)
    limit(own_ledger, executions_per_hour=10)
    use(own_ledger, Use.EXECUTIONS, 10)
    assert own_ledger.dispatch(popped) == dict.fromkeys(popped, Status.SCHEDULED)
    row = own_ledger.row(popped[0])
    assert (row["hold"], row["wake_at"]) == (Hold.QUOTA, row["run_at"])
    day = ids.day(popped[0])
    assert store.waiting_queues(own_ledger.connection, day=day, limit=10) == [], "its queues are left where they are"
    claimed = store.claim(own_ledger.connection, running, [own_ledger.token(running[0])], worker_id=1)
    assert [one.id for one in claimed] == running, "what was sent has been counted"
    limit(own_ledger, executions_per_hour=11)
    assert usage.clear(own_ledger.connection)
    assert len(store.waiting_queues(own_ledger.connection, day=day, limit=10)) == 1
    hydrated = own_ledger.hydrate(day, epoch=epoch)
    assert sorted(entry.id for entry in hydrated) == sorted(popped + waiting)
    assert own_ledger.row(popped[0])["hold"] == Hold.NONE


def test_a_paused_task_stays_paused_behind_a_quota(ledger: Ledger) -> None:
    [identity] = ledger.add()
    ledger.hold(ledger.task, Hold.PAUSED)
    ledger.hold(ledger.tenant, Hold.QUOTA)
    ledger.dispatch([identity])
    assert ledger.row(identity)["hold"] == Hold.QUOTA
    ledger.release_hold(ledger.tenant, Hold.QUOTA)
    assert [entry.id for entry in ledger.hydrate(ids.day(identity), epoch=ledger.lead("preloader"))] == [identity]
    ledger.dispatch([identity])
    assert ledger.row(identity)["hold"] == Hold.PAUSED


# ---- as a dispatcher sees it ----------------------------------------------------------------------------------------


def sent(tenant: bytes, *, first: bool = True) -> Dispatched:
    return Dispatched(ids.new_id(0), 1, Status.DISPATCHED, 1, 1, tenant, None, None, 0, first=first)


def look(tenancy: Tenancy, ledger: Ledger, now: float) -> None:
    tenancy.look(ledger.connection, share=1.0, first=True, now=now)


def test_a_dispatcher_sends_as_many_as_the_hour_has_and_no_more(own_ledger: Ledger) -> None:
    limit(own_ledger, executions_per_hour=5)
    tenancy, tenant = Tenancy(), own_ledger.tenant
    look(tenancy, own_ledger, 0.0)
    assert tenancy.limits.most(tenant.hex(), 0, 1) == 5
    tenancy.spend([sent(tenant), sent(tenant), sent(tenant, first=False)])
    assert tenancy.limits.most(tenant.hex(), 0, 1) == 3
    look(tenancy, own_ledger, 0.1)
    assert quotas(own_ledger)[Use.EXECUTIONS].used == 2
    other = Tenancy()
    look(other, own_ledger, 0.0)
    assert other.limits.most(tenant.hex(), 0, 1) == 3, "one that has just begun knows what was used"
    tenancy.spend([sent(tenant)] * 3)
    assert tenancy.limits.most(tenant.hex(), 0, 1) == 0
    look(tenancy, own_ledger, 0.2)
    assert held(own_ledger) == [Hold.QUOTA]
    limit(own_ledger, executions_per_hour=7)
    look(tenancy, own_ledger, 0.3)
    assert held(own_ledger) == []
    look(tenancy, own_ledger, 0.4)
    assert tenancy.limits.most(tenant.hex(), 0, 1) == 2


def test_an_execution_counts_when_it_is_dispatched_first_and_never_again(own_ledger: Ledger) -> None:
    """Not as a retry, and not when a lost worker held it, whether it had begun or not."""
    own_ledger.lead()
    limit(own_ledger, executions_per_hour=100)
    [begun] = own_ledger.add()
    [unclaimed] = own_ledger.add()
    tenancy = Tenancy()
    look(tenancy, own_ledger, 0.0)

    def dispatch(*wanted: bytes) -> None:
        answered = store.dispatch(
            own_ledger.connection, sorted(wanted), [1] * len(wanted), window_ms=250, held=all_shards(EPOCH)
        )
        assert {row.status for row in answered} == {Status.DISPATCHED}
        tenancy.spend(answered)

    dispatch(begun, unclaimed)
    for _ in range(2):
        store.claim(own_ledger.connection, [begun], [own_ledger.token(begun)], worker_id=1)
        held = [(identity, own_ledger.token(identity)) for identity in (begun, unclaimed)]
        assert len(store.reclaim(own_ledger.connection, held, reason="lost", actor="watchdog")) == 2
        dispatch(begun, unclaimed)
    [retry] = own_ledger.add(attempt=1)
    query = "UPDATE executions SET token = %s, dispatched_at = now() WHERE id = encode(%s, 'hex')::uuid"
    own_ledger.connection.execute(query, (EPOCH << 32, retry))
    dispatch(retry)
    assert tenancy.limits.most(own_ledger.tenant.hex(), 0, 1) == 98
    look(tenancy, own_ledger, 0.1)
    assert quotas(own_ledger)[Use.EXECUTIONS].used == 2


def test_a_quota_that_is_lowered_below_what_was_used_holds_at_the_next_look(own_ledger: Ledger) -> None:
    limit(own_ledger, compute_minutes_per_month=100)
    use(own_ledger, Use.COMPUTE, 60 * UNITS[Use.COMPUTE])
    tenancy = Tenancy()
    look(tenancy, own_ledger, 0.0)
    assert held(own_ledger) == []
    limit(own_ledger, compute_minutes_per_month=60)
    look(tenancy, own_ledger, 0.1)
    assert held(own_ledger) == [Hold.QUOTA]


def test_a_changed_limit_is_read_at_the_next_look(own_ledger: Ledger) -> None:
    tenancy, tenant = Tenancy(), own_ledger.tenant.hex()
    look(tenancy, own_ledger, 0.0)
    for n, wanted in enumerate((40, 20)):
        limit(own_ledger, max_concurrent_workers=wanted)
        look(tenancy, own_ledger, 0.1 * n + 0.1)
        assert tenancy.limits.most(tenant, 0, 1) == wanted
    limit(own_ledger, max_concurrent_workers=None)
    look(tenancy, own_ledger, 0.3)
    assert tenancy.limits.most(tenant, 0, 1) == -1


def best_look_ms(tenancy: Tenancy, ledger: Ledger) -> float:
    """Once everything has been read; the quickest of many, which no other process held up."""
    tenancy.forget()
    look(tenancy, ledger, 0.0)
    took = []
    for n in range(50):
        began = time.perf_counter()
        look(tenancy, ledger, 0.1 + n / 10)
        took.append((time.perf_counter() - began) * 1000)
    return min(took)


def test_thousands_of_idle_tenants_cost_a_look_nothing(own_ledger: Ledger) -> None:
    tenancy = Tenancy()
    alone_ms = best_look_ms(tenancy, own_ledger)
    columns = "slug, name, tier, home_region, weight, max_concurrent_workers, rate_limit_rps, executions_per_hour"
    own_ledger.connection.execute("ALTER TABLE tenants DISABLE TRIGGER tenants_note_change")
    own_ledger.connection.execute(
        f"INSERT INTO tenants (id, created_at, changed_at, {columns})"
        " SELECT gen_random_uuid(), now(), now() - interval '1 hour', 'many-' || n, 'x', 'STANDARD', 'default', 1, 200,"
        " 1000, 10000 FROM generate_series(1, 5000) n"
    )
    many_ms = best_look_ms(tenancy, own_ledger)
    print(f"a look: {alone_ms:.2f} ms with one tenant, {many_ms:.2f} ms with 5,000 more that are idle")
    assert many_ms < (alone_ms + 2) * 4


def test_freezing_everything_is_seen_at_the_next_look(own_ledger: Ledger) -> None:
    tenancy = Tenancy()
    for frozen, now in ((True, 0.0), (False, 0.1)):
        (own_ledger.hold if frozen else own_ledger.release_hold)(bytes(16), Hold.FROZEN)
        look(tenancy, own_ledger, now)
        assert tenancy.frozen is frozen


def test_windows_long_closed_are_forgotten(ledger: Ledger) -> None:
    use(ledger, Use.EXECUTIONS, 1)
    ledger.connection.execute("UPDATE tenant_usage SET window_start = window_start - interval '3 days'")
    assert usage.forget(ledger.connection) >= 1
