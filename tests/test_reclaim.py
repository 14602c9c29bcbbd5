"""Taking work back: begun work has cost an attempt, unbegun has not; what was to be cancelled ends; nothing twice."""

import threading
from typing import Any

import pytest

from apps.executions import store
from apps.executions.states import Outcome, Overlap, Status
from chronoweb.runtime import postgres
from tests.stack import EPOCH, Ledger

TOKEN = EPOCH << 32


def reclaim(ledger: Ledger, *identities: bytes, token: int = TOKEN, **options: Any) -> dict[bytes, Status]:
    taken = [(i, token) for i in identities]
    found = store.reclaim(ledger.connection, taken, reason="worker lost", actor="watchdog", **options)
    return {identity: Status(status) for identity, status, _ in found}


def ask_to_cancel(ledger: Ledger, identity: bytes) -> None:
    ledger.connection.execute(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid", (identity,)
    )


def test_what_had_begun_is_tried_again_and_its_attempt_counts(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, attempt=2, slot_key=ledger.slug, overlap=Overlap.SKIP)
    assert reclaim(ledger, identity) == {identity: Status.PRELOADED}
    row = ledger.row(identity)
    assert row["attempt"] == 2
    assert row["token"] == TOKEN + 1
    assert row["worker_id"] is None
    assert row["wake_at"] == row["run_at"]
    assert row["error"] == {"type": "WorkerLost", "message": "worker lost", "class": "crash", "fate": "unknown"}
    [attempt] = ledger.attempts(identity)
    assert (attempt["outcome"], attempt["attempt"], attempt["token"]) == (Outcome.CRASHED, 2, TOKEN)
    assert attempt["worker_id"] == 1
    [event] = ledger.events(identity)
    assert (event["source"], event["target"], event["token"]) == (Status.RUNNING, Status.PRELOADED, TOKEN + 1)
    assert (event["actor"], event["reason"]) == ("watchdog", "worker lost")
    assert ledger.outstanding() == {}
    assert ledger.slot_holder(ledger.slug) is None


def test_what_is_not_idempotent_waits_for_a_person_once_it_had_begun(ledger: Ledger) -> None:
    ledger.define(idempotent=False)
    [begun] = ledger.add(status=Status.RUNNING, attempt=1, max_attempts=4)
    [unbegun] = ledger.add(status=Status.DISPATCHED)
    assert reclaim(ledger, begun, unbegun) == {begun: Status.DEAD_LETTER, unbegun: Status.PRELOADED}
    assert ledger.row(begun)["error"]["message"] == "fate unknown: worker lost"
    [letter] = ledger.select("SELECT * FROM dead_letters WHERE execution_id = encode(%s, 'hex')::uuid", begun)
    assert letter["fingerprint"] == "WorkerLost: fate unknown"
    ledger.define()


def test_what_had_not_begun_goes_back_uncounted(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED, attempt=3)
    assert reclaim(ledger, identity) == {identity: Status.PRELOADED}
    row = ledger.row(identity)
    assert row["attempt"] == 3
    assert row["error"] is None
    assert ledger.attempts(identity) == []


def test_the_last_attempt_makes_a_dead_letter(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.RUNNING, attempt=4, max_attempts=4)
    assert reclaim(ledger, identity) == {identity: Status.DEAD_LETTER}
    row = ledger.row(identity)
    assert row["finished_at"] is not None
    assert row["wake_at"] is None
    [letter] = ledger.select("SELECT * FROM dead_letters WHERE execution_id = encode(%s, 'hex')::uuid", identity)
    assert letter["fingerprint"] == "WorkerLost"


def test_what_kills_its_worker_each_time_runs_out_of_attempts(ledger: Ledger) -> None:
    """Behaviour 5.3: the attempt was counted when it was claimed, so no death of a worker gives one back."""
    [identity] = ledger.add(max_attempts=3)
    for worker in (1, 2, 3):
        ledger.dispatch([identity], worker=worker)
        [claimed] = store.claim(ledger.connection, [identity], [ledger.token(identity)], worker_id=worker)
        assert claimed.attempt == worker
        store.reclaim(
            ledger.connection, [(identity, claimed.token)], reason="worker lost: its lock is gone", actor="watchdog"
        )
    row = ledger.row(identity)
    assert Status(row["status"]) is Status.DEAD_LETTER
    assert row["error"]["message"] == "worker lost: its lock is gone"
    assert ledger.outcomes(identity) == [Outcome.CRASHED] * 3


def test_what_has_no_attempt_left_but_was_not_begun_is_sent_again(ledger: Ledger) -> None:
    """Its last attempt has not been made yet."""
    [identity] = ledger.add(status=Status.DISPATCHED, attempt=3, max_attempts=4)
    assert reclaim(ledger, identity) == {identity: Status.PRELOADED}


@pytest.mark.parametrize("status", [Status.DISPATCHED, Status.RUNNING])
def test_what_was_to_be_cancelled_is(ledger: Ledger, status: Status) -> None:
    [identity] = ledger.add(status=status, attempt=4, slot_key=ledger.slug, overlap=Overlap.SKIP)
    ask_to_cancel(ledger, identity)
    assert reclaim(ledger, identity) == {identity: Status.CANCELLED}
    row = ledger.row(identity)
    assert row["token"] == TOKEN + 1
    assert row["finished_at"] is not None
    assert ledger.outcomes(identity) == ([Outcome.CANCELLED] if status is Status.RUNNING else [])
    assert ledger.slot_holder(ledger.slug) is None


def test_another_token_takes_nothing(ledger: Ledger) -> None:
    """The reaper looked, and meanwhile it was released and sent again."""
    [identity] = ledger.add(status=Status.RUNNING)
    before = ledger.row(identity)
    assert reclaim(ledger, identity, token=TOKEN - 1) == {}
    assert reclaim(ledger, identity, token=TOKEN + 1) == {}
    assert ledger.row(identity) == before
    assert len(ledger.outstanding()) == 1


def test_what_has_ended_in_the_meantime_is_left_alone(ledger: Ledger) -> None:
    ended = [ledger.add(status=s)[0] for s in (Status.COMPLETED, Status.CANCELLED, Status.DEAD_LETTER, Status.RETRYING)]
    before = [ledger.row(i) for i in ended]
    assert reclaim(ledger, *ended) == {}
    assert [ledger.row(i) for i in ended] == before


def test_the_unclaimed_deadline_leaves_alone_what_was_claimed_in_the_last_moment(ledger: Ledger) -> None:
    [identity] = ledger.add(status=Status.DISPATCHED)
    store.claim(ledger.connection, [identity], [TOKEN], worker_id=1)
    assert reclaim(ledger, identity, only_unclaimed=True) == {}
    assert ledger.status(identity) is Status.RUNNING


def test_two_reapers_take_it_once(ledger: Ledger) -> None:
    identities = ledger.add(300, status=Status.RUNNING)
    start = threading.Barrier(2)
    found: list[bytes] = []

    def reap() -> None:
        with postgres.connect("reaper", url=ledger.url) as connection:
            start.wait()
            taken = [(i, TOKEN) for i in identities]
            found.extend(i for i, _, _ in store.reclaim(connection, taken, reason="r", actor="watchdog"))

    threads = [threading.Thread(target=reap) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == identities
    sample = identities[::50]
    assert [len(ledger.attempts(i)) for i in sample] == [1] * len(sample)
    assert [len(ledger.events(i)) for i in sample] == [1] * len(sample)


def test_the_end_and_the_reclaim_of_one_attempt_race_two_hundred_times(ledger: Ledger) -> None:
    """Exactly one of them decides, each time; what was ended stays ended."""
    from tests.test_finish import end

    identities = ledger.add(200, status=Status.RUNNING)
    reaped: set[bytes] = set()
    start = threading.Barrier(2)

    def reap() -> None:
        with postgres.connect("reaper", url=ledger.url) as connection:
            start.wait()
            for identity in identities:
                taken = store.reclaim(connection, [(identity, TOKEN)], reason="r", actor="watchdog")
                reaped.update(i for i, _, _ in taken)

    thread = threading.Thread(target=reap)
    thread.start()
    start.wait()
    ended: set[bytes] = set()
    for identity in identities:
        ended |= store.finish(ledger.connection, [end(ledger, identity)], worker_id=1)
    thread.join()
    assert ended | reaped == set(identities)
    assert not ended & reaped
    for identity, status in zip(identities, ledger.statuses(identities), strict=True):
        assert status is (Status.COMPLETED if identity in ended else Status.PRELOADED)
    assert ledger.outstanding() == {}
