"""Processes that are paused, not dead: whoever comes back late writes nothing."""

import signal
import statistics
import subprocess
import time
from collections import Counter
from urllib.request import urlopen

import psutil
import pytest

from apps.executions import ids
from apps.executions.states import Outcome
from tests.chaos.rig import START_SECONDS, Rig, held, let_pass
from tests.waiting import eventually

SHORT = {"CHRONOWEB_LEASE_TTL_SECONDS": "2", "CHRONOWEB_LEASE_RENEW_SECONDS": "0.5"}


# ---- a worker -----------------------------------------------------------------------------------------------------


def zombie(rig: Rig, *, lease: float, heartbeat: float, stopped: float) -> None:
    """Stop a worker in the middle of an attempt past its lease, then let it go on."""
    rig.environment |= {
        "CHRONOWEB_WORKER_LEASE_SECONDS": str(lease),
        "CHRONOWEB_HEARTBEAT_SECONDS": str(heartbeat),
        "CHRONOWEB_DRAIN_GRACE_SECONDS": "0",
    }
    rig.stand_by("preloader", "dispatcher", "watchdog")
    worker = rig.start("worker", "--health-port", "0")
    rig.warm_up()
    rig.ledger.define(handler=held(rig.folder))
    identities = rig.due(2)  # as many as begin: what has no slot goes elsewhere
    eventually(lambda: rig.begun() == 2)
    tokens = {i: rig.ledger.token(i) for i in identities}
    worker.send_signal(signal.SIGSTOP)
    rig.let_end()
    began = time.monotonic()
    rig.stand_by("worker")
    rig.wait_completed(identities, within=lease + START_SECONDS)
    let_pass(stopped - (time.monotonic() - began))
    worker.send_signal(signal.SIGCONT)
    # Its programs have ended meanwhile; it tries to commit what they returned, finds out, and ends by itself.
    assert worker.wait(START_SECONDS) == 0
    assert rig.actions(worker)["worker.zombie"] >= 1
    rig.assert_once(identities)
    for identity in identities:
        assert rig.ledger.outcomes(identity) == [Outcome.CRASHED, Outcome.SUCCEEDED]
        assert rig.ledger.row(identity)["attempt"] == 2
        assert rig.ledger.token(identity) > tokens[identity]
        reclaims = [event for event in rig.ledger.events(identity) if event["actor"] == "watchdog"]
        assert len(reclaims) == 1


def test_a_worker_stopped_past_its_lease_commits_nothing_and_ends(rig: Rig) -> None:
    zombie(rig, lease=4, heartbeat=0.5, stopped=0)


@pytest.mark.drill
@pytest.mark.timeout(300)
def test_a_worker_stopped_for_forty_seconds_commits_nothing_and_ends(rig: Rig) -> None:
    zombie(rig, lease=30, heartbeat=10, stopped=40)


# ---- those who lead -----------------------------------------------------------------------------------------------


def metric(rig: Rig, port: int, name: str) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).split()[1])


def silent_preloader(rig: Rig) -> float:
    """Stop the leader past its TTL and resume it; how long the takeover took."""
    first = rig.start("preloader", "--health-port", "0")
    rig.stand_by("dispatcher", "worker")
    rig.warm_up()
    leader = rig.holder("preloader")
    first.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    second = rig.start("preloader", "--health-port", "0")
    after = rig.wait_led("preloader", after=leader)
    took = time.monotonic() - stopped
    assert leader is not None
    assert after[1] > leader[1]
    rig.warm_up()
    before = metric(rig, rig.port(first, resumed=True), "chronoweb_preloaded_total")
    identities = rig.due(48)
    rig.wait_completed(identities)
    # It stands back, long enough that it could have taken the role again if its lock had been free.
    let_pass(2)
    assert metric(rig, rig.port(first), "chronoweb_preloaded_total") == before
    assert metric(rig, rig.port(second), "chronoweb_preloaded_total") >= 48
    assert rig.holder("preloader") == after
    rig.assert_once(identities)
    return took


def test_a_preloader_stopped_past_its_ttl_marks_nothing_and_does_not_lead_again(rig: Rig) -> None:
    rig.environment |= SHORT | {"CHRONOWEB_LEASE_TTL_SECONDS": "5"}  # its heir must never be late for its own
    silent_preloader(rig)


@pytest.mark.drill
def test_a_silent_preloader_is_replaced_within_sixteen_seconds(rig: Rig) -> None:
    took = silent_preloader(rig)
    print(f"silent preloader replaced after {took:.2f} s")
    assert took < 16


def test_a_dispatcher_stopped_between_pop_and_update_dispatches_nothing_when_resumed(rig: Rig) -> None:
    """It stops itself with executions in hand; when it goes on, its epochs are stale and its UPDATE moves no row."""
    rig.environment |= SHORT
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    rig.retire("dispatcher")
    first = rig.start("dispatcher", "--health-port", "0", mishaps=["stop_itself:dispatcher.popped"])
    rig.wait_shared(1)
    before = rig.epochs()
    identities = rig.due(48, in_ms=600)
    # Those that had come to the hot tier when it popped: not all, where the preloader was late.
    eventually(lambda: psutil.Process(first.pid).status() == psutil.STATUS_STOPPED)
    assert rig.in_flight()
    second = rig.start("dispatcher", "--health-port", "0")
    rig.wait_completed(identities)
    assert metric(rig, rig.port(second), "chronoweb_dispatched_total") == 48
    assert metric(rig, rig.port(first, resumed=True), "chronoweb_dispatched_total") == 0
    rig.wait_shared(2)  # it has come back as a member under new epochs
    rig.assert_once(identities)
    for identity in identities:
        assert rig.ledger.row(identity)["token"] >> 32 > before[ids.shard(identity)]
    more = rig.due(48)
    rig.wait_completed(more)
    rig.assert_once(more)


@pytest.mark.drill
def test_a_silent_dispatcher_is_replaced_within_sixteen_seconds(rig: Rig) -> None:
    """Stopped with every shard, at the default TTL; when it is resumed it dispatches nothing of what it held."""
    first = rig.start("dispatcher", "--health-port", "0")
    rig.stand_by("preloader", "worker")
    rig.warm_up()
    rig.wait_shared(1)
    before = rig.shards()
    first.send_signal(signal.SIGSTOP)
    stopped = time.monotonic()
    rig.start("dispatcher", "--health-port", "0")
    identities = rig.due(48)
    eventually(lambda: rig.shards().keys().isdisjoint(before) and sum(rig.shards().values()) == ids.SHARDS)
    took = time.monotonic() - stopped
    print(f"silent dispatcher replaced after {took:.2f} s")
    rig.wait_completed(identities)
    first.send_signal(signal.SIGCONT)
    rig.wait_shared(2)
    rig.assert_once(identities)
    assert took < 16


# ---- takeover after a kill ----------------------------------------------------------------------------------------


def wait_started(rig: Rig, process: subprocess.Popen[bytes], role: str) -> None:
    eventually(lambda: rig.actions(process)[f"{role}.started"])


def takeovers(rig: Rig, role: str, trials: int) -> list[float]:
    """Seconds from a kill -9 of the leading preloader, or of one of two dispatchers, to its replacement."""
    took = []
    first = rig.start(role)
    rig.wait_led("preloader") if role == "preloader" else rig.wait_shared(1)
    for _ in range(trials):
        second = rig.start(role)
        wait_started(rig, second, role)
        leader = rig.holder("preloader")
        if role == "dispatcher":
            rig.wait_shared(2)
        first.kill()
        began = time.monotonic()
        first.wait()
        if role == "preloader":
            rig.wait_led("preloader", after=leader)
        else:
            rig.wait_shared(1)
        took.append(time.monotonic() - began)
        first = second
    return took


ROLES = pytest.mark.parametrize("role", ["preloader", "dispatcher"])


@ROLES
def test_a_killed_leader_is_replaced_long_before_its_lease_ends(rig: Rig, role: str) -> None:
    rig.environment["CHRONOWEB_LEASE_TTL_SECONDS"] = "300"
    assert len(takeovers(rig, role, 2)) == 2


@pytest.mark.drill
@pytest.mark.timeout(600)
@ROLES
def test_twenty_killed_leaders_are_each_replaced_within_a_second(rig: Rig, role: str) -> None:
    took = takeovers(rig, role, 20)
    print(f"{role}: takeover after kill -9, 20 trials: median {statistics.median(took):.3f} s, max {max(took):.3f} s")
    assert max(took) < 1


# ---- many ---------------------------------------------------------------------------------------------------------


def two_dispatchers(rig: Rig, count: int) -> None:
    dispatchers = [rig.start("dispatcher", "--health-port", "0") for _ in range(2)]
    rig.stand_by("preloader", "worker")
    rig.wait_shared(2)
    rig.warm_up()
    identities = rig.due(count, in_ms=1500)
    rig.wait_completed(identities, within=30 + count / 100)
    rig.assert_once(identities)
    assert {i: n for i, n in rig.runs().items() if n > 1} == {}
    did = [metric(rig, rig.port(one), "chronoweb_dispatched_total") for one in dispatchers]
    assert sum(did) == count + 1
    assert min(did) > count / 4, did


def test_two_dispatchers_double_nothing_and_both_do_their_part(rig: Rig) -> None:
    two_dispatchers(rig, 2000)


@pytest.mark.drill
def test_two_dispatchers_over_ten_thousand(rig: Rig) -> None:
    two_dispatchers(rig, 10_000)


def test_dispatchers_join_and_leave_all_the_time(rig: Rig) -> None:
    """Six join one after another and each leaves again, one is killed meanwhile: everything runs once all the same."""
    killed = rig.start("dispatcher")
    rig.stand_by("preloader", "worker")
    rig.warm_up()
    identities = [i for n in range(20) for i in rig.due(40, in_ms=500 + 200 * n)]
    living = [rig.another("dispatcher")]
    for number in range(6):
        rig.wait_shared(2 if number < 3 else 1)
        living.append(rig.another("dispatcher"))
        rig.wait_shared(3 if number < 3 else 2)
        living.pop(0).stop()
        if number == 2:
            killed.kill()
            killed.wait()
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert Counter(rig.ledger.row(i)["attempt"] for i in identities) == {1: len(identities)}
