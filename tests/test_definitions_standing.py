"""Pause, resume and delete: what waits follows at once, by one rule of catching up."""

from datetime import timedelta

import pytest

from apps.definitions import services
from apps.definitions.models import Task
from apps.executions.models import Execution, Slot, SlotWaiter, StandingHold
from apps.executions.person_store import CHUNK
from apps.executions.services import cancel
from apps.executions.states import Hold, Status
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import InvalidInputs, NotFound
from tests.factories import (
    EACH_MINUTE,
    execution,
    make_principal,
    make_task,
    materialise,
    now,
    occurrence,
    reasons,
    reread,
    rows_of,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]


@pytest.fixture
def principal() -> Principal:
    return make_principal()


def pause(principal: Principal, task: Task, note: str = "") -> Task:
    return services.pause_task(principal=principal, task_id=task.id, note=note)


def resume(principal: Principal, task: Task) -> Task:
    return services.resume_task(principal=principal, task_id=task.id)


def holds(task: Task) -> set[int]:
    return set(StandingHold.objects.filter(target_id=task.id).values_list("reason", flat=True))


def test_pause_holds_the_schedule_and_not_the_persons_triggers(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    rows = materialise(task)
    Execution.objects.filter(id=rows[0].id).update(status=Status.PRELOADED, wake_at=None)
    retrying = occurrence(task, rows[0].scheduled_at - timedelta(minutes=1), Status.RETRYING)
    triggered = services.trigger(principal=principal, task_id=task.id)
    paused = pause(principal, task, "quiet, please")
    assert paused.paused_note == "quiet, please"
    assert holds(task) == {Hold.PAUSED}
    for row in rows:
        again = reread(row)
        assert (again.status, again.hold, again.wake_at) == (Status.SCHEDULED, Hold.PAUSED, None)
    assert (reread(retrying).status, reread(retrying).hold, reread(retrying).wake_at) == (
        Status.RETRYING,
        Hold.PAUSED,
        None,
    )
    run_now = Execution.objects.with_id(triggered).get()
    assert (run_now.hold, run_now.wake_at) == (Hold.NONE, run_now.run_at)


def test_resume_releases_what_is_ahead(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    rows = materialise(task)
    pause(principal, task)
    resumed = resume(principal, task)
    assert (resumed.paused_at, resumed.paused_note, holds(task)) == (None, "", set())
    for row in rows:
        again = reread(row)
        assert (again.status, again.hold, again.wake_at) == (Status.SCHEDULED, Hold.NONE, row.run_at)


@pytest.mark.parametrize(("catchup", "status"), [(0, Status.SKIPPED), (3600, Status.SKIPPED), (7300, Status.SCHEDULED)])
def test_a_row_that_passed_during_the_pause_follows_the_catch_up_rule(
    principal: Principal, catchup: int, status: Status
) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True, catchup_seconds=catchup)
    passed = now().replace(second=0, microsecond=0) - timedelta(hours=2)
    row = occurrence(task, passed)
    tried = occurrence(task, passed - timedelta(minutes=1), Status.RETRYING)
    pause(principal, task)
    resume(principal, task)
    again = reread(row)
    assert (again.status, again.hold) == (status, Hold.NONE)
    assert (again.finished_at is None) == (status is Status.SCHEDULED)
    assert [reason.startswith("misfire:") for reason in reasons(row)] == [True] * (status is Status.SKIPPED)
    assert (reread(tried).status, reread(tried).hold, reread(tried).wake_at) == (
        Status.RETRYING,
        Hold.NONE,
        tried.run_at,
    )


def test_no_run_before_tomorrow_when_today_passed_in_the_pause(principal: Principal) -> None:
    """Behaviour 2.3: daily 17:00, paused at 16:00, resumed at 18:00, no catching up; with the row made or not."""
    an_hour_ago = now().replace(second=0, microsecond=0) - timedelta(hours=1)
    daily = {"type": "cron", "expression": f"{an_hour_ago.minute} {an_hour_ago.hour} * * *"}
    for has_row in (True, False):
        task = make_task(principal, schedule=daily, strict_timing=True, catchup_seconds=0)
        if has_row:
            occurrence(task, an_hour_ago)
        else:
            Task.objects.filter(id=task.id).update(next_fire_at=an_hour_ago)
        pause(principal, task)
        assert resume(principal, task).next_fire_at == an_hour_ago + timedelta(days=1)
        rows = materialise(task)
        assert [row.status for row in rows] == [Status.SKIPPED] * has_row


def test_occurrences_of_the_pause_inside_the_window_run(principal: Principal) -> None:
    """Behaviour 2.2."""
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True, catchup_seconds=300)
    Task.objects.filter(id=task.id).update(next_fire_at=now() - timedelta(hours=1))
    pause(principal, task)
    resume(principal, task)
    late = [row for row in materialise(task) if row.scheduled_at <= now()]
    assert len(late) == 5
    assert {row.status for row in late} == {Status.SCHEDULED}


def test_pausing_and_resuming_twice_is_the_same(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    first = pause(principal, task, "a")
    second = pause(principal, task, "b")
    assert (second.paused_at, second.paused_note) == (first.paused_at, "b")
    resume(principal, task)
    assert resume(principal, task).paused_at is None
    with pytest.raises(InvalidInputs):
        pause(principal, task, "x" * 1001)


def test_delete_cancels_what_waits_and_frees_its_slot(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    rows = materialise(task)
    running = execution(task, Status.RUNNING)
    retrying = execution(task, Status.RETRYING)
    waiting = execution(task, hold=Hold.OVERLAP)
    key = f"task:{task.id}"
    Slot(key=key, n=0, execution_id=retrying.id, scheduled_at=retrying.scheduled_at).save(force_insert=True)
    SlotWaiter(key=key, execution_id=waiting.id, scheduled_at=waiting.scheduled_at).save(force_insert=True)
    services.delete_task(principal=principal, task_id=task.id)
    assert holds(task) == {Hold.DELETED}
    for row in [*rows, retrying, waiting]:
        again = reread(row)
        assert (again.status, again.wake_at, again.hold) == (Status.CANCELLED, None, Hold.NONE)
        assert again.finished_at is not None
        assert reasons(row) == ["its task was deleted"]
    assert reread(running).status == Status.RUNNING
    assert not Slot.objects.filter(key=key).exists()
    assert not SlotWaiter.objects.filter(key=key).exists()
    for act in (pause, resume):
        with pytest.raises(NotFound):
            act(principal, task)
    with pytest.raises(NotFound):
        services.trigger(principal=principal, task_id=task.id)


def test_a_retry_that_is_cancelled_lets_the_next_one_of_the_slot_go(principal: Principal) -> None:
    task = make_task(principal, overlap_policy="buffer_all")
    retrying = execution(task, Status.RETRYING)
    waiting = execution(task, hold=Hold.OVERLAP)
    key = f"task:{task.id}"
    Slot(key=key, n=0, execution_id=retrying.id, scheduled_at=retrying.scheduled_at).save(force_insert=True)
    SlotWaiter(key=key, execution_id=waiting.id, scheduled_at=waiting.scheduled_at).save(force_insert=True)
    cancel(principal=principal, execution_id=retrying.id)
    assert not Slot.objects.filter(key=key).exists()
    # The freed slot is seen by the next statement, in the same transaction.
    assert (reread(waiting).hold, reread(waiting).wake_at) == (Hold.NONE, waiting.run_at)


def test_more_rows_than_one_statement_takes(principal: Principal) -> None:
    task = make_task(principal, schedule={"type": "interval", "every_seconds": 1})
    materialise(task, ahead=timedelta(minutes=20))
    assert len(materialise(task, ahead=timedelta(minutes=20))) > CHUNK
    pause(principal, task)
    assert {row.hold for row in rows_of(task)} == {Hold.PAUSED}
    resume(principal, task)
    assert {row.hold for row in rows_of(task)} == {Hold.NONE}
