"""Long work goes on behind its last checkpoint on another worker, whether its own was killed or told to end."""

import signal
from typing import Any

import pytest

from apps.executions.states import Outcome
from tests.chaos.rig import START_SECONDS, Rig
from tests.waiting import eventually

LONG = {"type": "python", "name": "demo.long_haul"}


def checkpointed(rig: Rig, identity: bytes) -> dict[str, Any] | None:
    found = rig.ledger.select("SELECT * FROM progress WHERE execution_id = encode(%s, 'hex')::uuid", identity)
    return found[0] if found and found[0]["checkpoint"] else None


@pytest.mark.parametrize(
    ("number", "code", "outcome", "attempts"),
    [
        (signal.SIGKILL, -signal.SIGKILL, Outcome.CRASHED, 2),
        (signal.SIGTERM, 0, Outcome.RELEASED, 1),
    ],
    ids=["killed", "told to end"],
)
def test_another_worker_goes_on_behind_the_checkpoint(
    rig: Rig, number: signal.Signals, code: int, outcome: Outcome, attempts: int
) -> None:
    rig.stand_by("preloader", "dispatcher", "watchdog")
    # Nothing but being asked ends it early: the grace is longer than the test.
    first = rig.start("worker", CHRONOWEB_DRAIN_GRACE_SECONDS="600")
    rig.wait_workers(1)
    rig.warm_up()
    rig.ledger.define(handler=LONG, timeout=300, steps=150, seconds_each=0.05, checkpoint_every=10)
    [identity] = rig.due()
    eventually(lambda: checkpointed(rig, identity))
    rig.start("worker")
    rig.wait_workers(2)
    first.send_signal(number)
    assert first.wait(START_SECONDS) == code
    rig.wait_completed([identity])
    row = rig.ledger.row(identity)
    assert 0 < row["result"]["this_attempt_began_at"] < 150
    assert row["attempt"] == attempts
    tries = rig.ledger.attempts(identity)
    assert [Outcome(one["outcome"]) for one in tries] == [outcome, Outcome.SUCCEEDED]
    assert tries[0]["worker_id"] != tries[1]["worker_id"]
    rig.assert_once([identity])
    eventually(lambda: not rig.ledger.select("SELECT 1 FROM progress"))
    if number is signal.SIGTERM:
        assert {"worker.draining", "worker.released", "worker.stopped"} <= rig.actions(first).keys()
        [state] = rig.ledger.select("SELECT state FROM workers WHERE id = %s", tries[0]["worker_id"])
        assert state["state"] == "stopped"
