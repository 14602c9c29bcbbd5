"""New time zone rules: what was planned by the old ones is planned anew, and nothing else is touched."""

from datetime import datetime, timedelta

import pytest

from apps.definitions import zone_upgrade
from apps.definitions.dags import making
from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.definitions.zones import TZDATA_VERSION
from apps.executions.states import Status
from apps.tenants.principal import Principal
from tests.factories import make_principal, make_task, materialise, now, occurrence, reasons, reread, rows_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
NINE_IN_VANCOUVER = {"type": "cron", "expression": "0 9 * * *", "timezone": "America/Vancouver"}
HOUR = timedelta(hours=1)


@pytest.fixture
def principal() -> Principal:
    return make_principal()


def planned_by_old_rules(task: Task) -> datetime:
    """The next time by the rules in force; rows and next_fire_at are made as if clocks were an hour behind them."""
    right = next_occurrence(Schedule.parse(task.schedule), after=now())
    assert right is not None
    Task.objects.filter(id=task.id).update(tzdata="2025b", next_fire_at=right + HOUR + timedelta(days=1))
    return right


def test_a_task_is_made_by_the_rules_in_force(principal: Principal) -> None:
    assert make_task(principal).tzdata == TZDATA_VERSION


def test_what_waits_moves_to_its_new_time(principal: Principal) -> None:
    """Behaviour 10.12: nine o'clock in Vancouver is another instant by the new rules."""
    task = make_task(principal, schedule=NINE_IN_VANCOUVER, strict_timing=True)
    right = planned_by_old_rules(task)
    wrong = occurrence(task, right + HOUR)
    kept = occurrence(task, right + timedelta(days=1))
    assert zone_upgrade.follow(now=now(), actor="preloader") == 1
    task.refresh_from_db()
    assert (task.tzdata, task.next_fire_at, task.version) == (TZDATA_VERSION, right, 1)
    assert reread(wrong).status == Status.CANCELLED
    assert reasons(wrong) == [f"superseded by version 1, as time zones went from 2025b to {TZDATA_VERSION}"]
    assert reread(kept).status == Status.SCHEDULED
    assert zone_upgrade.follow(now=now(), actor="preloader") == 0


def test_the_missing_occurrence_is_made(principal: Principal) -> None:
    minutely = {"type": "cron", "expression": "*/10 * * * *", "timezone": "America/Vancouver"}
    task = make_task(principal, schedule=minutely, strict_timing=True)
    right = planned_by_old_rules(task)
    zone_upgrade.follow(now=now(), actor="preloader")
    task.refresh_from_db()
    assert right in {row.scheduled_at for row in materialise(task)}


@pytest.mark.parametrize(
    "schedule",
    [
        {"type": "cron", "expression": "0 9 * * *"},
        {"type": "interval", "every_seconds": 3600},
        {"type": "manual"},
    ],
)
def test_instants_stay_as_they_are(principal: Principal, schedule: dict[str, object]) -> None:
    task = make_task(principal, schedule=schedule)
    moment = now() + timedelta(days=3)
    Task.objects.filter(id=task.id).update(tzdata="2025b", next_fire_at=moment)
    zone_upgrade.follow(now=now(), actor="preloader")
    task.refresh_from_db()
    assert (task.tzdata, task.next_fire_at) == (TZDATA_VERSION, moment)
    assert rows_of(task) == []


def test_a_paused_task_and_one_that_cannot_be_read_stop_nobody(principal: Principal) -> None:
    broken, odd, paused, fine = (make_task(principal, schedule=NINE_IN_VANCOUVER) for _ in range(4))
    planned_by_old_rules(fine)
    Task.objects.filter(id=broken.id).update(tzdata="2025b", schedule={**broken.schedule, "timezone": "Mars/Base"})
    Task.objects.filter(id=paused.id).update(tzdata="2025b", paused_at=now())
    occurrence(odd, planned_by_old_rules(odd))
    Task.objects.filter(id=odd.id).update(retry_policy=["nothing that is a policy"])
    assert zone_upgrade.follow(now=now(), actor="preloader") == 4
    assert set(Task.objects.values_list("tzdata", flat=True)) == {TZDATA_VERSION}


def make_dag(principal: Principal, name: str = "d", **fields: object) -> Dag:
    data = {"name": name, "nodes": [{"id": "a", "handler": "demo.noop"}], "schedule": NINE_IN_VANCOUVER, **fields}
    return making.create_dag(principal=principal, data=data)


def test_a_dag_is_fired_by_the_new_rules(principal: Principal) -> None:
    dag = make_dag(principal)
    assert dag.tzdata == TZDATA_VERSION
    right = next_occurrence(Schedule.parse(dag.schedule), after=now())
    assert right is not None
    Dag.objects.filter(id=dag.id).update(tzdata="2025b", next_fire_at=right + HOUR)
    assert zone_upgrade.follow(now=now(), actor="preloader") == 1
    dag.refresh_from_db()
    assert (dag.tzdata, dag.next_fire_at, dag.version) == (TZDATA_VERSION, right, 1)
    assert zone_upgrade.follow(now=now(), actor="preloader") == 0


def test_a_dags_occurrence_that_was_not_seen_yet_is_not_lost(principal: Principal) -> None:
    """The preloader was away: what was due then is still to come, at its time by the new rules."""
    dag = make_dag(principal, schedule={**NINE_IN_VANCOUVER, "expression": "*/10 * * * *"})
    schedule = Schedule.parse(dag.schedule)
    missed = next_occurrence(schedule, after=now() - timedelta(minutes=20))
    Dag.objects.filter(id=dag.id).update(tzdata="2025b", next_fire_at=missed, waiting_since=missed)
    zone_upgrade.follow(now=now(), actor="preloader")
    dag.refresh_from_db()
    assert (dag.next_fire_at, dag.waiting_since) == (missed, missed)


def test_what_waited_for_earlier_runs_waits_no_more_where_its_time_is_another(principal: Principal) -> None:
    dag = make_dag(principal)
    gone = now() - timedelta(minutes=1)
    Dag.objects.filter(id=dag.id).update(tzdata="2025b", next_fire_at=gone, waiting_since=gone)
    zone_upgrade.follow(now=now(), actor="preloader")
    dag.refresh_from_db()
    assert dag.next_fire_at is not None
    assert dag.next_fire_at > gone
    assert dag.waiting_since is None


def test_dags_of_instants_and_those_that_cannot_be_read_stop_nobody(principal: Principal) -> None:
    broken, fine = make_dag(principal, "broken"), make_dag(principal, "fine")
    instants = make_dag(principal, "instants", schedule={"type": "interval", "every_seconds": 3600})
    far = now() + timedelta(days=40)
    Dag.objects.update(tzdata="2025b", next_fire_at=far)
    Dag.objects.filter(id=broken.id).update(schedule={**broken.schedule, "timezone": "Mars/Base"})
    assert zone_upgrade.follow(now=now(), actor="preloader") == 3
    assert set(Dag.objects.values_list("tzdata", flat=True)) == {TZDATA_VERSION}
    moved = {d.id for d in Dag.objects.all() if d.next_fire_at != far}
    assert moved == {fine.id}
    assert instants.id not in moved
