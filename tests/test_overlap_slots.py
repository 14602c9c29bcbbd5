"""When the previous execution of a task still runs: skip, buffer one or all, cancel the other; slots and who waits."""

from typing import Any

import pytest

from apps.executions import ids, store
from apps.executions.states import Hold, Overlap, Status
from tests.stack import EPOCH, Ledger
from tests.test_finish import end

TOKEN = EPOCH << 32


def add(ledger: Ledger, overlap: Overlap, count: int = 1, **more: Any) -> list[bytes]:
    """Executions that want the one slot of the tenant."""
    return ledger.add(count, slot_key=ledger.slug, overlap=overlap, **more)


def holder(ledger: Ledger, overlap: Overlap, status: Status = Status.RUNNING) -> bytes:
    [identity] = add(ledger, overlap, status=status)
    return identity


def complete(ledger: Ledger, identity: bytes) -> None:
    row = ledger.row(identity)
    done = end(ledger, identity, token=row["token"], attempt=row["attempt"])
    assert store.finish(ledger.connection, [done], worker_id=1)


def wake(ledger: Ledger) -> list[bytes]:
    return store.wake_waiters(ledger.connection, [ledger.slug])


# ---- dispatch -----------------------------------------------------------------------------------------------------


def test_the_first_takes_the_slot(ledger: Ledger) -> None:
    [identity] = add(ledger, Overlap.SKIP)
    assert ledger.dispatch([identity]) == {identity: Status.DISPATCHED}
    assert ledger.slot_holder(ledger.slug) == identity


def test_skip_skips_and_says_why(ledger: Ledger) -> None:
    running = holder(ledger, Overlap.SKIP)
    [identity] = add(ledger, Overlap.SKIP)
    assert ledger.dispatch([identity]) == {identity: Status.SKIPPED}
    row = ledger.row(identity)
    assert row["finished_at"] is not None
    assert row["wake_at"] is None
    assert row["hold"] == Hold.NONE
    assert "overlap" in ledger.events(identity)[0]["reason"]
    assert ledger.slot_holder(ledger.slug) == running
    assert ledger.waiters(ledger.slug) == []


def test_buffer_one_lets_one_wait_and_skips_the_rest(ledger: Ledger) -> None:
    holder(ledger, Overlap.BUFFER_ONE)
    [first], [second] = add(ledger, Overlap.BUFFER_ONE), add(ledger, Overlap.BUFFER_ONE)
    assert ledger.dispatch([first]) == {first: Status.SCHEDULED}
    assert ledger.row(first)["hold"] == Hold.OVERLAP
    assert ledger.row(first)["wake_at"] is None
    assert ledger.dispatch([second]) == {second: Status.SKIPPED}
    assert ledger.waiters(ledger.slug) == [first]


def test_buffer_all_lets_all_wait_in_order(ledger: Ledger) -> None:
    holder(ledger, Overlap.BUFFER_ALL)
    waiting = add(ledger, Overlap.BUFFER_ALL, 3)
    assert set(ledger.dispatch(waiting).values()) == {Status.SCHEDULED}
    assert ledger.waiters(ledger.slug) == waiting


def test_allow_all_needs_no_slot(ledger: Ledger) -> None:
    both = ledger.add(2, overlap=Overlap.ALLOW_ALL)
    assert set(ledger.dispatch(both).values()) == {Status.DISPATCHED}


@pytest.mark.parametrize(
    ("overlap", "others"),
    [
        (Overlap.SKIP, [Status.SKIPPED, Status.SKIPPED]),
        (Overlap.BUFFER_ONE, [Status.SCHEDULED, Status.SKIPPED]),
        (Overlap.BUFFER_ALL, [Status.SCHEDULED, Status.SCHEDULED]),
        (Overlap.CANCEL_OTHER, [Status.SCHEDULED, Status.SCHEDULED]),
    ],
)
def test_of_rivals_in_one_batch_the_oldest_goes(ledger: Ledger, overlap: Overlap, others: list[Status]) -> None:
    rivals = add(ledger, overlap, 3)
    answered = ledger.dispatch(rivals)
    assert [answered[i] for i in rivals] == [Status.DISPATCHED, *others]
    assert ledger.slot_holder(ledger.slug) == rivals[0]


@pytest.mark.parametrize("overlap", [Overlap.BUFFER_ONE, Overlap.SKIP])
def test_of_rivals_in_one_batch_against_a_holder(ledger: Ledger, overlap: Overlap) -> None:
    holder(ledger, overlap)
    rivals = add(ledger, overlap, 2)
    answered = ledger.dispatch(rivals)
    first = Status.SCHEDULED if overlap is Overlap.BUFFER_ONE else Status.SKIPPED
    assert [answered[i] for i in rivals] == [first, Status.SKIPPED]


def test_one_that_is_held_takes_no_slot_from_its_rival(ledger: Ledger) -> None:
    older, younger = add(ledger, Overlap.SKIP, later_ms=60_000) + add(ledger, Overlap.SKIP)
    answered = ledger.dispatch([older, younger])
    assert answered == {older: Status.SCHEDULED, younger: Status.DISPATCHED}
    assert ledger.slot_holder(ledger.slug) == younger


def test_a_retry_keeps_its_slot_and_goes_again(ledger: Ledger) -> None:
    retrying = holder(ledger, Overlap.SKIP, Status.RETRYING)
    [rival] = add(ledger, Overlap.SKIP)
    assert ledger.dispatch([rival]) == {rival: Status.SKIPPED}
    preloaded(ledger, retrying)
    assert ledger.dispatch([retrying]) == {retrying: Status.DISPATCHED}
    assert ledger.slot_holder(ledger.slug) == retrying


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.BUFFER_ONE, Overlap.BUFFER_ALL])
def test_a_retry_goes_before_an_older_rival_of_the_same_batch(ledger: Ledger, overlap: Overlap) -> None:
    """It holds the slot: were it judged second, it would be skipped, or wait for itself, and never let go."""
    [older] = add(ledger, overlap, due_in_ms=-1000)
    retrying = holder(ledger, overlap, Status.RETRYING)
    preloaded(ledger, retrying)
    other = Status.SKIPPED if overlap is Overlap.SKIP else Status.SCHEDULED
    assert ledger.dispatch([older, retrying]) == {older: other, retrying: Status.DISPATCHED}
    assert ledger.slot_holder(ledger.slug) == retrying


def preloaded(ledger: Ledger, identity: bytes) -> None:
    ledger.lead("preloader")
    assert identity in {row.id for row in ledger.hydrate(ids.day(identity))}


def test_a_release_frees_the_slot_for_the_rival(ledger: Ledger) -> None:
    running = holder(ledger, Overlap.SKIP)
    store.release(ledger.connection, [running], [TOKEN], worker_id=1)
    [rival] = add(ledger, Overlap.SKIP)
    assert ledger.dispatch([rival]) == {rival: Status.DISPATCHED}


# ---- who waits ----------------------------------------------------------------------------------------------------


def test_waiters_are_woken_one_by_one_in_order(ledger: Ledger) -> None:
    current = holder(ledger, Overlap.BUFFER_ALL)
    waiting = add(ledger, Overlap.BUFFER_ALL, 3)
    ledger.dispatch(waiting)
    for expected in waiting:
        assert wake(ledger) == [], "the slot is still taken"
        complete(ledger, current)
        assert wake(ledger) == [expected]
        row = ledger.row(expected)
        assert (row["status"], row["hold"]) == (Status.SCHEDULED, Hold.NONE)
        assert row["wake_at"] == row["run_at"]
        preloaded(ledger, expected)
        assert ledger.dispatch([expected]) == {expected: Status.DISPATCHED}
        store.claim(ledger.connection, [expected], [ledger.token(expected)], worker_id=1)
        current = expected
    assert ledger.waiters(ledger.slug) == []


def test_waking_twice_wakes_the_next_one_only_when_the_slot_is_free_again(ledger: Ledger) -> None:
    current = holder(ledger, Overlap.BUFFER_ALL)
    first, second = add(ledger, Overlap.BUFFER_ALL, 2)
    ledger.dispatch([first, second])
    complete(ledger, current)
    assert wake(ledger) == [first]
    preloaded(ledger, first)
    ledger.dispatch([first])
    assert wake(ledger) == []
    assert ledger.waiters(ledger.slug) == [second]


def test_a_waiter_that_was_cancelled_is_passed_over(ledger: Ledger) -> None:
    current = holder(ledger, Overlap.BUFFER_ALL)
    gone, second = add(ledger, Overlap.BUFFER_ALL, 2)
    ledger.dispatch([gone, second])
    ledger.connection.execute(
        "UPDATE executions SET status = %s, hold = 0, finished_at = clock_timestamp()"
        " WHERE id = encode(%s, 'hex')::uuid",
        (int(Status.CANCELLED), gone),
    )
    complete(ledger, current)
    woken = wake(ledger) + wake(ledger)
    assert woken == [second]
    assert ledger.status(gone) is Status.CANCELLED


def test_slots_that_nobody_holds_although_somebody_waits_are_found(ledger: Ledger) -> None:
    """The worker died between the end of the attempt and the wake-up."""
    current = holder(ledger, Overlap.BUFFER_ONE)
    [waiting] = add(ledger, Overlap.BUFFER_ONE)
    ledger.dispatch([waiting])
    assert ledger.slug not in store.free_slots_with_waiters(ledger.connection, limit=100)
    complete(ledger, current)
    assert ledger.slug in store.free_slots_with_waiters(ledger.connection, limit=100)


def test_a_waiter_whose_task_was_paused_meanwhile_is_held_when_its_turn_comes(ledger: Ledger) -> None:
    current = holder(ledger, Overlap.BUFFER_ONE)
    [waiting] = add(ledger, Overlap.BUFFER_ONE)
    ledger.dispatch([waiting])
    ledger.hold(ledger.task, Hold.PAUSED)
    complete(ledger, current)
    assert wake(ledger) == [waiting]
    preloaded(ledger, waiting)
    assert ledger.dispatch([waiting]) == {waiting: Status.SCHEDULED}
    assert ledger.row(waiting)["hold"] == Hold.PAUSED
    assert ledger.slot_holder(ledger.slug) is None


# ---- cancel_other -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_the_holder_is_asked_to_stop(ledger: Ledger, status: Status) -> None:
    current = holder(ledger, Overlap.CANCEL_OTHER, status)
    [rival] = add(ledger, Overlap.CANCEL_OTHER)
    assert ledger.dispatch([rival]) == {rival: Status.SCHEDULED}
    assert store.request_cancel_of_slot_holders(ledger.connection, [ledger.slug]) == [(ledger.tenant, current)]
    asked = ledger.row(current)["cancel_requested_at"]
    assert asked is not None
    assert store.request_cancel_of_slot_holders(ledger.connection, [ledger.slug]) == []
    assert ledger.row(current)["cancel_requested_at"] == asked
    assert ledger.status(current) is status


def test_a_holder_that_waits_for_its_retry_is_ended_at_once(ledger: Ledger) -> None:
    """No worker has it: nobody else would end it before its next attempt."""
    current = holder(ledger, Overlap.CANCEL_OTHER, Status.RETRYING)
    [rival] = add(ledger, Overlap.CANCEL_OTHER)
    ledger.dispatch([rival])
    store.request_cancel_of_slot_holders(ledger.connection, [ledger.slug])
    assert ledger.status(current) is Status.CANCELLED
    assert ledger.slot_holder(ledger.slug) is None
    assert wake(ledger) == [rival]


def test_leaked_slots_of_what_has_ended_are_given_back(ledger: Ledger) -> None:
    ended = holder(ledger, Overlap.SKIP)
    kept = holder_of(ledger, "kept-" + ledger.slug)
    ledger.connection.execute(
        "UPDATE executions SET status = %s WHERE id = encode(%s, 'hex')::uuid", (int(Status.COMPLETED), ended)
    )
    assert store.remove_leaked_slots(ledger.connection) == [ledger.slug]
    assert ledger.slot_holder(ledger.slug) is None
    assert ledger.slot_holder("kept-" + ledger.slug) == kept


def holder_of(ledger: Ledger, key: str) -> bytes:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=key, overlap=Overlap.SKIP)
    return identity
