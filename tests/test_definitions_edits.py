"""Edits reach what is not sent yet: kept in place, superseded, revived; nothing is missed or doubled."""

from datetime import timedelta
from typing import Any

import pytest

from apps.definitions import services
from apps.definitions.models import Task
from apps.executions.models import Execution, Route, TaskVersion
from apps.executions.services import cancel
from apps.executions.states import Hold, Overlap, Status
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInputs, NotFound
from tests.factories import (
    EACH_MINUTE,
    document,
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
EVEN = {"type": "cron", "expression": "*/2 * * * *"}


@pytest.fixture
def principal() -> Principal:
    return make_principal()


def edit(principal: Principal, task: Task, **changes: Any) -> Task:
    return services.update_task(principal=principal, task_id=task.id, data=changes, partial=True)


def test_a_kept_occurrence_runs_by_the_new_definition(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    before = materialise(task)
    Execution.objects.filter(id=before[0].id).update(status=Status.PRELOADED, wake_at=None)
    task = edit(principal, task, priority=1, overlap_policy="allow_all", retry_policy={"max_attempts": 2})
    assert task.version == 2
    after = rows_of(task)
    assert [row.id for row in after] == [row.id for row in before]
    for row in after:
        assert (row.task_version_id, row.priority, row.class_index) == (task.version_id, 1, 0)
        assert (row.overlap, row.slot_key, row.max_attempts) == (Overlap.ALLOW_ALL, None, 2)
        assert (row.status, row.hold, row.wake_at) == (Status.SCHEDULED, Hold.NONE, row.run_at)
        assert row.version > 1


def test_a_kept_occurrence_goes_where_the_new_definition_may_run(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    assert {row.route_id for row in materialise(task)} == {0}
    task = edit(principal, task, requires=["region=eu", "gpu"])
    [route] = {row.route_id for row in rows_of(task)}
    assert Route.objects.get(id=route).labels == ["gpu", "region=eu"]
    assert TaskVersion.objects.get(id=task.version_id).definition["requires"] == ["gpu", "region=eu"]
    other = make_task(principal, requires=["gpu", "region=eu"])
    assert other.route_id == route, "equal labels are one route"
    container = make_task(principal, handler={"type": "container", "image": "alpine"})
    assert Route.objects.get(id=container.route_id).labels == ["container"]
    task = edit(principal, task, requires=[])
    assert {row.route_id for row in rows_of(task)} == {0}


def test_occurrences_off_the_new_schedule_are_superseded_and_come_back(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    before = materialise(task)
    task = edit(principal, task, schedule=EVEN)
    for row in rows_of(task):
        even = row.scheduled_at.minute % 2 == 0
        assert row.status == (Status.SCHEDULED if even else Status.CANCELLED)
        assert reasons(row) == ([] if even else ["superseded by version 2"])
    assert len(materialise(task)) == len(before)
    task = edit(principal, task, schedule=EACH_MINUTE)
    revived = [row for row in rows_of(task) if row.scheduled_at.minute % 2]
    assert revived
    for row in revived:
        assert (row.status, row.wake_at, row.finished_at) == (Status.SCHEDULED, row.run_at, None)
        assert row.task_version_id == task.version_id
        assert reasons(row) == ["superseded by version 2", "back on the schedule with version 3"]
    assert [row.id for row in materialise(task)] == [row.id for row in before]


def test_new_occurrences_between_the_old_ones_are_not_missed(principal: Principal) -> None:
    task = make_task(principal, schedule=EVEN, strict_timing=True)
    materialise(task)
    edit(principal, task, schedule=EACH_MINUTE)
    rows = materialise(task)
    minutes = [row.scheduled_at for row in rows]
    assert minutes == [minutes[0] + timedelta(minutes=n) for n in range(len(minutes))]
    assert len(rows) >= 61
    assert {row.status for row in rows} == {Status.SCHEDULED}


def test_what_a_person_cancelled_is_not_revived(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    row = materialise(task)[0]
    cancel(principal=principal, execution_id=row.id)
    edit(principal, task, priority=2)
    assert reread(row).status == Status.CANCELLED
    materialise(task)
    assert Execution.objects.filter(task_id=task.id, scheduled_at=row.scheduled_at).count() == 1


def test_tried_sent_and_triggered_executions_keep_their_version(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    soon = now().replace(second=0, microsecond=0) + timedelta(minutes=2)
    rows = [
        occurrence(task, soon, Status.RETRYING),
        occurrence(task, soon + timedelta(minutes=1), Status.DISPATCHED),
        occurrence(task, soon + timedelta(minutes=2), Status.RUNNING),
        execution(task),
    ]
    edit(principal, task, schedule={"type": "manual"})
    for row in rows:
        again = reread(row)
        assert (again.status, again.task_version_id, again.version) == (row.status, row.task_version_id, row.version)


def test_an_edit_of_a_paused_task_keeps_its_rows_held(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, strict_timing=True)
    materialise(task)
    services.pause_task(principal=principal, task_id=task.id)
    task = edit(principal, task, priority=1)
    for row in rows_of(task):
        assert (row.status, row.hold, row.wake_at, row.priority) == (Status.SCHEDULED, Hold.PAUSED, None, 1)


def test_an_edit_moves_run_at_by_the_new_jitter(principal: Principal) -> None:
    task = make_task(principal, schedule={"type": "cron", "expression": "*/15 * * * *"})
    materialise(task)
    assert task.jitter_ms != 0
    task = edit(principal, task, strict_timing=True)
    assert task.jitter_ms == 0
    assert all(row.run_at == row.scheduled_at == row.wake_at for row in rows_of(task))


def test_no_change_is_no_version(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    assert edit(principal, task, priority=5, tags=[]).version == 1
    whole = document(name=task.name, schedule=EACH_MINUTE)
    assert services.update_task(principal=principal, task_id=task.id, data=whole, partial=False).version == 1
    assert TaskVersion.objects.filter(task_id=task.id).count() == 1
    assert not AuditEntry.objects.filter(target_id=task.id, action="task.update").exists()


def test_a_refused_edit_changes_nothing(principal: Principal) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    materialise(task)
    with pytest.raises(InvalidInputs):
        edit(principal, task, schedule=EVEN, priority=99)
    other = make_task(principal)
    with pytest.raises(Conflict) as caught:
        edit(principal, task, name=other.name)
    assert caught.value.extra["existing_id"] == str(other.id)
    assert {row.status for row in rows_of(task)} == {Status.SCHEDULED}
    assert TaskVersion.objects.filter(task_id=task.id).count() == 1


def test_versions_are_snapshots(principal: Principal) -> None:
    task = make_task(principal, parameters={"a": 1})
    edit(principal, task, parameters={"a": 2})
    first, second = TaskVersion.objects.filter(task_id=task.id).order_by("number")
    assert (first.definition["parameters"], second.definition["parameters"]) == ({"a": 1}, {"a": 2})
    assert set(first.definition) == set(second.definition) >= {"name", "schedule", "handler", "retry_policy"}


def test_a_one_shot_that_has_fired_can_be_renamed_but_not_sent_to_the_past(principal: Principal) -> None:
    run_at = now() + timedelta(seconds=30)
    task = make_task(principal, schedule={"type": "one_shot", "run_at": run_at.isoformat()})
    materialise(task)
    assert task.next_fire_at is None
    past = {"type": "one_shot", "run_at": "2020-01-01T00:00:00Z"}
    Task.objects.filter(id=task.id).update(schedule={**task.schedule, **past})
    assert edit(principal, task, description="done").next_fire_at is None
    with pytest.raises(InvalidInputs):
        edit(principal, task, schedule={"type": "one_shot", "run_at": "2021-01-01T00:00:00Z"})


def test_a_moved_one_shot_runs_once_at_its_new_time(principal: Principal) -> None:
    first, second = now() + timedelta(minutes=5), now() + timedelta(minutes=9)
    task = make_task(principal, schedule={"type": "one_shot", "run_at": first.isoformat()})
    materialise(task)
    edit(principal, task, schedule={"type": "one_shot", "run_at": second.isoformat()})
    old, new = materialise(task)
    assert (old.status, new.status) == (Status.CANCELLED, Status.SCHEDULED)
    assert task.next_fire_at is None


def test_foreign_and_deleted_tasks_cannot_be_edited(principal: Principal) -> None:
    task = make_task(principal)
    with pytest.raises(NotFound):
        edit(make_principal(), task, priority=1)
    services.delete_task(principal=principal, task_id=task.id)
    with pytest.raises(NotFound):
        edit(principal, task, priority=1)
    assert make_task(principal, name=task.name).id != task.id
