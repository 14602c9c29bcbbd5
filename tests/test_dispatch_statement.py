"""The dispatch statement: tokens that never repeat, stale epochs that write nothing, holds, and what is not due."""

import threading
from collections.abc import Iterator

import psycopg
import pytest

from apps.executions import ids, store
from apps.executions.states import Hold, Origin, Overlap, Status
from chronoweb.runtime import postgres
from tests.stack import EPOCH, Ledger, all_shards, ledger_on
from tests.waiting import eventually

FLEET = bytes(16)


@pytest.fixture
def other(ledger: Ledger) -> Iterator[psycopg.Connection]:
    with postgres.connect("other", url=ledger.url) as connection:
        yield connection


def test_what_is_dispatched_has_a_token_a_worker_and_a_place_in_outstanding(ledger: Ledger) -> None:
    [identity] = ledger.add()
    assert ledger.dispatch([identity], worker=5) == {identity: Status.DISPATCHED}
    row = ledger.row(identity)
    assert row["token"] == EPOCH << 32
    assert row["worker_id"] == 5
    assert row["attempt"] == 0, "an attempt is counted at the claim"
    assert row["dispatched_at"] is not None
    assert row["wake_at"] is None
    assert ledger.outstanding() == {identity: (5, EPOCH << 32)}


def test_tokens_grow_with_each_dispatch_and_start_above_the_epoch(ledger: Ledger) -> None:
    [identity] = ledger.add()
    seen = []
    for _ in range(4):
        ledger.dispatch([identity])
        seen.append(ledger.token(identity))
        store.release(ledger.connection, [identity], [seen[-1]], worker_id=1)
        ledger.connection.execute("UPDATE executions SET wake_at = NULL WHERE wake_at IS NOT NULL")
    assert seen[0] == EPOCH << 32
    assert seen == sorted(set(seen))
    ledger.lead(epoch=EPOCH + 2)
    ledger.dispatch([identity], epoch=EPOCH + 2)
    assert ledger.token(identity) == (EPOCH + 2) << 32
    ledger.lead()


def test_a_token_grows_even_where_the_epoch_lags_behind_it(ledger: Ledger) -> None:
    """As after a restore of the leases from an old backup."""
    [identity] = ledger.add()
    ledger.connection.execute("UPDATE executions SET token = %s WHERE token = 0", ((EPOCH + 5) << 32,))
    ledger.dispatch([identity])
    assert ledger.token(identity) == ((EPOCH + 5) << 32) + 1


def test_a_stale_epoch_writes_nothing_and_takes_no_slot(ledger: Ledger) -> None:
    [identity] = ledger.add(slot_key=ledger.slug, overlap=Overlap.SKIP)
    before = ledger.row(identity)
    assert ledger.dispatch([identity], epoch=EPOCH - 1) == {}
    assert ledger.row(identity) == before
    assert ledger.slot_holder(ledger.slug) is None
    assert ledger.outstanding() == {}


def test_a_lease_that_ran_out_writes_nothing(own_ledger: Ledger) -> None:
    own_ledger.lead()
    own_ledger.connection.execute("UPDATE leases SET expires_at = clock_timestamp()")
    [identity] = own_ledger.add()
    assert own_ledger.dispatch([identity]) == {}
    assert own_ledger.status(identity) is Status.PRELOADED


def test_only_shards_that_are_held_are_dispatched(ledger: Ledger) -> None:
    identities = ledger.add(200)
    mine = {shard: EPOCH for shard in range(0, ids.SHARDS, 2)}
    answered = store.dispatch(ledger.connection, identities, [1] * 200, window_ms=250, held=mine)
    assert {row.id for row in answered} == {i for i in identities if ids.shard(i) in mine}
    assert 0 < len(answered) < 200
    stale = {**dict.fromkeys(range(ids.SHARDS), EPOCH), 1: EPOCH - 1}
    answered = store.dispatch(ledger.connection, identities, [1] * 200, window_ms=250, held=stale)
    assert {row.id for row in answered} == {i for i in identities if ids.shard(i) % 2 and ids.shard(i) != 1}


@pytest.mark.parametrize("which", ["task", "tenant"])
@pytest.mark.parametrize("reason", [Hold.PAUSED, Hold.FROZEN])
def test_what_is_held_goes_back_and_says_why(ledger: Ledger, which: str, reason: Hold) -> None:
    [identity] = ledger.add()
    ledger.hold(getattr(ledger, which), reason)
    assert ledger.dispatch([identity]) == {identity: Status.SCHEDULED}
    row = ledger.row(identity)
    assert row["hold"] == reason
    assert row["token"] == 0
    assert row["worker_id"] is None
    # A held row is woken by who lifts the hold; that of a whole tenant hides its rows from the preloader.
    assert row["wake_at"] == (row["run_at"] if reason is Hold.FROZEN else None)
    assert ledger.outstanding() == {}


def test_what_was_deleted_is_cancelled_and_frees_its_slot(ledger: Ledger) -> None:
    """It was popped while the deletion moved the rows that it could lock. A retry of it holds the slot still."""
    [identity] = ledger.add(status=Status.RETRYING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    assert [row.id for row in ledger.hydrate(ids.day(identity), epoch=ledger.lead("preloader"))] == [identity]
    ledger.hold(ledger.task, Hold.DELETED)
    assert ledger.dispatch([identity]) == {identity: Status.CANCELLED}
    row = ledger.row(identity)
    assert row["hold"] == Hold.NONE
    assert row["finished_at"] is not None
    assert ledger.slot_holder(ledger.slug) is None
    assert [event["reason"] for event in ledger.events(identity)] == ["the task was deleted"]


def test_the_whole_fleet_can_be_frozen(own_ledger: Ledger) -> None:
    own_ledger.lead()
    identities = own_ledger.add(3)
    own_ledger.hold(FLEET, Hold.FROZEN)
    assert set(own_ledger.dispatch(identities).values()) == {Status.SCHEDULED}
    more = own_ledger.add(3)
    own_ledger.release_hold(FLEET, Hold.FROZEN)
    assert set(own_ledger.dispatch(more).values()) == {Status.DISPATCHED}


def test_a_hold_of_another_task_or_tenant_means_nothing(ledger: Ledger) -> None:
    [identity] = ledger.add()
    ledger.hold(ids.new_uuid7(3).bytes, Hold.DELETED)
    assert ledger.dispatch([identity]) == {identity: Status.DISPATCHED}


def test_a_trigger_of_a_paused_task_goes_and_of_a_deleted_or_frozen_one_does_not(ledger: Ledger) -> None:
    [paused] = ledger.add(origin=Origin.MANUAL)
    ledger.hold(ledger.task, Hold.PAUSED)
    assert ledger.dispatch([paused]) == {paused: Status.DISPATCHED}
    [frozen] = ledger.add(origin=Origin.MANUAL)
    ledger.hold(ledger.tenant, Hold.FROZEN)
    assert ledger.dispatch([frozen]) == {frozen: Status.SCHEDULED}
    assert ledger.row(frozen)["hold"] == Hold.FROZEN


def test_of_several_holds_the_gravest_is_told(ledger: Ledger) -> None:
    [identity] = ledger.add()
    ledger.hold(ledger.task, Hold.PAUSED)
    ledger.hold(ledger.tenant, Hold.FROZEN)
    ledger.dispatch([identity])
    assert ledger.row(identity)["hold"] == Hold.FROZEN


def test_what_has_moved_into_the_future_goes_back_to_be_woken_then(ledger: Ledger) -> None:
    """An edit moved run_at while its entry stood in the hot tier under the old time."""
    [identity] = ledger.add(later_ms=60_000)
    assert ledger.dispatch([identity]) == {identity: Status.SCHEDULED}
    row = ledger.row(identity)
    assert row["wake_at"] == row["run_at"]
    assert row["hold"] == Hold.NONE


def test_what_is_due_within_the_window_goes(ledger: Ledger) -> None:
    [identity] = ledger.add(later_ms=200)
    assert ledger.dispatch([identity], window_ms=250) == {identity: Status.DISPATCHED}


def test_what_another_transaction_holds_is_skipped_and_not_waited_for(
    ledger: Ledger, other: psycopg.Connection
) -> None:
    locked, free = ledger.add(2)
    with other.transaction():
        other.execute("SELECT 1 FROM executions WHERE id = encode(%s, 'hex')::uuid FOR UPDATE", (locked,))
        assert ledger.dispatch([locked, free]) == {free: Status.DISPATCHED}
        assert store.still_preloaded(ledger.connection, [locked, free]) == {locked}
    assert ledger.dispatch([locked]) == {locked: Status.DISPATCHED}


def test_rivals_that_race_never_double(ledger: Ledger) -> None:
    """Eight connections dispatch the same rows at once: each row goes once, under one token."""
    identities = ledger.add(400)
    start = threading.Barrier(8)
    answered: list[bytes] = []

    def race(number: int) -> None:
        with postgres.connect("racer", url=ledger.url) as connection:
            start.wait()
            rows = store.dispatch(connection, identities, [number] * len(identities), window_ms=250, held=all_shards())
            answered.extend(row.id for row in rows if row.status == Status.DISPATCHED)

    threads = [threading.Thread(target=race, args=(n + 1,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answered) == identities
    assert len(ledger.outstanding()) == len(identities)
    assert {ledger.token(i) for i in identities[:20]} == {EPOCH << 32}


def test_an_empty_answer_of_a_resting_row_is_no_error(ledger: Ledger) -> None:
    identities = sorted(
        i
        for s in (Status.COMPLETED, Status.CANCELLED, Status.SKIPPED, Status.DEAD_LETTER)
        for i in ledger.add(status=s)
    )
    before = [ledger.row(i) for i in identities]
    assert ledger.dispatch(identities) == {}
    assert [ledger.row(i) for i in identities] == before


def test_statements_over_the_same_slots_do_not_deadlock(own_database: str) -> None:
    """Their rows stand in opposite orders; slots are taken in the order of their keys."""
    with ledger_on(own_database) as one, postgres.connect("other", url=own_database) as connection:
        one.lead()
        keys = [f"k{n:03}" for n in range(50)]
        rows = [one.add(slot_key=key, overlap=Overlap.SKIP)[0] for key in keys]
        rivals = [one.add(slot_key=key, overlap=Overlap.SKIP)[0] for key in reversed(keys)]
        failures: list[BaseException] = []

        def go(link: psycopg.Connection, identities: list[bytes]) -> None:
            try:
                store.dispatch(link, identities, [1] * len(identities), window_ms=250, held=all_shards())
            except psycopg.Error as error:
                failures.append(error)

        threads = [
            threading.Thread(target=go, args=(one.connection, sorted(rows))),
            threading.Thread(target=go, args=(connection, sorted(rivals))),
        ]
        for thread in threads:
            thread.start()
        eventually(lambda: not any(thread.is_alive() for thread in threads))
        assert failures == []
        statuses = one.statuses(rows + rivals)
        assert statuses.count(Status.DISPATCHED) == len(keys)
        assert statuses.count(Status.SKIPPED) == len(keys)
