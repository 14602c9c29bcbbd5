"""Which workers count as lost: by their lock, by their lease, and never many at once for one event."""

from typing import Any

from apps.executions.rows import WorkerRow
from apps.watchdog.lost_workers import LostWorkers

POSTMASTER = 100.0


def row(worker: int, **fields: Any) -> WorkerRow:
    known = {"lease_over": False, "heartbeat": 1.0, "lock_held": True, "postmaster_start": POSTMASTER}
    return WorkerRow(id=worker, **{**known, **fields})


def lost(judge: LostWorkers, rows: list[WorkerRow], now: float) -> dict[int, str]:
    return {worker.id: reason for worker, reason in judge.judge(rows, now=now)}


def test_a_lock_that_was_seen_held_and_is_free_for_two_seconds_is_a_death() -> None:
    judge = LostWorkers(2.0)
    assert lost(judge, [row(1)], 0.0) == {}
    gone = [row(1, lock_held=False)]
    assert lost(judge, gone, 10.0) == {}
    assert lost(judge, gone, 11.9) == {}
    assert lost(judge, gone, 12.0) == {1: "its session is gone"}


def test_a_lock_that_was_never_seen_held_tells_nothing() -> None:
    """A watchdog that has just started, or a worker that has just registered."""
    judge = LostWorkers(2.0)
    for now in (0.0, 5.0, 50.0):
        assert lost(judge, [row(1, lock_held=False)], now) == {}


def test_a_heartbeat_in_between_starts_the_count_anew() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(1)], 0.0)
    lost(judge, [row(1, lock_held=False)], 1.0)
    assert lost(judge, [row(1, lock_held=False, heartbeat=2.0)], 3.5) == {}
    assert lost(judge, [row(1, lock_held=False, heartbeat=2.0)], 5.0) == {}
    assert lost(judge, [row(1, lock_held=False, heartbeat=2.0)], 5.5) == {1: "its session is gone"}


def test_a_lock_that_comes_back_is_no_death() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(1)], 0.0)
    lost(judge, [row(1, lock_held=False)], 1.0)
    lost(judge, [row(1)], 2.0)
    assert lost(judge, [row(1, lock_held=False)], 3.5) == {}
    assert lost(judge, [row(1, lock_held=False)], 5.5) == {1: "its session is gone"}


def test_a_restart_of_the_server_frees_every_lock_and_is_nobodys_death() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(1), row(2)], 0.0)
    after = [row(n, lock_held=False, postmaster_start=200.0) for n in (1, 2)]
    for now in (1.0, 3.0, 30.0):
        assert lost(judge, after, now) == {}


def test_a_watchdog_that_was_cut_off_itself_begins_anew() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(1)], 0.0)
    lost(judge, [row(1, lock_held=False)], 1.0)
    judge.forget()
    for now in (3.5, 30.0):
        assert lost(judge, [row(1, lock_held=False)], now) == {}
    lost(judge, [row(1)], 31.0)
    lost(judge, [row(1, lock_held=False)], 32.0)
    assert lost(judge, [row(1, lock_held=False)], 34.0) == {1: "its session is gone"}


def test_many_that_vanish_at_once_are_an_event_of_the_network() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(n) for n in range(10)], 0.0)
    gone = [row(n, lock_held=n >= 3) for n in range(10)]
    lost(judge, gone, 1.0)
    assert lost(judge, gone, 5.0) == {}
    expired = [row(n, lock_held=n >= 3, lease_over=n < 3) for n in range(10)]
    assert lost(judge, expired, 31.0) == {}
    assert lost(judge, expired, 33.0) == dict.fromkeys(range(3), "its lease has run out")


def test_two_may_vanish_of_few_and_a_fifth_of_many() -> None:
    for total, vanished, given_up in ((3, 2, True), (3, 3, False), (50, 10, True), (50, 11, False)):
        judge = LostWorkers(2.0)
        lost(judge, [row(n) for n in range(total)], 0.0)
        gone = [row(n, lock_held=n >= vanished) for n in range(total)]
        lost(judge, gone, 1.0)
        assert bool(lost(judge, gone, 4.0)) is given_up, (total, vanished)


def test_a_lease_that_ran_out_needs_no_lock_to_be_seen() -> None:
    judge = LostWorkers(2.0)
    assert lost(judge, [row(1, lease_over=True)], 0.0) == {}
    assert lost(judge, [row(1, lease_over=True)], 2.0) == {1: "its lease has run out"}
    assert lost(judge, [row(1, lease_over=True, lock_held=False)], 3.0) == {1: "its lease has run out"}


def test_who_could_not_renew_is_given_a_moment_once_the_ledger_is_back() -> None:
    """It took no heartbeats for longer than a lease, and the watchdog looks sooner than those who live beat again."""
    judge = LostWorkers(2.0)
    lost(judge, [row(n) for n in range(3)], 0.0)
    for back, cut_off in ((40.0, True), (80.0, False)):  # or paused, together with all others
        if cut_off:
            judge.forget()
        for now, over in ((back, 3), (back + 1, 1)):
            assert lost(judge, [row(n, lease_over=n < over) for n in range(3)], now) == {}
        assert lost(judge, [row(n) for n in range(3)], back + 2) == {}, "each has been heard of in time"


def test_one_is_given_up_for_one_reason() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(1)], 0.0)
    lost(judge, [row(1, lock_held=False)], 1.0)
    assert lost(judge, [row(1, lock_held=False, lease_over=True)], 4.0) == {1: "its session is gone"}
    assert lost(judge, [], 5.0) == {}


def test_sessions_that_end_together_need_not_be_seen_to_end_in_one_look() -> None:
    judge = LostWorkers(2.0)
    lost(judge, [row(n) for n in range(3)], 0.0)
    lost(judge, [row(n, lock_held=n == 2) for n in range(3)], 1.0)
    gone = [row(n, lock_held=False) for n in range(3)]
    lost(judge, gone, 1.3)
    for now in (3.0, 3.3, 10.0):
        assert lost(judge, gone, now) == {}
