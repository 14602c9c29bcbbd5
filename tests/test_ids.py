"""Ids of executions: a UUIDv7 whose time is scheduled_at, so that an id alone names its day and its shard."""

import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.executions import ids
from apps.executions.models import Execution

MOMENTS = st.integers(ids.to_ms(ids.EARLIEST), ids.to_ms(ids.LATEST) - 1)


@given(MOMENTS)
def test_an_id_is_a_version_7_uuid_that_tells_scheduled_at(moment: int) -> None:
    identity = ids.new_id(moment)
    read = uuid.UUID(bytes=identity)
    assert read.version == 7
    assert read.variant == uuid.RFC_4122
    assert ids.milliseconds(identity) == moment
    assert ids.scheduled_at(read) == ids.scheduled_at(identity) == ids.from_ms(moment)
    assert ids.day(identity) == moment // ids.MILLISECONDS_A_DAY == ids.day_of(ids.from_ms(moment))


@given(MOMENTS, MOMENTS)
def test_ids_sort_as_their_times_do(one: int, other: int) -> None:
    if one != other:
        assert (ids.new_id(one) < ids.new_id(other)) == (one < other)


@pytest.mark.parametrize("moment", [0, ids.to_ms(ids.EARLIEST) - 1, ids.to_ms(ids.LATEST), 2**48 - 1])
def test_an_id_out_of_range_has_no_day(moment: int) -> None:
    """A lookup must answer that there is none, not overflow."""
    assert ids.scheduled_at(ids.new_id(moment)) is None
    assert Execution.objects.with_id(uuid.UUID(bytes=ids.new_id(moment))).query.is_empty()


def test_a_random_uuid_of_another_version_is_no_error() -> None:
    for _ in range(1000):
        ids.scheduled_at(uuid.uuid4())


def test_many_ids_of_one_instant_differ_and_spread_over_the_shards() -> None:
    made = ids.new_ids([1_790_000_000_000] * 16_000)
    assert len(set(made)) == len(made)
    counts = Counter(ids.shard(i) for i in made)
    assert set(counts) == set(range(ids.SHARDS))
    assert min(counts.values()) > 800


def test_grouping_by_day_keeps_positions() -> None:
    midnight = 20_800 * ids.MILLISECONDS_A_DAY
    made = ids.new_ids([midnight + 5, midnight - 1, midnight, midnight - ids.MILLISECONDS_A_DAY - 1])
    assert list(ids.by_day(made)) == [(20_798, [3]), (20_799, [1]), (20_800, [0, 2])]
    assert list(ids.by_day(made[:1])) == [(20_800, [0])]
    assert list(ids.by_day([])) == []


def test_microseconds_below_a_millisecond_are_cut_off() -> None:
    moment = datetime(2026, 11, 29, 12, 0, 0, 1_999, tzinfo=UTC)
    assert ids.to_ms(moment) * 1000 == ids.to_us(moment) - 999
    assert ids.from_us(ids.to_us(moment)) == moment
    assert ids.from_ms(ids.to_ms(moment)) == moment - timedelta(microseconds=999)
