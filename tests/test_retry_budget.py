"""The retry budget: a share of a tenant's executions of the last minute and a floor; above it, later and not never."""

from apps.dispatcher.retry_budget import RetryBudget
from apps.executions import ids
from apps.executions.rows import Dispatched, RetryRoom
from apps.executions.states import Hold, Status
from tests.stack import Ledger

ONE, TWO = b"1" * 16, b"2" * 16


def sent(tenant: bytes, count: int, *, again: bool) -> list[Dispatched]:
    return [Dispatched(bytes(16), 1, 2, 1, 1, tenant, None, None, 0, 0, again)] * count


def room_of(room: RetryRoom, tenant: bytes) -> int:
    return room.rooms[room.tenants.index(tenant)] if tenant in room.tenants else room.room


def test_a_fifth_of_the_executions_of_the_last_minute() -> None:
    budget = RetryBudget(percent=20, floor=10)
    budget.spend(sent(ONE, 1000, again=False), now=0)
    assert room_of(budget.room(now=1, share=1), ONE) == 200
    budget.spend(sent(ONE, 150, again=True), now=1)
    assert room_of(budget.room(now=2, share=1), ONE) == 50
    budget.spend(sent(ONE, 80, again=True), now=2)
    assert room_of(budget.room(now=3, share=1), ONE) == 0
    assert room_of(budget.room(now=3, share=1), TWO) == 10, "each tenant has its own"
    assert room_of(budget.room(now=60.5, share=1), ONE) == 0, "the executions are a minute ago, the retries are not"
    assert room_of(budget.room(now=63.5, share=1), ONE) == 10
    assert budget.room(now=200, share=1).tenants == []


def test_the_floor_is_split_by_shard() -> None:
    budget = RetryBudget(percent=20, floor=10)
    assert budget.room(now=0, share=0.5).room == 5
    assert budget.room(now=0, share=1 / 16).room == 1


def _retries(ledger: Ledger, count: int) -> list[bytes]:
    """As the preloader leaves what has failed once."""
    identities = ledger.add(count, attempt=1)
    ledger.connection.execute(
        "UPDATE executions SET dispatched_at = now(), attempt = 1 WHERE tenant_id = encode(%s, 'hex')::uuid",
        (ledger.tenant,),
    )
    return identities


def test_retries_above_the_budget_are_put_off_and_say_why(ledger: Ledger) -> None:
    retries = _retries(ledger, 10)
    fresh = ledger.add(5)
    before = ledger.now_us()
    answered = ledger.dispatch(retries + fresh, retries=RetryRoom([ledger.tenant], [4], [30], 0, 10))
    after = ledger.now_us()
    late = [i for i in retries if answered[i] is Status.SCHEDULED]
    assert len(late) == 6
    assert all(answered[i] is Status.DISPATCHED for i in fresh)
    row = ledger.row(late[0])
    assert row["hold"] == Hold.RETRY_BUDGET
    assert row["wake_at"] == row["run_at"]
    times = sorted(ledger.row(i)["run_at"].timestamp() for i in late)
    assert before / 1e6 + 1 < times[0] < after / 1e6 + 5, "two seconds each at thirty a minute"
    assert times[-1] - times[0] > 9
    # The hot tier takes them for their new time, and the next dispatch lifts the hold.
    epoch = ledger.lead("preloader")
    assert {i.id for i in ledger.hydrate(ids.day(late[0]), epoch=epoch)} == set(late)
    assert ledger.row(late[0])["hold"] == Hold.RETRY_BUDGET, "people see it meanwhile"
    assert set(ledger.dispatch(late, window_ms=60_000).values()) == {Status.DISPATCHED}
    assert ledger.row(late[0])["hold"] == Hold.NONE


def test_far_above_the_budget_nothing_waits_longer_than_a_minute(ledger: Ledger) -> None:
    retries = _retries(ledger, 300)
    ledger.dispatch(retries, retries=RetryRoom([], [], [], 1, 10))
    after = ledger.now_us() / 1e6
    rows = [ledger.row(i) for i in retries]
    waits = [r["run_at"].timestamp() - after for r in rows if r["hold"]]
    assert len(waits) == 299
    assert max(waits) < 62
    assert len({round(wait) for wait in waits}) > 20, "they are spread: together they would meet again"


def test_what_a_lost_worker_had_is_no_retry(ledger: Ledger) -> None:
    from apps.executions import store

    [identity] = ledger.add(status=Status.RUNNING, attempt=1)
    store.reclaim(ledger.connection, [(identity, ledger.token(identity))], reason="lost", actor="watchdog")
    answered = ledger.dispatch([identity], retries=RetryRoom([], [], [], 0, 10))
    assert answered == {identity: Status.DISPATCHED}
