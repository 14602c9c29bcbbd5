"""SIGTERM under load: what runs is finished or given back, and no attempt is lost for it."""

import os
import signal
import threading
import time
from pathlib import Path

import psutil
import pytest

from apps.executions.states import Outcome, Status
from tests.chaos.rig import START_SECONDS, Rig, died_of_kill, held
from tests.waiting import eventually


def test_sigterm_under_load_burns_no_attempt(rig: Rig) -> None:
    """One of two workers is told to stop in the middle of a backlog, and its successor too: a rolling deploy."""
    rig.stand_by("preloader", "dispatcher", "watchdog")
    first = rig.start("worker")
    rig.warm_up()
    identities = [i for n in range(30) for i in rig.due(40, in_ms=300 + 100 * n)]
    eventually(lambda: rig.counted(identities)[Status.COMPLETED] > 40)
    second = rig.start("worker")
    rig.wait_workers(2)
    first.send_signal(signal.SIGTERM)
    assert first.wait(START_SECONDS) == 0
    third = rig.start("worker")
    rig.wait_workers(2)
    second.send_signal(signal.SIGTERM)
    assert second.wait(START_SECONDS) == 0
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert third.poll() is None
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    # What a dispatcher that was held up sent to who had gone already is taken back unclaimed.
    assert {outcome for i in identities for outcome in rig.ledger.outcomes(i)} <= {Outcome.SUCCEEDED, Outcome.RELEASED}


@pytest.mark.drill
@pytest.mark.timeout(600)
def test_every_worker_is_restarted_three_times_under_five_hundred_a_second(rig: Rig) -> None:
    """One after another, its successor first: nothing is lost, no attempt is burnt, nothing is committed twice."""
    rig.stand_by("preloader", "dispatcher", "watchdog")
    workers = [rig.start("worker") for _ in range(2)]
    rig.wait_workers(2)
    rig.warm_up()
    identities: list[bytes] = []
    enough = threading.Event()

    def load() -> None:
        began = time.monotonic()
        while not enough.wait(max(0.0, began + len(identities) / 500 - time.monotonic())):
            identities.extend(rig.due(50, in_ms=1000))

    loading = threading.Thread(target=load)
    loading.start()
    try:
        for _ in range(3):
            for position in range(2):
                successor = rig.start("worker")
                rig.wait_workers(3)
                workers[position].send_signal(signal.SIGTERM)
                assert workers[position].wait(START_SECONDS) == 0
                workers[position] = successor
    finally:
        enough.set()
        loading.join()
    rig.wait_completed(identities)
    rig.assert_once(identities)
    print(f"{len(identities)} executions, {6} workers replaced")
    burnt = rig.ledger.select(
        "SELECT count(*) AS n FROM executions WHERE attempt <> 1 AND tenant_id = encode(%s, 'hex')::uuid",
        rig.ledger.tenant,
    )
    assert burnt[0]["n"] == 0
    assert {i: n for i, n in rig.runs().items() if n > 1} == {}


def test_what_does_not_fit_in_the_grace_is_given_back_uncounted(rig: Rig) -> None:
    """Attempts longer than the grace are stopped, told as released, and begun again elsewhere with the same number."""
    rig.ledger.define(handler=held(rig.folder))
    rig.stand_by("preloader", "dispatcher")
    worker = rig.start("worker", CHRONOWEB_DRAIN_GRACE_SECONDS="0.2")
    rig.wait_workers(1)
    identities = rig.due(6)
    # Of four slots one is for bulk work and one the reserve of the critical.
    eventually(lambda: rig.begun() == 2)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(START_SECONDS) == 0
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {0}
    rig.let_end()
    rig.stand_by("worker")
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    outcomes = [rig.ledger.outcomes(i) for i in identities]
    assert sorted(map(len, outcomes)) == [1, 1, 1, 1, 2, 2]
    assert all(found[0] is Outcome.RELEASED for found in outcomes if len(found) == 2)


CONTAINED = ("/usr/bin/unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What a container engine does about processes: the first one inside is number 1, and signals that it has no handler
for do not reach it."""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces")
@pytest.mark.parametrize(
    "shell", [False, pytest.param(True, marks=pytest.mark.drill)], ids=["itself", "a shell that execs it"]
)
def test_a_worker_that_is_process_1_hears_sigterm(rig: Rig, shell: bool) -> None:
    """As in a container: drained by its own signal, nothing lost, no attempt used, nothing left behind."""
    rig.ledger.define(handler=held(rig.folder))
    rig.stand_by("preloader", "dispatcher")
    entry = ("sh", "-c", 'cd . && exec "$@"', "sh") if shell else ()
    outer = rig.start("worker", before=[*CONTAINED, *entry])
    rig.wait_workers(1)
    identities = rig.due(2)
    # RUNNING is what is claimed: what has not begun yet when the signal comes is given back.
    eventually(lambda: rig.begun() == 2)
    [first] = psutil.Process(outer.pid).children()
    assert Path(f"/proc/{first.pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split()[-1] == "1"
    first.send_signal(signal.SIGTERM)
    eventually(lambda: rig.actions(outer)["worker.draining"])
    rig.let_end()
    assert outer.wait(START_SECONDS) == 0
    assert rig.actions(outer)["worker.draining"] == 1
    assert rig.counted(identities)[Status.COMPLETED] == 2
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}
    assert [row["state"] for row in rig.ledger.select("SELECT state FROM workers")] == ["stopped"]


def test_cancel_during_a_drain_is_obeyed(rig: Rig) -> None:
    """A draining worker still hears that an execution is to stop."""
    rig.ledger.define(handler=held(rig.folder))
    rig.stand_by("preloader", "dispatcher")
    worker = rig.start("worker")
    rig.wait_workers(1)
    [identity] = rig.due(1)
    eventually(rig.begun)
    worker.send_signal(signal.SIGTERM)
    eventually(lambda: rig.actions(worker)["worker.draining"])
    rig.ledger.select(
        "UPDATE executions SET cancel_requested_at = clock_timestamp() WHERE id = encode(%s, 'hex')::uuid RETURNING id",
        identity,
    )
    eventually(lambda: rig.ledger.status(identity) is Status.CANCELLED)
    assert worker.wait(START_SECONDS) == 0


@pytest.mark.drill
def test_a_worker_killed_in_the_middle_of_a_backlog(rig: Rig) -> None:
    """kill -9 of one of two: what it had is taken back, the other does it all, each once."""
    rig.stand_by("preloader", "dispatcher", "watchdog")
    processes = [rig.start("worker") for _ in range(2)]
    rig.wait_workers(2)
    rig.warm_up()
    identities = [i for n in range(20) for i in rig.due(40, in_ms=300 + 100 * n)]
    eventually(lambda: rig.counted(identities)[Status.COMPLETED] > 100)
    processes[0].kill()
    died_of_kill(processes[0])
    rig.wait_completed(identities)
    rig.assert_once(identities)
