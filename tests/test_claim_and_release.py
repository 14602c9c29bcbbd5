"""A worker begins what was sent to it, under the token that it was sent with, and gives back what it cannot begin."""

import threading
from typing import Any

import pytest

from apps.executions import store
from apps.executions.states import Hold, Origin, Outcome, Overlap, Status
from chronoweb.runtime import postgres
from tests.stack import EPOCH, Ledger

TOKEN = EPOCH << 32


def claim(ledger: Ledger, *identities: bytes, token: int = TOKEN, worker: int = 1) -> list[Any]:
    ordered = sorted(identities)
    return store.claim(ledger.connection, ordered, [token] * len(ordered), worker_id=worker)


def release(ledger: Ledger, *identities: bytes, token: int = TOKEN, worker: int = 1) -> list[bytes]:
    ordered = sorted(identities)
    return store.release(ledger.connection, ordered, [token] * len(ordered), worker_id=worker)


def ask_to_cancel(ledger: Ledger, identity: bytes) -> None:
    ledger.connection.execute(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid", (identity,)
    )


# ---- claim --------------------------------------------------------------------------------------------------------


def test_a_claim_counts_an_attempt_and_answers_what_to_run(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, payload=b'{"a": [1, 2]}')
    [claimed] = claim(ledger, identity)
    row = ledger.row(identity)
    assert row["status"] == Status.RUNNING
    assert (row["attempt"], claimed.attempt, claimed.max_attempts) == (1, 1, 4)
    assert row["worker_id"] == 1
    assert row["started_at"] is None, "the real start is written when it is known"
    assert claimed.payload == '{"a": [1, 2]}'
    assert claimed.version_id == ledger.version
    assert claimed.idempotency_key == identity.hex()
    assert claimed.run_at_us == int(row["run_at"].timestamp() * 1e6)


def test_claiming_again_with_the_same_token_answers_again_and_counts_once(ledger: Ledger) -> None:
    """The first answer was lost on the way."""
    [identity] = ledger.add(status=Status.DISPATCHED)
    first, again = claim(ledger, identity), claim(ledger, identity)
    assert first == again
    assert ledger.row(identity)["attempt"] == 1


@pytest.mark.parametrize("wrong", [{"token": TOKEN - 1}, {"token": TOKEN + 1}, {"token": 0}])
def test_another_token_claims_nothing(ledger: Ledger, wrong: dict[str, int]) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    before = ledger.row(identity)
    assert claim(ledger, identity, **wrong) == []
    assert ledger.row(identity) == before


def test_another_worker_with_the_token_may_begin_what_nobody_has_begun(ledger: Ledger) -> None:
    """A partition moved with its messages; the first to claim has it, the other does not."""
    [identity] = ledger.add(status=Status.DISPATCHED, worker=1)
    store.adopt(ledger.connection, [identity], [TOKEN], worker_id=2)
    assert ledger.outstanding() == {identity: (2, TOKEN)}
    assert len(claim(ledger, identity, worker=2)) == 1
    assert claim(ledger, identity, worker=1) == []
    assert ledger.row(identity)["worker_id"] == 2
    assert ledger.row(identity)["attempt"] == 1


def test_adopting_under_an_old_token_changes_nothing(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, worker=1)
    store.adopt(ledger.connection, [identity], [TOKEN - 1], worker_id=2)
    assert ledger.outstanding() == {identity: (1, TOKEN)}


def test_workers_that_race_for_a_claim_begin_it_once(ledger: Ledger) -> None:
    identities = ledger.add(200, status=Status.DISPATCHED)
    start = threading.Barrier(4)
    got: list[bytes] = []

    def race(worker: int) -> None:
        with postgres.connect("racer", url=ledger.url) as connection:
            start.wait()
            got.extend(c.id for c in store.claim(connection, identities, [TOKEN] * 200, worker_id=worker))

    threads = [threading.Thread(target=race, args=(n + 1,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == identities
    assert {ledger.row(i)["attempt"] for i in identities[:20]} == {1}


@pytest.mark.parametrize("reason", [Hold.PAUSED, Hold.DELETED, Hold.FROZEN])
@pytest.mark.parametrize("which", ["task", "tenant"])
def test_what_is_held_is_not_begun_and_goes_back_uncounted(ledger: Ledger, reason: Hold, which: str) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    ledger.hold(getattr(ledger, which), reason)
    assert claim(ledger, identity) == []
    assert release(ledger, identity) == [identity]
    row = ledger.row(identity)
    assert row["status"] == Status.PRELOADED
    assert row["attempt"] == 0
    assert ledger.attempts(identity) == []


def test_nothing_is_begun_while_the_fleet_is_frozen(own_ledger: Ledger) -> None:
    [identity] = own_ledger.add(status=Status.DISPATCHED, origin=Origin.MANUAL)
    own_ledger.hold(bytes(16), Hold.FROZEN)
    assert claim(own_ledger, identity) == []
    own_ledger.release_hold(bytes(16), Hold.FROZEN)
    assert len(claim(own_ledger, identity)) == 1


def test_a_trigger_of_a_paused_task_is_begun(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, origin=Origin.MANUAL)
    ledger.hold(ledger.task, Hold.PAUSED)
    assert len(claim(ledger, identity)) == 1


def test_what_is_to_be_cancelled_is_not_begun_and_ends_when_given_back(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, slot_key=ledger.slug, overlap=Overlap.SKIP)
    ask_to_cancel(ledger, identity)
    assert claim(ledger, identity) == []
    assert release(ledger, identity) == [identity]
    row = ledger.row(identity)
    assert row["status"] == Status.CANCELLED
    assert row["finished_at"] is not None
    assert row["attempt"] == 0
    assert row["wake_at"] is None
    assert ledger.slot_holder(ledger.slug) is None
    assert ledger.outstanding() == {}


def test_one_that_is_refused_does_not_hinder_the_others(ledger: Ledger) -> None:
    good = ledger.add(5, status=Status.DISPATCHED)
    [cancelled] = ledger.add(status=Status.DISPATCHED)
    [gone] = ledger.add(status=Status.COMPLETED)
    ask_to_cancel(ledger, cancelled)
    assert {c.id for c in claim(ledger, *good, cancelled, gone)} == set(good)


# ---- release ------------------------------------------------------------------------------------------------------


def test_what_was_not_begun_goes_back_as_it_was_under_a_new_token(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, attempt=2)
    due = ledger.row(identity)["run_at"]
    assert release(ledger, identity) == [identity]
    row = ledger.row(identity)
    assert row["status"] == Status.PRELOADED
    assert row["token"] == TOKEN + 1
    assert row["attempt"] == 2
    assert row["worker_id"] is None
    assert row["wake_at"] == row["run_at"] == due, "the preloader adds it to the hot tier again"
    assert ledger.outstanding() == {}
    assert ledger.attempts(identity) == []


def test_what_was_begun_gives_its_attempt_back_and_says_released(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    claim(ledger, identity)
    assert release(ledger, identity) == [identity]
    assert ledger.row(identity)["attempt"] == 0
    assert ledger.outcomes(identity) == [Outcome.RELEASED]
    assert ledger.attempts(identity)[0]["token"] == TOKEN


def test_only_its_worker_releases_what_runs(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, worker=1)
    assert release(ledger, identity, worker=2) == []
    assert release(ledger, identity, token=TOKEN - 1) == []
    assert ledger.status(identity) is Status.RUNNING
    assert release(ledger, identity, worker=1) == [identity]


def test_a_release_frees_the_slot(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, slot_key=ledger.slug, overlap=Overlap.SKIP)
    assert ledger.slot_holder(ledger.slug) == identity
    release(ledger, identity)
    assert ledger.slot_holder(ledger.slug) is None


def test_releasing_twice_changes_it_once(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    assert release(ledger, identity) == [identity]
    after = ledger.row(identity)
    assert release(ledger, identity) == []
    assert ledger.row(identity) == after


def test_what_was_released_runs_again_under_a_higher_token(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    release(ledger, identity)
    assert ledger.dispatch([identity]) == {identity: Status.DISPATCHED}
    token = ledger.token(identity)
    assert token > TOKEN + 1
    assert claim(ledger, identity) == [], "the old token is void"
    [again] = claim(ledger, identity, token=token)
    assert again.attempt == 1


# ---- while it runs ------------------------------------------------------------------------------------------------


def test_the_real_start_is_written_by_its_worker_alone(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING)
    now = ledger.now_us()
    store.note_started(ledger.connection, [(identity, TOKEN, now)], worker_id=2)
    store.note_started(ledger.connection, [(identity, TOKEN - 1, now)], worker_id=1)
    assert ledger.row(identity)["started_at"] is None
    store.note_started(ledger.connection, [(identity, TOKEN, now)], worker_id=1)
    assert ledger.row(identity)["started_at"].timestamp() == pytest.approx(now / 1e6)


def test_a_worker_is_told_what_to_stop(ledger: Ledger) -> None:
    mine, others = ledger.add(status=Status.RUNNING, worker=91)[0], ledger.add(status=Status.RUNNING, worker=92)[0]
    [quiet] = ledger.add(status=Status.RUNNING, worker=91)
    ask_to_cancel(ledger, mine)
    ask_to_cancel(ledger, others)
    assert store.to_cancel(ledger.connection, worker_id=91) == [mine]
    assert quiet != mine
