"""The crash windows: a daemon is killed in each, and what heals it does so in time; without the healer, it does not.

Every test runs twice: `healed` shows that all is completed exactly once, and prints how long that took beside the bound
of the design, `unhealed` runs with the healer switched off and shows that it was the healer.
"""

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from apps.definitions.models import Task
from apps.executions.models import Execution
from apps.executions.states import Outcome, Overlap, Status
from tests import factories
from tests.chaos.rig import START_SECONDS, Rig, died_of_kill, let_pass, sleeping
from tests.dag_tools import Runs, plan
from tests.waiting import eventually

COUNT = 48


@dataclass(frozen=True)
class Window:
    """One row of the table. within: seconds from the death (for a takeover: included) to all completed."""

    after: str
    before: str
    victim: str
    fault: str
    healer: str
    within: float
    off: tuple[str, ...] = ()


TAKEOVER = 1.0
LOCK_LOST = 0.5  # as the rig is configured; by default it is 2 s, and the bound of the design 3 s
SETTLED_SECONDS = 1.5
"""How long `unhealed` looks, once the successor is at work: the slowest healer needs less."""

WINDOWS = [
    Window(
        "PRELOADED committed",
        "ZADD",
        victim="preloader",
        fault="preloader.preloaded",
        healer="new leader re-adds, due ones first",
        within=TAKEOVER + 2,
        off=("apps.preloader.hydrate.restore",),
    ),
    Window(
        "popped to in-flight",
        "UPDATE",
        victim="dispatcher",
        fault="dispatcher.popped",
        healer="shard's new owner requeues what PostgreSQL calls PRELOADED",
        within=TAKEOVER + 1,
        off=("apps.dispatcher.recovery.recover",),
    ),
    Window(
        "DISPATCHED committed",
        "produced",
        victim="dispatcher",
        fault="dispatcher.committed",
        healer="new owner reclaims in-flight rows that are DISPATCHED",
        within=TAKEOVER + 1,
        off=("apps.dispatcher.recovery.recover",),
    ),
    Window(
        "message read",
        "claim",
        victim="worker",
        fault="worker.received",
        healer="worker lost: its outstanding rows are reclaimed with it",
        within=LOCK_LOST + 1,
        off=("apps.watchdog.daemon.Watchdog.reclaim_from_lost_workers",),
    ),
    Window(
        "claim",
        "completion",
        victim="worker",
        fault="worker.claimed",
        healer="worker's lock gone",
        within=LOCK_LOST + 1,
        off=("apps.watchdog.daemon.Watchdog.reclaim_from_lost_workers",),
    ),
]


PUBLISHED = Window(
    "produced",
    "acknowledged",
    victim="dispatcher",
    fault="dispatcher.published",
    healer="new owner drops in-flight rows that are RUNNING or later",
    within=TAKEOVER + 1,
)


def strike_preloader(rig: Rig, window: Window, off: tuple[str, ...]) -> tuple[list[bytes], subprocess.Popen[bytes]]:
    victim = rig.start("preloader", fault=window.fault, gate="victim")
    rig.start("preloader", off=off, gate="standby")
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    rig.retire("preloader")
    rig.open_gate("victim")
    rig.wait_led("preloader")
    rig.open_gate("standby")
    return rig.due(COUNT, in_ms=500), victim


def strike_dispatcher(rig: Rig, window: Window, off: tuple[str, ...]) -> tuple[list[bytes], subprocess.Popen[bytes]]:
    victim = rig.start("dispatcher", fault=window.fault, gate="both")
    rig.start("dispatcher", off=off, gate="both")
    rig.stand_by("preloader", "dispatcher", "worker")
    rig.warm_up()
    rig.retire("dispatcher")
    rig.open_gate("both")
    rig.wait_shared(2)
    return rig.due(COUNT, in_ms=500), victim


def strike_worker(rig: Rig, window: Window, off: tuple[str, ...]) -> tuple[list[bytes], subprocess.Popen[bytes]]:
    victim = rig.start("worker", fault=f"{window.fault}:2")
    rig.start("watchdog", off=off)
    rig.stand_by("preloader", "dispatcher")
    rig.wait_led("watchdog")
    rig.warm_up()
    let_pass(1)  # the watchdog has looked, and saw the lock held
    return rig.due(COUNT, in_ms=500), victim


STRIKES: dict[str, Callable[[Rig, Window, tuple[str, ...]], tuple[list[bytes], subprocess.Popen[bytes]]]] = {
    "preloader": strike_preloader,
    "dispatcher": strike_dispatcher,
    "worker": strike_worker,
}


def strike(rig: Rig, window: Window, off: tuple[str, ...]) -> list[bytes]:
    """Let the victim die in the window, with others ready to go on; what was due."""
    identities, victim = STRIKES[window.victim](rig, window, off)
    died_of_kill(victim)
    return identities


named = pytest.mark.parametrize("window", WINDOWS, ids=lambda window: f"{window.after}, not {window.before}")


@named
def test_healed(rig: Rig, window: Window) -> None:
    identities = strike(rig, window, off=())
    if window.victim == "worker":
        began = time.monotonic()
        eventually(lambda: not rig.ledger.outstanding())
        took = time.monotonic() - began
        rig.stand_by("worker")
        rig.wait_completed(identities)
    else:
        took = rig.wait_completed(identities)
    rig.assert_once(identities)
    eventually(lambda: not rig.in_flight() & set(identities))
    print(f"{window.after} / {window.before}: {took:.2f} s of {window.within:g}")


@named
def test_unhealed(rig: Rig, window: Window) -> None:
    identities = strike(rig, window, off=window.off)
    if window.victim == "worker":
        rig.replace_worker()
    elif window.victim == "dispatcher":
        rig.wait_shared(1)
    else:
        rig.wait_led("preloader")
    stays_open(rig, identities, seconds=SETTLED_SECONDS + (LOCK_LOST if window.victim == "worker" else 0))


def stays_open(rig: Rig, identities: list[bytes], *, seconds: float = SETTLED_SECONDS) -> None:
    """What has not been completed for so long was not healed."""
    with pytest.raises(AssertionError, match="after"):
        rig.wait_completed(identities, within=seconds)
    print(f"without: {dict(rig.counted(identities))}")


def next_fire_at(task: Task) -> datetime:
    found = Task.objects.get(pk=task.pk).next_fire_at
    assert found is not None
    return found


both = pytest.mark.parametrize("healing", [True, False], ids=["healed", "unhealed"])


@both
def test_occurrences_inserted_and_next_fire_at_not_moved(rig: Rig, healing: bool) -> None:
    """One transaction: a death in the middle leaves neither half. Committed apart, the death leaves half."""
    task = factories.make_task(
        factories.make_principal(), schedule={"type": "interval", "every_seconds": 1800}, overlap_policy="allow_all"
    )
    before = next_fire_at(task)
    Execution.objects.filter(task_id=task.pk).delete()
    mishaps = () if healing else ("insert_outside_the_transaction",)
    died_of_kill(rig.start("preloader", fault="preloader.inserted", mishaps=mishaps))
    left = set(Execution.objects.filter(task_id=task.pk).values_list("id", flat=True))
    assert next_fire_at(task) == before
    assert bool(left) != healing
    if healing:
        rig.stand_by("preloader")
        eventually(lambda: next_fire_at(task) > before + timedelta(minutes=30))
        rows = Execution.objects.filter(task_id=task.pk)
        assert rows.count() == len(set(rows.values_list("nominal_at", flat=True))) >= 2


@both
def test_produced_and_not_acknowledged(rig: Rig, healing: bool) -> None:
    """What was published arrives; the new owner clears the in-flight entries and takes nothing back that runs."""
    off = () if healing else ("apps.dispatcher.recovery.recover",)
    identities, victim = strike_dispatcher(rig, PUBLISHED, off)
    died_of_kill(victim)
    rig.wait_completed(identities)
    rig.assert_once(identities)
    if healing:
        eventually(lambda: not rig.in_flight())
    else:
        rig.wait_shared(1)
        assert rig.in_flight()


@both
def test_claim_committed_and_its_answer_lost(rig: Rig, healing: bool) -> None:
    """The same token and worker ask again and get the same answer; the attempt is counted once."""
    rig.stand_by("preloader", "dispatcher")
    mishaps = ["lose_second_answer:apps.executions.store.claim"]
    rig.start("worker", mishaps=mishaps if healing else [*mishaps, "forget_unanswered_claims"])
    rig.warm_up()
    identities = rig.due(8)
    if not healing:
        stays_open(rig, identities)
        return
    rig.wait_completed(identities)
    rig.assert_once(identities)
    assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}


@both
def test_completion_committed_and_its_answer_lost(rig: Rig, healing: bool) -> None:
    """Zero rows at the second try: read again, the row shows the worker's own outcome, and the worker goes on."""
    rig.stand_by("preloader", "dispatcher")
    off = () if healing else ("apps.worker.zombies.is_own",)
    mishaps = ["lose_second_answer:apps.executions.store.finish"]
    worker = rig.start("worker", mishaps=mishaps if healing else [*mishaps, "forget_written_attempts"], off=off)
    rig.warm_up()
    identities = rig.due(8)
    rig.wait_completed(identities)
    if not healing:
        assert worker.wait(START_SECONDS) == 0  # it took itself for a zombie
        assert rig.actions(worker)["worker.zombie"]
        return
    more = rig.due(8)
    rig.wait_completed(more)
    rig.assert_once([*identities, *more])
    assert set(rig.runs().values()) == {1}
    assert not rig.actions(worker)["worker.zombie"]


@both
def test_completed_and_the_slot_given_on(rig: Rig, healing: bool) -> None:
    """The slot is free with the completion; the wake-up of its waiter is lost with the worker: the watchdog's."""
    rig.stand_by("preloader", "dispatcher")
    key = f"task:{rig.prefix}"
    victim = rig.start("worker", fault="worker.completed:2")
    rig.start("watchdog", off=() if healing else ("apps.watchdog.daemon.Watchdog.free_leaked_places",))
    rig.wait_led("watchdog")
    rig.warm_up()
    identities = rig.due(3, slot_key=key, overlap=Overlap.BUFFER_ALL)
    died_of_kill(victim)
    rig.replace_worker()
    assert rig.counted(identities)[Status.COMPLETED] >= 1
    if healing:
        rig.wait_completed(identities)
        rig.assert_once(identities)
    else:
        stays_open(rig, identities)
        assert rig.counted(identities) == {Status.COMPLETED: 1, Status.SCHEDULED: 2}


@both
def test_released_and_not_in_the_hot_tier(rig: Rig, healing: bool) -> None:
    """A drained worker dies before it could wake the preloader, whose poll sees wake_at. Without poll: nothing does."""
    rig.ledger.define(handler=sleeping(30, rig.record))
    rig.stand_by("dispatcher")
    rig.stand_by("preloader", preloader_poll_seconds=0.2 if healing else 60)
    victim = rig.start("worker", fault="worker.released", CHRONOWEB_DRAIN_GRACE_SECONDS="0")
    rig.wait_workers(1)
    # One alone: a drain gives back in pieces, what is unclaimed first, and the fault strikes after the first.
    identities = rig.due()
    eventually(lambda: rig.counted(identities) == {Status.RUNNING: 1})
    victim.send_signal(signal.SIGTERM)
    died_of_kill(victim)
    back = Status.PRELOADED
    if not healing:
        assert all(rig.ledger.row(i)["wake_at"] for i in identities)
    rig.stand_by("worker")
    if healing:
        eventually(lambda: rig.counted(identities) == {Status.RUNNING: 1})
        assert [rig.ledger.row(i)["attempt"] for i in identities] == [1]  # what was given back is not counted
    else:
        rig.wait_workers(1)
        stays_open(rig, identities)
        assert rig.counted(identities) == {back: 1}


@both
def test_reclaimed_and_not_in_the_hot_tier(rig: Rig, healing: bool) -> None:
    """The watchdog dies before it could wake the preloader, whose poll sees wake_at. Without poll: nothing does."""
    rig.stand_by("dispatcher", "worker")
    rig.stand_by("preloader", preloader_poll_seconds=0.2 if healing else 60)
    rig.warm_up()
    identities = rig.ledger.add(8, status=Status.DISPATCHED, worker=2_000_000)
    died_of_kill(rig.start("watchdog", fault="watchdog.reclaimed", CHRONOWEB_CLAIM_DEADLINE_SECONDS="1"))
    if healing:
        rig.wait_completed(identities)
        rig.assert_once(identities)
        assert {rig.ledger.row(i)["attempt"] for i in identities} == {1}  # what was never claimed is not counted
    else:
        stays_open(rig, identities)
        assert rig.counted(identities) == {Status.PRELOADED: 8}


def chain(rig: Rig, *names: str) -> tuple[Runs, bytes]:
    """A run of a chain, begun."""
    runs = Runs(rig.ledger)
    described = [{"name": name, "max_attempts": 3} for name in names]
    run = runs.start(plan(rig.ledger, described, list(pairwise(names))))
    rig.wake()
    return runs, run


@both
def test_handed_over_and_not_started(rig: Rig, healing: bool) -> None:
    """The worker that ends a node dies before it starts the next, which is its own already: reclaimed with it."""
    rig.stand_by("preloader", "dispatcher")
    victim = rig.start("worker", fault="worker.handed")
    off = () if healing else ("apps.watchdog.daemon.Watchdog.reclaim_from_lost_workers",)
    rig.start("watchdog", off=off)
    rig.wait_led("watchdog")
    rig.warm_up()
    let_pass(1)  # the watchdog has looked, and saw the lock held
    runs, run = chain(rig, "a", "b", "c")
    died_of_kill(victim)
    if not healing:
        [b] = runs.executions(run, "b")
        assert (b["status"], b["attempt"]) == (Status.RUNNING, 1)
        assert rig.ledger.outstanding()[b["id"].bytes] == (b["worker_id"], b["token"])
        rig.replace_worker()
        let_pass(SETTLED_SECONDS + LOCK_LOST)
        assert runs.status(run) == "running"
        return
    rig.replace_worker()
    eventually(lambda: runs.status(run) == "succeeded")
    rig.assert_once([row["id"].bytes for row in runs.executions(run)])
    [a], [b] = (runs.executions(run, name) for name in ("a", "b"))
    assert b["attempt"] == 2  # it may have been begun
    crashed, succeeded = rig.ledger.attempts(b["id"].bytes)
    assert crashed["outcome"] == Outcome.CRASHED
    assert crashed["worker_id"] == rig.ledger.attempts(a["id"].bytes)[0]["worker_id"]
    assert crashed["token"] < succeeded["token"] == b["token"]


@both
def test_handed_over_and_the_answer_lost(rig: Rig, healing: bool) -> None:
    """The worker does not know what it has begun: it asks with the tokens that it had offered. Else nobody would."""
    rig.stand_by("preloader", "dispatcher")
    off = () if healing else ("apps.worker.handing_over.HandingOver.ask_for_unanswered",)
    rig.start("worker", mishaps=["lose_second_answer:apps.worker.completer.finish_of_runs"], off=off)
    rig.warm_up()
    runs, run = chain(rig, "a", "b", "c", "d", "e")
    if not healing:
        let_pass(SETTLED_SECONDS)
        assert runs.status(run) == "running"
        return
    eventually(lambda: runs.status(run) == "succeeded")
    rows = runs.executions(run)
    rig.assert_once([row["id"].bytes for row in rows])
    assert {row["attempt"] for row in rows} == {1}
    assert set(rig.runs().values()) == {1}
