"""What a worker has claimed and has no slot for goes elsewhere, whatever dies on the way: once, and uncounted."""

import random
import signal

import pytest

from apps.executions.states import Outcome, Status
from tests.chaos.rig import START_SECONDS, Rig, died_of_kill, let_pass, sleeping
from tests.waiting import eventually

LEASES = {"CHRONOWEB_WORKER_LEASE_SECONDS": "5", "CHRONOWEB_HEARTBEAT_SECONDS": "1"}


def _promise_much(rig: Rig) -> None:
    """From now on the workers believe that what comes takes a moment."""
    rig.wait_completed(rig.due(60, in_ms=0), within=START_SECONDS)


def _nothing_is_left(rig: Rig) -> None:
    left = "SELECT (SELECT count(*) FROM outstanding) + (SELECT count(*) FROM slots)"
    left += " + (SELECT count(*) FROM slot_waiters) AS n"
    eventually(lambda: rig.ledger.select(left)[0]["n"] == 0, seconds=60)


@pytest.mark.drill
def test_killed_when_the_ledger_has_it_back(rig: Rig) -> None:
    """Before it has told anybody: the preloader finds it, the dead worker's others are taken back."""
    rig.stand_by("preloader", "dispatcher", "watchdog")
    doomed = rig.start("worker", fault="worker.stranded", **LEASES)
    _promise_much(rig)
    rig.ledger.define(handler=sleeping(6, rig.record))
    identities = rig.due(12, in_ms=0)
    died_of_kill(doomed)
    released = [i for i in identities if Outcome.RELEASED in rig.ledger.outcomes(i)]
    assert released
    rig.stand_by("worker", worker_slots=16)
    rig.wait_completed(identities, within=2 * START_SECONDS)
    rig.assert_once(identities)
    for identity in released:
        assert rig.ledger.row(identity)["attempt"] == 1, "the hand-back was not counted"
    _nothing_is_left(rig)


@pytest.mark.drill
@pytest.mark.timeout(900)
def test_killed_again_and_again(rig: Rig) -> None:
    """Long and short work of one class, keys with few places, and workers that die in the midst of it."""
    draw = random.Random(12)  # noqa: S311 - draws test cases
    rig.stand_by("preloader", "dispatcher", "watchdog")
    workers = [rig.start("worker", **LEASES) for _ in range(2)]
    rig.wait_workers(2)
    _promise_much(rig)
    short = rig.ledger.version
    two_at_once = {"key": "k", "limit": 2, "when_full": "queue"}
    keyed = rig.ledger.define(handler=sleeping(1, rig.record), concurrency=two_at_once)
    long = rig.ledger.define(handler=sleeping(4, rig.record))
    identities: list[bytes] = []
    for number in range(12):
        rig.ledger.version = long
        identities += rig.due(4, in_ms=0, max_attempts=1000)
        rig.ledger.version = keyed
        identities += rig.due(2, in_ms=0, max_attempts=1000, concurrency_key=f"key:x:{number % 3}")
        rig.ledger.version = short
        identities += rig.due(30, in_ms=0, max_attempts=1000)
        let_pass(draw.uniform(1, 3))
        which = draw.randrange(2)
        workers[which].send_signal(draw.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM]))
        workers[which] = rig.start("worker", **LEASES)
    rig.wait_completed(identities, within=4 * START_SECONDS)
    rig.assert_once(identities)
    _nothing_is_left(rig)
    outcomes = [outcome for i in identities for outcome in rig.ledger.outcomes(i)]
    print({outcome.word: outcomes.count(outcome) for outcome in Outcome})
    for identity in identities:
        found = rig.ledger.outcomes(identity)
        row = rig.ledger.row(identity)
        assert row["attempt"] == sum(outcome is not Outcome.RELEASED for outcome in found), found
        assert row["status"] == Status.COMPLETED
