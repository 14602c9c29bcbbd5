"""Jitter: stable, bounded, spread."""

from datetime import timedelta
from uuid import UUID

import pytest

from apps.definitions.occurrences import jitter_offset

TENANT = UUID("01890000-0000-7000-8000-000000000001")
TASKS = [UUID(int=number) for number in range(2000)]


def offsets(gap: timedelta | None, **more: timedelta) -> list[timedelta]:
    return [jitter_offset(tenant_id=TENANT, task_id=task, smallest_gap=gap, **more) for task in TASKS]


@pytest.mark.parametrize(
    ("gap", "bound"),
    [
        (None, timedelta(seconds=120)),
        (timedelta(days=1), timedelta(seconds=120)),
        (timedelta(seconds=480), timedelta(seconds=120)),
        (timedelta(seconds=60), timedelta(seconds=15)),
        (timedelta(seconds=1), timedelta(milliseconds=250)),
        (timedelta(milliseconds=7), timedelta(milliseconds=1)),
    ],
)
def test_within_two_minutes_and_a_quarter_of_the_gap(gap: timedelta | None, bound: timedelta) -> None:
    found = offsets(gap)
    assert all(-bound <= offset <= bound for offset in found)
    assert min(found) < -bound * 0.9
    assert max(found) > bound * 0.9


def test_whole_milliseconds() -> None:
    assert all(offset % timedelta(milliseconds=1) == timedelta(0) for offset in offsets(timedelta(seconds=61)))


def test_evenly_spread() -> None:
    found = offsets(None)
    for tenth in range(-5, 5):
        low = tenth * timedelta(seconds=24)
        assert 130 < sum(low <= offset < low + timedelta(seconds=24) for offset in found) < 270


def test_the_same_on_every_machine_and_day() -> None:
    """Literal values: a change here moves every task of every installation."""
    task = UUID("01890000-0000-7000-8000-0000000000aa")
    assert jitter_offset(tenant_id=TENANT, task_id=task, smallest_gap=None) == timedelta(milliseconds=16241)
    assert jitter_offset(tenant_id=task, task_id=TENANT, smallest_gap=None) == timedelta(milliseconds=82113)


def test_no_room_no_jitter() -> None:
    assert set(offsets(timedelta(0))) == {timedelta(0)}
    assert set(offsets(timedelta(days=1), maximum=timedelta(0))) == {timedelta(0)}


def test_a_negative_bound_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="not negative"):
        offsets(timedelta(days=1), maximum=timedelta(seconds=-1))
