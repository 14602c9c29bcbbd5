"""A worker's slots by class: everybody has some, idle critical ones are lent, a reserve stays, bulk has its cap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.worker.class_slots import BULK, CRITICAL, STANDARD, ClassSlots, Lending
from apps.worker.jobs import Assignment
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.runner_tools import assignment, until, watched

NONE = (0, 0, 0)


def split(total: int, standard: int = 25, bulk: int = 15, reserve: int = 10) -> ClassSlots:
    return ClassSlots.split(total, standard_percent=standard, bulk_percent=bulk, reserve_percent=reserve)


@pytest.mark.parametrize(
    ("total", "own", "reserve"),
    [
        (1, (1, 0, 0), 0),
        (2, (1, 1, 0), 0),
        (3, (1, 1, 1), 0),
        (4, (2, 1, 1), 1),
        (16, (10, 4, 2), 1),
        (20, (12, 5, 3), 2),
        (100, (60, 25, 15), 10),
    ],
)
def test_shares(total: int, own: tuple[int, int, int], reserve: int) -> None:
    slots = split(total)
    assert (slots.own, slots.reserve) == (own, reserve)


@given(st.integers(1, 1024), st.integers(1, 98), st.integers(1, 98), st.integers(0, 100))
def test_shares_are_all_there_is_and_everybody_may_run(total: int, standard: int, bulk: int, reserve: int) -> None:
    slots = split(total, standard, bulk, reserve)
    assert sum(slots.own) == total
    assert min(slots.own) >= (1 if total >= 3 else 0)
    assert slots.own[CRITICAL] >= 1
    assert all(slots.reach(c) >= 1 for c in range(3)), "what has no slot of its own borrows"


def test_standard_borrows_idle_critical_slots_but_for_the_reserve() -> None:
    slots = split(20)
    assert slots.room(NONE, STANDARD, lends_to_bulk=False) == 5 + 12 - 2
    assert slots.room((0, 15, 0), STANDARD, lends_to_bulk=False) == 0
    assert slots.room((0, 15, 0), CRITICAL, lends_to_bulk=False) == 2, "the reserve"
    assert slots.room((9, 5, 0), STANDARD, lends_to_bulk=False) == 1
    assert slots.room((10, 5, 0), STANDARD, lends_to_bulk=False) == 0


def test_bulk_has_its_own_slots_for_a_cap_while_critical_slots_are_not_lent_to_it() -> None:
    slots = split(20)
    assert slots.room(NONE, BULK, lends_to_bulk=False) == 3
    assert slots.room((0, 0, 3), BULK, lends_to_bulk=False) == 0
    assert slots.room(NONE, BULK, lends_to_bulk=True) == 3 + 12 - 2
    assert slots.room((0, 0, 13), BULK, lends_to_bulk=False) == 0, "what was lent before ends by itself"


def test_nobody_borrows_what_is_not_critical_works() -> None:
    slots = split(20)
    assert slots.room(NONE, CRITICAL, lends_to_bulk=True) == 12
    assert slots.room((12, 0, 0), CRITICAL, lends_to_bulk=True) == 0
    assert slots.room((12, 0, 13), STANDARD, lends_to_bulk=True) == 5, "its own, whatever the others do"


@given(st.integers(1, 64), st.lists(st.tuples(st.sampled_from((0, 1, 2)), st.booleans(), st.booleans()), max_size=200))
def test_no_order_of_starts_and_ends_takes_what_is_anothers(total: int, steps: list[tuple[int, bool, bool]]) -> None:
    slots, used = split(total), [0, 0, 0]
    for class_index, starts, lends in steps:
        if not starts:
            used[class_index] = max(0, used[class_index] - 1)
        elif slots.room(used, class_index, lends_to_bulk=lends):
            used[class_index] += 1
        assert sum(used) <= total
        assert all(slots.room(used, c, lends_to_bulk=False) >= slots.own[c] - used[c] for c in (STANDARD, BULK))
        if used[CRITICAL] == 0:
            assert slots.room(used, CRITICAL, lends_to_bulk=True) >= slots.reserve


class HandClock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def test_bulk_borrows_once_no_critical_work_has_come_for_a_while() -> None:
    clock = HandClock()
    lending = Lending(1.0, clock)  # type: ignore[arg-type]
    assert lending.to_bulk
    lending.critical_seen()
    assert not lending.to_bulk
    clock.now += 0.9
    assert not lending.to_bulk
    clock.now += 0.2
    assert lending.to_bulk


# ---- in the runner ------------------------------------------------------------------------------------------------


def sleeping(class_index: int, count: int, path: str) -> list[Assignment]:
    made = [assignment("t.sleep", seconds=600, path=path) for _ in range(count)]
    for one in made:
        one.class_index = class_index
    return made


def test_a_flood_of_bulk_leaves_critical_work_its_slots(tmp_path: object) -> None:
    path = f"{tmp_path}/pids"
    lending = Lending(600, SYSTEM_CLOCK)
    lending.critical_seen()
    with watched(slots=8, class_slots=split(8), lending=lending) as one:
        own = split(8).own
        one.runner.submit(sleeping(BULK, 20, path))
        until(lambda: one.runner.used()[BULK] == own[BULK], "bulk in its own slots")
        assert one.runner.capacity_within(0.05, BULK) == 0
        assert one.runner.free(CRITICAL) == own[CRITICAL]
        one.runner.submit(sleeping(STANDARD, 20, path))
        most = own[STANDARD] + own[CRITICAL] - 1
        until(lambda: one.runner.used()[STANDARD] == most, "standard in its own and lent slots")
        one.runner.submit(sleeping(CRITICAL, 1, path))
        until(lambda: one.runner.used()[CRITICAL] == 1, "critical in the reserve")
        assert one.runner.used() == (1, most, own[BULK])


def test_without_critical_work_bulk_uses_its_slots(tmp_path: object) -> None:
    slots = split(8)
    with watched(slots=8, class_slots=slots, lending=Lending(0, SYSTEM_CLOCK)) as one:
        one.runner.submit(sleeping(BULK, 20, f"{tmp_path}/pids"))
        until(lambda: one.runner.used() == (0, 0, slots.reach(BULK)), "bulk in lent slots")


def test_short_jobs_of_one_class_do_not_wait_behind_those_of_another() -> None:
    """A child has jobs of one class at a time: under a stream of short ones, another class gets a child of its own."""
    with watched(slots=8, class_slots=split(8), lending=Lending(0, SYSTEM_CLOCK)) as one:
        one.run(*(assignment("t.noop") for _ in range(100)))
        flood = [assignment("t.noop") for _ in range(4000)]
        for job in flood:
            job.class_index = BULK
        urgent = assignment("t.noop")
        urgent.class_index = CRITICAL
        one.results.clear()
        one.runner.submit(flood)
        one.runner.submit([urgent])
        one.result_of(urgent)
        assert len(one.results) < len(flood), "it came before the end of the flood"


def test_work_of_all_classes_comes_to_its_end() -> None:
    with watched(slots=4, class_slots=split(4), lending=Lending(600, SYSTEM_CLOCK)) as one:
        jobs = [assignment("t.noop") for _ in range(30)]
        for n, job in enumerate(jobs):
            job.class_index = n % 3
        assert len(one.run(*jobs)) == 30
