"""Materialising is a pure function: occurrences become rows, late ones run or are skipped by the catch-up rule."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.definitions.plans import SKIPPED_ROWS, materialise_task, misfire_window
from apps.definitions.scheduling import next_run
from apps.executions import ids
from apps.executions.states import Origin, Overlap, Status

NOW = datetime(2026, 3, 10, 12, 0, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def task_of(schedule: dict[str, Any], *, next_fire_at: datetime | None, **fields: Any) -> Task:
    defaults = {"catchup_seconds": 0, "retry_policy": {"max_attempts": 4}, "version_id": 9, "overlap_policy": "skip"}
    return Task(
        tenant_id=UUID(int=1),
        schedule=Schedule.parse(schedule).to_json(),
        next_fire_at=next_fire_at,
        **{**defaults, **fields},
    )


def times(rows: Any) -> list[datetime]:
    return [ids.from_us(row.scheduled_us) for row in rows]


MINUTELY = {"type": "cron", "expression": "* * * * *"}


def test_what_is_ahead_becomes_rows_and_next_fire_at_is_the_first_that_is_not() -> None:
    task = task_of(MINUTELY, next_fire_at=NOW + timedelta(minutes=1))
    made = materialise_task(task, now=NOW, horizon=NOW + timedelta(minutes=4), limit=1000)
    assert times(made.executions) == [NOW + timedelta(minutes=n) for n in (1, 2, 3)]
    assert made.next_fire_at == NOW + timedelta(minutes=4)
    row = made.executions[0]
    assert ids.milliseconds(row.id) * 1000 == row.scheduled_us == row.nominal_us == row.run_us
    assert row.idempotency_key == f"{task.id}@2026-03-10T12:01:00+00:00"
    assert (row.origin, row.overlap, row.slot_key) == (Origin.SCHEDULE, Overlap.SKIP, f"task:{task.id}")
    assert (row.version_id, row.max_attempts, row.status) == (9, 4, Status.SCHEDULED)


def test_the_limit_leaves_the_rest_for_the_next_pass() -> None:
    task = task_of(MINUTELY, next_fire_at=NOW + timedelta(minutes=1))
    made = materialise_task(task, now=NOW, horizon=NOW + HOUR, limit=2)
    assert len(made.executions) == 2
    assert made.next_fire_at == NOW + timedelta(minutes=3)


def test_nothing_left() -> None:
    once = task_of({"type": "one_shot", "run_at": "2026-03-10T12:30:00Z"}, next_fire_at=NOW + HOUR / 2)
    made = materialise_task(once, now=NOW, horizon=NOW + HOUR, limit=10)
    assert (len(made.executions), made.next_fire_at) == (1, None)
    assert materialise_task(task_of({"type": "manual"}, next_fire_at=None), now=NOW, horizon=NOW, limit=1) == (
        [],
        [],
        None,
    )


@pytest.mark.parametrize(("catchup", "runs"), [(0, 0), (60, 1), (3 * 3600, 180)])
def test_three_hours_away(catchup: int, runs: int) -> None:
    """Behaviour 2.1: none, the latest, or all of 180 missed slots; the next slot fires regardless."""
    start = NOW - 3 * HOUR + timedelta(seconds=30)  # between two slots
    now = NOW + timedelta(seconds=30)
    task = task_of(MINUTELY, next_fire_at=start, catchup_seconds=catchup)
    made = materialise_task(task, now=now, horizon=now + timedelta(minutes=1), limit=1000)
    late = [at for at in times(made.executions) if at <= now]
    assert len(late) == runs
    assert [at for at in times(made.executions) if at > now] == [NOW + timedelta(minutes=1)]
    assert all(row.run_us >= ids.to_us(now) for row in made.executions)
    skipped = [row for row, _ in made.skipped]
    assert len(skipped) == min(180 - runs, SKIPPED_ROWS)
    assert {row.status for row in skipped} <= {Status.SKIPPED}
    assert times(skipped) == sorted(times(skipped))
    if runs == 0:
        assert made.skipped[-1][1] == "misfire: later than 5 s; 80 earlier ones have no row"


def test_two_seconds_late_still_fires_and_forty_seconds_of_a_quick_cron_do_not_bunch() -> None:
    """Behaviour 2.5."""
    task = task_of({"type": "cron", "expression": "*/15 * * * * *"}, next_fire_at=NOW)
    made = materialise_task(task, now=NOW + timedelta(seconds=2), horizon=NOW + timedelta(seconds=10), limit=10)
    assert (len(made.executions), made.skipped) == (1, [])
    made = materialise_task(task, now=NOW + timedelta(seconds=40), horizon=NOW + timedelta(seconds=41), limit=10)
    assert made.executions == []
    assert [reason for _, reason in made.skipped] == ["misfire: later than 5 s"] * 3


def test_a_month_away_costs_little_and_says_what_has_no_row() -> None:
    task = task_of({"type": "interval", "every_seconds": 1}, next_fire_at=NOW - timedelta(days=30))
    made = materialise_task(task, now=NOW, horizon=NOW, limit=10)
    assert len(made.skipped) == SKIPPED_ROWS
    assert made.skipped[-1][1].endswith("at least 10000 earlier ones have no row")


def test_misfires_older_than_the_partitions_have_no_row() -> None:
    task = task_of({"type": "cron", "expression": "0 0 1 * *"}, next_fire_at=datetime(2025, 1, 1, tzinfo=UTC))
    made = materialise_task(task, now=NOW, horizon=NOW + HOUR, limit=10)
    assert (made.executions, made.skipped) == ([], [])
    assert made.next_fire_at == datetime(2026, 4, 1, tzinfo=UTC)


def test_a_one_shot_has_a_minute_of_grace() -> None:
    """Behaviour 2.10, after the door."""
    task = task_of({"type": "one_shot", "run_at": "2026-03-10T11:59:01Z"}, next_fire_at=NOW - timedelta(seconds=59))
    assert misfire_window(task, "one_shot") == timedelta(seconds=60)
    assert len(materialise_task(task, now=NOW, horizon=NOW + HOUR, limit=10).executions) == 1


@pytest.mark.parametrize("jitter_ms", [-120_000, 120_000])
def test_jitter_moves_run_at_and_is_no_lateness(jitter_ms: int) -> None:
    task = task_of({"type": "cron", "expression": "0 * * * *"}, next_fire_at=NOW, jitter_ms=jitter_ms)
    now = NOW + timedelta(seconds=3)
    made = materialise_task(task, now=now, horizon=NOW + HOUR, limit=10)
    assert times(made.executions) == [NOW]
    assert made.executions[0].run_us == max(ids.to_us(now), ids.to_us(NOW) + jitter_ms * 1000)


def test_allow_all_needs_no_slot() -> None:
    task = task_of(MINUTELY, next_fire_at=NOW, overlap_policy="allow_all")
    made = materialise_task(task, now=NOW, horizon=NOW + HOUR, limit=1)
    assert made.executions[0].slot_key is None


@pytest.mark.parametrize(
    ("schedule", "stored", "expected"),
    [
        (MINUTELY, NOW + timedelta(minutes=63), NOW + timedelta(minutes=1)),
        (MINUTELY, NOW - HOUR, NOW + timedelta(minutes=1)),
        ({**MINUTELY, "end_at": "2026-03-10T12:03:00Z"}, None, NOW + timedelta(minutes=1)),
        (
            {"type": "cron", "expression": "0 0 29 2 *"},
            datetime(2028, 2, 29, tzinfo=UTC),
            datetime(2028, 2, 29, tzinfo=UTC),
        ),
        ({"type": "one_shot", "run_at": "2026-03-10T12:30:00Z"}, None, NOW + HOUR / 2),
        ({"type": "one_shot", "run_at": "2026-03-10T11:30:00Z"}, None, None),
        ({"type": "manual"}, None, None),
    ],
    ids=["made ahead", "behind", "the last are made", "far off", "one-shot, made", "one-shot, past", "manual"],
)
def test_the_next_run_is_the_next_occurrence_whether_it_is_made_or_not(
    schedule: dict[str, Any], stored: datetime | None, expected: datetime | None
) -> None:
    task = task_of(schedule, next_fire_at=stored)
    assert next_run(task, now=NOW) == expected
    task.paused_at = NOW
    assert next_run(task, now=NOW) is None


def test_what_is_remembered_of_a_next_run_changes_no_answer() -> None:
    """Asked a moment later, when it has passed, before the first question, and where nothing follows any more."""
    last = {**MINUTELY, "end_at": "2026-03-10T12:03:00Z"}
    task = task_of(last, next_fire_at=None)
    seconds = [0, 30, 59, 60, 61, 0, -30, 119, 120, 180, 59]
    due = [1, 1, 1, 2, 2, 1, 0, 2, None, None, 1]
    found = [next_run(task, now=NOW + timedelta(seconds=second)) for second in seconds]
    assert found == [None if minute is None else NOW + timedelta(minutes=minute) for minute in due]
    # The same schedule otherwise bounded is another one.
    longer = task_of({**last, "end_at": "2026-03-10T13:03:00Z"}, next_fire_at=None)
    assert next_run(longer, now=NOW + timedelta(seconds=180)) == NOW + timedelta(minutes=4)
