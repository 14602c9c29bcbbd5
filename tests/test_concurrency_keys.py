"""At most so many at once for each concurrency key: queue, cancel the oldest, skip the newest; places and who waits."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest

from apps.dispatcher import waits
from apps.executions import ids, person_store, store
from apps.executions.states import Hold, Outcome, Overlap, Status
from chronoweb.runtime import postgres
from tests.stack import EPOCH, Ledger, all_shards
from tests.test_finish import end

TOKEN = EPOCH << 32


def key_of(ledger: Ledger) -> str:
    return f"key:{ledger.tenant.hex()}:customer-42"


def limit(ledger: Ledger, places: int, when_full: str = "queue") -> None:
    ledger.define(concurrency={"key": "customer-42", "limit": places, "when_full": when_full})


def add(ledger: Ledger, count: int = 1, **more: Any) -> list[bytes]:
    return ledger.add(count, concurrency_key=key_of(ledger), **more)


def holds(ledger: Ledger) -> list[bytes]:
    return sorted(ledger.places(key_of(ledger)).values())


def waiting(ledger: Ledger) -> list[bytes]:
    return ledger.waiters(key_of(ledger))


def complete(ledger: Ledger, identity: bytes, target: Status = Status.COMPLETED) -> None:
    outcome = Outcome.SUCCEEDED if target is Status.COMPLETED else Outcome.FAILED
    row = ledger.row(identity)
    done = end(ledger, identity, target, token=row["token"], attempt=row["attempt"], outcome=outcome, delay_us=0)
    assert store.finish(ledger.connection, [done], worker_id=1)


def wake(ledger: Ledger) -> list[bytes]:
    return store.wake_waiters(ledger.connection, [key_of(ledger)])


def again(ledger: Ledger, identity: bytes) -> Status:
    """Preload and dispatch it."""
    ledger.lead("preloader")
    ledger.hydrate(ids.day(identity))
    return ledger.dispatch([identity])[identity]


def settle(ledger: Ledger, identities: list[bytes]) -> None:
    """Dispatch as the dispatcher does, with what follows."""
    answered = store.dispatch(
        ledger.connection, sorted(identities), [1] * len(identities), window_ms=250, held=all_shards()
    )
    waits.settle(ledger.connection, answered)


# ---- dispatch -----------------------------------------------------------------------------------------------------


def test_as_many_go_as_there_are_places_and_the_rest_waits_in_order(ledger: Ledger) -> None:
    limit(ledger, 3)
    rows = add(ledger, 5)
    answered = ledger.dispatch(rows)
    assert [answered[i] for i in rows] == [Status.DISPATCHED] * 3 + [Status.SCHEDULED] * 2
    assert ledger.places(key_of(ledger)) == {1: rows[0], 2: rows[1], 3: rows[2]}
    assert waiting(ledger) == rows[3:]
    assert {ledger.row(i)["hold"] for i in rows[3:]} == {Hold.CONCURRENCY}
    assert {ledger.row(i)["wake_at"] for i in rows[3:]} == {None}


def test_a_free_place_between_taken_ones_is_found(ledger: Ledger) -> None:
    limit(ledger, 3)
    first, second, third = rows = add(ledger, 3)
    ledger.dispatch(rows)
    store.claim(ledger.connection, [second], [ledger.token(second)], worker_id=1)
    complete(ledger, second)
    late = add(ledger, 2)
    assert list(ledger.dispatch(late).values()).count(Status.DISPATCHED) == 1
    assert ledger.places(key_of(ledger)) == {1: first, 2: late[0], 3: third}


def test_other_keys_and_none_are_not_concerned(ledger: Ledger) -> None:
    limit(ledger, 1)
    first, second = add(ledger, 2)
    [other] = ledger.add(concurrency_key=key_of(ledger) + "0")
    [none] = ledger.add()
    answered = ledger.dispatch([first, second, other, none])
    assert answered[second] is Status.SCHEDULED
    assert {answered[i] for i in (first, other, none)} == {Status.DISPATCHED}


def test_skip_newest_skips_and_says_why(ledger: Ledger) -> None:
    limit(ledger, 2, "skip_newest")
    rows = add(ledger, 3)
    assert ledger.dispatch(rows)[rows[2]] is Status.SKIPPED
    assert ledger.events(rows[2])[0]["reason"] == "concurrency: 2 of 2 running for customer-42"
    assert waiting(ledger) == []


def test_what_had_a_place_before_is_not_skipped(ledger: Ledger) -> None:
    """A retry, what a worker gave back, a replay: the newest is what comes for the first time."""
    limit(ledger, 1, "skip_newest")
    [retrying] = add(ledger, status=Status.RETRYING)
    [running] = add(ledger, status=Status.RUNNING)
    assert again(ledger, retrying) is Status.SCHEDULED
    assert ledger.row(retrying)["hold"] == Hold.CONCURRENCY
    complete(ledger, running)
    assert wake(ledger) == [retrying]
    assert again(ledger, retrying) is Status.DISPATCHED


def test_cancel_oldest_keeps_the_latest(ledger: Ledger) -> None:
    limit(ledger, 2, "cancel_oldest")
    first, second = add(ledger, 2, status=Status.RUNNING)
    third, fourth, fifth = add(ledger, 3)
    settle(ledger, [third])
    assert waiting(ledger) == [third]
    assert ledger.row(first)["cancel_requested_at"] is not None
    assert ledger.row(second)["cancel_requested_at"] is None
    settle(ledger, [fourth, fifth])
    assert ledger.row(second)["cancel_requested_at"] is not None
    assert ledger.status(third) is Status.CANCELLED, "it waited, and later ones take all places"
    assert ledger.events(third)[0]["reason"] == "concurrency: a later execution takes its place"
    assert waiting(ledger) == [fourth, fifth]
    complete(ledger, first, Status.CANCELLED)
    complete(ledger, second, Status.CANCELLED)
    assert wake(ledger) == [fourth, fifth]
    assert again(ledger, fourth) is again(ledger, fifth) is Status.DISPATCHED


def test_cancel_oldest_of_rivals_in_one_batch_begins_the_latest_and_ends_the_rest(ledger: Ledger) -> None:
    limit(ledger, 2, "cancel_oldest")
    rows = add(ledger, 4)
    settle(ledger, rows)
    assert ledger.statuses(rows) == [Status.CANCELLED] * 2 + [Status.DISPATCHED] * 2
    assert {ledger.row(i)["cancel_requested_at"] for i in rows[2:]} == {None}
    assert waiting(ledger) == []


def test_a_newcomer_stands_behind_who_waits(ledger: Ledger) -> None:
    """A place has just become free, and the wake-up is on its way."""
    limit(ledger, 1)
    [running] = add(ledger, status=Status.RUNNING)
    first, second = add(ledger, 2)
    ledger.dispatch([first, second])
    complete(ledger, running)
    assert wake(ledger) == [first]
    [newcomer] = add(ledger)
    assert ledger.dispatch([newcomer]) == {newcomer: Status.SCHEDULED}
    assert waiting(ledger) == [second, newcomer]
    assert again(ledger, first) is Status.DISPATCHED


def test_a_lower_limit_counts_what_still_runs(ledger: Ledger) -> None:
    limit(ledger, 3)
    rows = add(ledger, 3, status=Status.RUNNING)
    limit(ledger, 2)
    [late] = add(ledger)
    assert ledger.dispatch([late]) == {late: Status.SCHEDULED}
    complete(ledger, rows[0])
    assert wake(ledger) == [], "two of two run"
    complete(ledger, rows[1])
    assert wake(ledger) == [late]
    assert again(ledger, late) is Status.DISPATCHED


def test_a_key_without_a_limit_has_one_place(ledger: Ledger) -> None:
    """No version says so; one that did must not stop the dispatch of everything."""
    ledger.define(concurrency=None)
    first, second = add(ledger, 2)
    assert ledger.dispatch([first, second]) == {first: Status.DISPATCHED, second: Status.SCHEDULED}


def test_held_ones_take_no_place(ledger: Ledger) -> None:
    limit(ledger, 1)
    [later] = add(ledger, later_ms=60_000)
    [other] = add(ledger)
    assert ledger.dispatch([later, other]) == {later: Status.SCHEDULED, other: Status.DISPATCHED}
    assert holds(ledger) == [other]


# ---- with an overlap slot -----------------------------------------------------------------------------------------


def test_both_are_taken_or_neither(ledger: Ledger) -> None:
    limit(ledger, 1)
    more: dict[str, Any] = {"slot_key": ledger.slug, "overlap": Overlap.BUFFER_ALL}
    [running] = add(ledger, status=Status.RUNNING)
    [full] = add(ledger, **more)
    assert ledger.dispatch([full]) == {full: Status.SCHEDULED}
    assert ledger.row(full)["hold"] == Hold.CONCURRENCY
    assert ledger.slot_holder(ledger.slug) is None
    complete(ledger, running)
    [rival] = ledger.add(status=Status.RUNNING, **more)
    [other] = add(ledger, **more)
    ledger.connection.execute("DELETE FROM slot_waiters WHERE key = %s", (key_of(ledger),))
    assert ledger.dispatch([other]) == {other: Status.SCHEDULED}
    assert ledger.row(other)["hold"] == Hold.OVERLAP
    assert holds(ledger) == []
    assert ledger.slot_holder(ledger.slug) == rival


def test_the_overlap_slot_goes_to_the_rival_whose_key_has_room(ledger: Ledger) -> None:
    limit(ledger, 1)
    add(ledger, status=Status.RUNNING)
    [full] = add(ledger, slot_key=ledger.slug, overlap=Overlap.SKIP)
    [fits] = ledger.add(concurrency_key=key_of(ledger) + "0", slot_key=ledger.slug, overlap=Overlap.SKIP)
    answered = ledger.dispatch([full, fits])
    assert answered == {full: Status.SKIPPED, fits: Status.DISPATCHED}


def test_a_place_that_a_rival_could_not_use_is_not_called_taken(ledger: Ledger) -> None:
    """Three come for two places; the second of them may not run beside the first."""
    limit(ledger, 2, "skip_newest")
    more: dict[str, Any] = {"slot_key": ledger.slug, "overlap": Overlap.SKIP}
    first, second = add(ledger, 2, **more)
    [third] = add(ledger)
    answered = ledger.dispatch([first, second, third])
    assert answered == {first: Status.DISPATCHED, second: Status.SKIPPED}
    assert ledger.status(third) is Status.PRELOADED, "the next tick asks again"
    assert ledger.dispatch([third]) == {third: Status.DISPATCHED}


def test_a_retry_keeps_its_overlap_slot_and_takes_a_place_anew(ledger: Ledger) -> None:
    limit(ledger, 1)
    [running] = add(ledger, status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    complete(ledger, running, Status.RETRYING)
    assert holds(ledger) == []
    assert ledger.slot_holder(ledger.slug) == running
    [other] = add(ledger)
    assert ledger.dispatch([other]) == {other: Status.DISPATCHED}
    assert again(ledger, running) is Status.SCHEDULED
    assert ledger.row(running)["hold"] == Hold.CONCURRENCY
    assert ledger.slot_holder(ledger.slug) == running


# ---- giving back --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [Status.COMPLETED, Status.RETRYING, Status.DEAD_LETTER, Status.CANCELLED])
def test_an_end_gives_the_place_back(ledger: Ledger, target: Status) -> None:
    limit(ledger, 1)
    [running] = add(ledger, status=Status.RUNNING)
    complete(ledger, running, target)
    assert holds(ledger) == []


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_release_and_reclaim_give_the_place_back(ledger: Ledger, status: Status) -> None:
    limit(ledger, 2)
    released, reclaimed = add(ledger, 2, status=status)
    assert store.release(ledger.connection, [released], [TOKEN], worker_id=1)
    assert holds(ledger) == [reclaimed]
    assert store.reclaim(ledger.connection, [(reclaimed, TOKEN)], reason="test", actor="test")
    assert holds(ledger) == []


def test_a_cancelled_waiter_leaves_the_queue(ledger: Ledger) -> None:
    limit(ledger, 1)
    add(ledger, status=Status.RUNNING)
    [waiter] = add(ledger)
    ledger.dispatch([waiter])
    locked = person_store.lock_one(ledger.connection, identity=UUID(bytes=waiter), tenant_id=UUID(bytes=ledger.tenant))
    assert locked is not None
    assert locked.waits_for == key_of(ledger)
    person_store.move(ledger.connection, [person_store.Move(locked, Status.CANCELLED)], actor="test")
    assert waiting(ledger) == []


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.PRELOADED, Status.RETRYING])
def test_a_leaked_place_is_given_back(ledger: Ledger, status: Status) -> None:
    """A place belongs to what a worker has; an overlap slot also to what is tried again."""
    limit(ledger, 2)
    leaked, kept = add(ledger, 2, status=Status.RUNNING)
    ledger.connection.execute(
        "UPDATE executions SET status = %s WHERE id = encode(%s, 'hex')::uuid", (int(status), leaked)
    )
    assert store.remove_leaked_slots(ledger.connection) == [key_of(ledger)]
    assert holds(ledger) == [kept]


def test_as_many_are_woken_as_there_are_places(ledger: Ledger) -> None:
    limit(ledger, 3)
    rows = add(ledger, 3, status=Status.RUNNING)
    late = add(ledger, 4)
    ledger.dispatch(late)
    assert key_of(ledger) not in store.free_slots_with_waiters(ledger.connection, limit=1000)
    complete(ledger, rows[0])
    complete(ledger, rows[1])
    assert key_of(ledger) in store.free_slots_with_waiters(ledger.connection, limit=1000)
    assert wake(ledger) == late[:2]
    assert {ledger.row(i)["hold"] for i in late[:2]} == {Hold.NONE}
    assert waiting(ledger) == late[2:]


def test_a_place_given_back_while_the_statement_ran_is_not_waited_for(ledger: Ledger) -> None:
    """The end saw nobody who waits, the dispatch saw all places taken: what follows the dispatch looks again."""
    limit(ledger, 1)
    [running] = add(ledger, status=Status.RUNNING)
    [late] = add(ledger)
    answered = store.dispatch(ledger.connection, [late], [1], window_ms=250, held=all_shards())
    complete(ledger, running)
    waits.settle(ledger.connection, answered)
    assert ledger.row(late)["hold"] == Hold.NONE
    assert waiting(ledger) == []


# ---- two dispatchers ----------------------------------------------------------------------------------------------


def raced(halves: list[tuple[Any, list[bytes]]]) -> None:
    """Dispatch each half on its connection, both at once; what was left alone comes back at the next tick."""
    begin = threading.Barrier(len(halves))

    def ticks(connection: Any, mine: list[bytes]) -> None:
        begin.wait()
        for _ in range(3):
            answered = store.dispatch(connection, sorted(mine), [1] * len(mine), window_ms=250, held=all_shards())
            waits.settle(connection, answered)

    with ThreadPoolExecutor(len(halves)) as threads:
        for done in [threads.submit(ticks, *half) for half in halves]:
            done.result()


def test_two_dispatchers_never_give_more_places_than_there_are(ledger: Ledger) -> None:
    """Twenty rounds over three keys; every other execution needs an overlap slot, too."""
    limit(ledger, 3)
    with postgres.connect("rival", url=ledger.url) as second:
        for number in range(20):
            keys = [f"key:{ledger.tenant.hex()}:{number}-{k}" for k in "abc"]
            rows = []
            for n in range(24):
                slot = f"{ledger.slug}-{number}-{n}" if n % 2 else None
                rows += ledger.add(concurrency_key=keys[n % 3], slot_key=slot, overlap=Overlap.BUFFER_ALL)
            raced([(ledger.connection, rows[::2]), (second, rows[1::2])])
            sent = [i for i in rows if ledger.status(i) is Status.DISPATCHED]
            assert len(sent) == 9
            for key in keys:
                places = ledger.places(key)
                assert set(places) == {1, 2, 3}
                assert set(places.values()) <= set(sent)


def test_two_dispatchers_with_rivals_for_one_overlap_slot_leave_no_place_behind(ledger: Ledger) -> None:
    """Each takes a place, one of them the slot: the other's place goes back."""
    limit(ledger, 3)
    with postgres.connect("rival", url=ledger.url) as second:
        for number in range(20):
            slot = f"{ledger.slug}-{number}"
            rows = add(ledger, 2, slot_key=slot, overlap=Overlap.BUFFER_ALL)
            raced([(ledger.connection, rows[:1]), (second, rows[1:])])
            sent = [i for i in rows if ledger.status(i) is Status.DISPATCHED]
            assert [ledger.slot_holder(slot)] == sent
            assert holds(ledger) == sent
            store.release(ledger.connection, sent, [ledger.token(i) for i in sent], worker_id=1)
            assert holds(ledger) == []
