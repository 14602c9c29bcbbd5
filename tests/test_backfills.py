"""Backfills: each occurrence of the range once, no more at once than asked for, stoppable, behind what is live."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.definitions import backfills, services
from apps.definitions.dags import making
from apps.definitions.models import Backfill, Dag, Task
from apps.definitions.occurrences import Schedule
from apps.executions import services as execution_services
from apps.executions.dags.models import DagRun
from apps.executions.dags.states import RunStatus
from apps.executions.models import Execution, Lease
from apps.executions.states import ExecutionClass, Origin, Status
from apps.preloader.backfills import Backfills
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SystemClock
from chronoweb.runtime.errors import InvalidInputs, LeadershipLost
from tests.factories import EACH_MINUTE, make_principal, make_task, now, rows_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
EPOCH = 7
START = datetime(2025, 6, 1, tzinfo=UTC)
"""Far behind every partition: what a backfill makes is scheduled when it is made."""


@pytest.fixture
def principal() -> Principal:
    return make_principal()


@pytest.fixture
def mover() -> Backfills:
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    return Backfills("preloader")


class HandClock(SystemClock):
    """Monotonic seconds that a test moves."""

    moment = 100.0

    def monotonic(self) -> float:
        return self.moment


def begin(principal: Principal, of: Task | Dag, minutes: int = 5, **fields: Any) -> Backfill:
    data = {"start": START.isoformat(), "end": (START + timedelta(minutes=minutes)).isoformat(), **fields}
    request = backfills.read_request(of, data)
    return backfills.start_backfill(principal=principal, of=of, request=request)


def complete(task: Task, count: int) -> None:
    ids = [row.id for row in rows_of(task) if row.status == Status.SCHEDULED][:count]
    Execution.objects.filter(id__in=ids).update(status=Status.COMPLETED, wake_at=None)


def minutes_of(rows: list[Any]) -> list[int]:
    return [(row.nominal_at - START) // timedelta(minutes=1) for row in rows]


@pytest.mark.parametrize(("order", "expected"), [("oldest_first", [0, 1, 2, 3, 4]), ("newest_first", [4, 3, 2, 1, 0])])
def test_a_range_is_run_a_few_at_a_time_each_once(
    principal: Principal, mover: Backfills, order: str, expected: list[int]
) -> None:
    task = make_task(principal, schedule=EACH_MINUTE, priority=1, overlap_policy="skip")
    backfill = begin(principal, task, at_once=2, order=order, parameters={"day": 1})
    seen: list[UUID] = []
    for _ in range(4):
        mover.move_on(EPOCH)
        open_rows = [row for row in rows_of(task) if row.status == Status.SCHEDULED]
        assert len(open_rows) <= 2
        seen += [row.id for row in rows_of(task) if row.id not in seen]
        complete(task, 2)
    made = {row.id: row for row in rows_of(task)}
    assert minutes_of([made[identity] for identity in seen]) == expected
    row = made[seen[0]]
    assert (row.origin, row.class_index, row.priority, row.slot_key) == (
        Origin.BACKFILL,
        ExecutionClass.BULK,
        backfills.PRIORITY,
        None,
    )
    assert row.parameters == {"day": 1}
    assert abs(row.scheduled_at - now()) < timedelta(minutes=5)
    mover.move_on(EPOCH)
    backfill.refresh_from_db()
    assert (backfill.state, backfill.made, backfill.under_way) == ("finished", 5, [])
    assert mover.move_on(EPOCH) == 0


def test_one_that_is_stopped_makes_nothing_more_and_what_waits_is_cancelled(
    principal: Principal, mover: Backfills
) -> None:
    """500 asked for, stopped at 50: none waits for ever, what runs goes on, one of the cancelled can be run anew."""
    task = make_task(principal, schedule=EACH_MINUTE)
    backfill = begin(principal, task, minutes=500, at_once=50)
    mover.move_on(EPOCH)
    first, *rest = rows_of(task)
    Execution.objects.filter(id=first.id).update(status=Status.RUNNING, wake_at=None)
    for _ in range(2):
        backfills.stop_backfill(principal=principal, backfill_id=backfill.id)
    mover.move_on(EPOCH)
    states = {row.id: row.status for row in rows_of(task)}
    assert states == {first.id: Status.RUNNING, **{row.id: Status.CANCELLED for row in rest}}
    again = execution_services.retry(principal=principal, execution_id=rest[0].id)
    assert Execution.objects.get(id=again).status == Status.SCHEDULED


def test_runs_of_a_stopped_backfill_that_have_not_begun_are_cancelled(principal: Principal, mover: Backfills) -> None:
    data = {"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}], "schedule": EACH_MINUTE}
    dag = making.create_dag(principal=principal, data=data)
    backfill = begin(principal, dag, at_once=2)
    mover.move_on(EPOCH)
    begun, other = DagRun.objects.filter(dag_id=dag.id).order_by("id")
    Execution.objects.filter(dag_run_id=begun.id).update(status=Status.RUNNING, wake_at=None)
    backfills.stop_backfill(principal=principal, backfill_id=backfill.id)
    states = dict(DagRun.objects.filter(dag_id=dag.id).values_list("id", "status"))
    assert states == {begun.id: RunStatus.RUNNING, other.id: RunStatus.CANCELLED}


def test_dead_letters_make_room_too(principal: Principal, mover: Backfills) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    begin(principal, task, at_once=1)
    mover.move_on(EPOCH)
    Execution.objects.filter(task_id=task.id).update(status=Status.DEAD_LETTER, wake_at=None)
    mover.move_on(EPOCH)
    assert len(rows_of(task)) == 2


def test_a_deleted_task_ends_its_backfill_and_a_stale_epoch_writes_nothing(
    principal: Principal, mover: Backfills
) -> None:
    task = make_task(principal, schedule=EACH_MINUTE)
    backfill = begin(principal, task)
    with pytest.raises(LeadershipLost):
        mover.move_on(EPOCH - 1)
    assert rows_of(task) == []
    services.delete_task(principal=principal, task_id=task.id)
    mover.move_on(EPOCH)
    backfill.refresh_from_db()
    assert (backfill.state, rows_of(task)) == ("stopped", [])


def test_a_dag_is_filled_in_run_by_run(principal: Principal, mover: Backfills) -> None:
    nodes = [{"id": "a", "handler": "demo.noop", "priority": 1}]
    data = {"name": "d", "nodes": nodes, "schedule": EACH_MINUTE, "parameters": {"x": 1, "y": 1}}
    dag = making.create_dag(principal=principal, data=data)
    backfill = begin(principal, dag, minutes=3, at_once=2, parameters={"y": 2})
    mover.move_on(EPOCH)
    runs = list(DagRun.objects.filter(dag_id=dag.id).order_by("nominal_at"))
    assert minutes_of(runs) == [0, 1]
    assert [(run.origin, run.parameters) for run in runs] == [(Origin.BACKFILL, {"x": 1, "y": 2})] * 2
    first = Execution.objects.filter(tenant_id=principal.tenant_id)[0]
    assert (first.class_index, first.priority) == (ExecutionClass.BULK, backfills.PRIORITY)
    DagRun.objects.filter(dag_id=dag.id).update(status=RunStatus.SUCCEEDED)
    mover.move_on(EPOCH)
    assert DagRun.objects.filter(dag_id=dag.id).count() == 3
    DagRun.objects.filter(dag_id=dag.id).update(status=RunStatus.FAILED)
    mover.move_on(EPOCH)
    backfill.refresh_from_db()
    assert backfill.state == "finished"


def test_a_dag_that_no_longer_takes_the_parameters_ends_the_backfill(principal: Principal, mover: Backfills) -> None:
    data = {"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}], "schedule": EACH_MINUTE}
    dag = making.create_dag(principal=principal, data=data)
    backfill = begin(principal, dag)
    Dag.objects.filter(id=dag.id).update(parameters_schema={"required": ["day"]})
    mover.move_on(EPOCH)
    backfill.refresh_from_db()
    assert backfill.state == "stopped"


def test_the_order_and_the_range_are_exact() -> None:
    schedule = Schedule.parse({"type": "interval", "every_seconds": 60})
    where = {"start": START, "end": START + timedelta(minutes=3)}
    oldest = backfills.following(schedule, **where, newest_first=False, cursor=None, count=10)
    assert oldest == [START, START + timedelta(minutes=1), START + timedelta(minutes=2)]
    newest = backfills.following(schedule, **where, newest_first=True, cursor=oldest[2], count=1)
    assert newest == [oldest[1]]


def test_a_range_may_not_be_endless(principal: Principal) -> None:
    task = make_task(principal, schedule={"type": "interval", "every_seconds": 1})
    with pytest.raises(InvalidInputs, match="more than 100000"):
        begin(principal, task, minutes=60 * 24 * 30)


def test_one_that_cannot_go_on_stops_neither_the_others_nor_the_pass(principal: Principal) -> None:
    """Whatever is wrong with it: the pass that moves backfills on makes everybody's occurrences, too."""
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    clock = HandClock()
    mover = Backfills("preloader", clock)
    broken, sound = (make_task(principal, schedule=EACH_MINUTE) for _ in range(2))
    first = begin(principal, broken)
    second = begin(principal, sound, at_once=1)
    Task.objects.filter(id=broken.id).update(retry_policy=["nothing that is a policy"])
    assert first.id < second.id, "it comes first"
    mover.move_on(EPOCH)
    assert (len(rows_of(broken)), len(rows_of(sound))) == (0, 1)
    Task.objects.filter(id=broken.id).update(retry_policy=broken.retry_policy)
    mover.move_on(EPOCH)
    assert rows_of(broken) == []
    clock.moment += 61
    mover.move_on(EPOCH)
    assert rows_of(broken) != []
