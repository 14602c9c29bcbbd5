"""A run that is asked for while as many as may are active waits, says why, and begins when one has ended."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from apps.definitions.dags import making, triggering
from apps.definitions.models import Dag
from apps.executions.dags import operations, selectors
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.models import Execution, Lease
from apps.preloader import dag_schedules
from apps.preloader.dag_schedules import DagSchedules
from apps.tenants.models import AuditEntry, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import Conflict, LeadershipLost
from tests.factories import make_api, make_principal, now

pytestmark = pytest.mark.django_db
EPOCH = 7


@pytest.fixture
def principal() -> Principal:
    return make_principal()


@pytest.fixture
def schedules() -> DagSchedules:
    instant = now()
    Lease.objects.create(
        role="preloader", holder=UUID(int=1), epoch=EPOCH, expires_at=instant + timedelta(hours=1), acquired_at=instant
    )
    return DagSchedules(Config(), "preloader")


def make_dag(principal: Principal, **fields: Any) -> Dag:
    nodes = [{"id": "a", "handler": "demo.noop"}, {"id": "b", "handler": "demo.noop", "depends_on": ["a"]}]
    return making.create_dag(principal=principal, data={"name": "d", "nodes": nodes, "max_active_runs": 1, **fields})


def trigger(principal: Principal, dag: Dag, *, after: float | None = None) -> DagRun:
    """after: seconds from now."""
    run_at = None if after is None else (now() + timedelta(seconds=after)).isoformat()
    return DagRun.objects.get(id=triggering.trigger_dag(principal=principal, dag_id=dag.id, run_at=run_at))


def executions(run: DagRun) -> int:
    return Execution.objects.filter(dag_run_id=run.id).count()


def end(run: DagRun) -> None:
    DagRun.objects.filter(id=run.id).update(status=RunStatus.SUCCEEDED, finished_at=now())


def test_it_waits_and_begins_when_one_has_ended(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, run_timeout_seconds=60)
    first, second = trigger(principal, dag), trigger(principal, dag)
    assert (first.word, second.word) == ("running", "queued")
    assert (executions(first), executions(second)) == (1, 0)
    assert (first.deadline_at is None, second.deadline_at) == (False, None)  # its time does not run while it waits
    assert schedules.begin_queued(EPOCH) == 0
    assert schedules.some_wait
    end(first)
    before = now()
    assert schedules.begin_queued(EPOCH) == 1
    second.refresh_from_db()
    assert (second.word, second.queued_since, executions(second)) == ("running", None, 1)
    assert second.run_at >= before
    assert second.deadline_at is not None
    assert abs(second.deadline_at - second.run_at - timedelta(seconds=60)) < timedelta(milliseconds=1)
    assert schedules.begin_queued(EPOCH) == 0
    assert not schedules.some_wait


def test_the_oldest_begins_first_and_nobody_overtakes(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, max_active_runs=2)
    started = [trigger(principal, dag) for _ in range(5)]
    end(started[0])
    late = trigger(principal, dag)  # a place is free, and others wait for it
    assert late.word == "queued"
    assert schedules.begin_queued(EPOCH) == 1
    words = [DagRun.objects.get(id=run.id).word for run in [*started, late]]
    assert words == ["succeeded", "running", "running", "queued", "queued", "queued"]


def test_dags_take_their_turn_oldest_first_and_full_ones_bar_nobody(
    principal: Principal, schedules: DagSchedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dag_schedules, "_DAGS_A_PASS", 1)
    made = [make_dag(principal, name=f"d{number}") for number in range(3)]
    first = [trigger(principal, dag) for dag in made]
    second = [trigger(principal, made[number]) for number in (0, 2, 1)]  # made[2] has waited longer than made[1]
    end(first[1])
    end(first[2])
    for expected in (["queued", "running", "queued"], ["queued", "running", "running"]):
        assert schedules.begin_queued(EPOCH) == 1
        assert [DagRun.objects.get(id=run.id).word for run in second] == expected
    assert schedules.begin_queued(EPOCH) == 0


def test_a_stale_leader_begins_nothing(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    first, second = trigger(principal, dag), trigger(principal, dag)
    end(first)
    with pytest.raises(LeadershipLost):
        schedules.begin_queued(EPOCH - 1)
    assert executions(second) == 0


def test_a_limit_that_is_raised_or_taken_away_lets_them_go(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    for _ in range(4):
        trigger(principal, dag)
    making.update_dag(principal=principal, dag_id=dag.id, data={"max_active_runs": 2}, partial=True)
    assert schedules.begin_queued(EPOCH) == 1
    making.update_dag(principal=principal, dag_id=dag.id, data={"max_active_runs": None}, partial=True)
    assert schedules.begin_queued(EPOCH) == 2


def test_one_that_waits_can_be_cancelled(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    first, second = trigger(principal, dag), trigger(principal, dag)
    operations.cancel_run(principal=principal, run_id=second.id)
    second.refresh_from_db()
    assert (second.word, second.status, second.queued_since) == ("cancelled", RunStatus.CANCELLED, None)
    states = set(RunNode.objects.filter(run_id=second.id).values_list("state", flat=True))
    assert states == {NodeState.CANCELLED}
    end(first)
    assert schedules.begin_queued(EPOCH) == 0
    assert executions(second) == 0


def test_a_paused_one_leaves_the_queue_and_releases_nothing(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    first, second = trigger(principal, dag), trigger(principal, dag)
    operations.pause_run(principal=principal, run_id=second.id)
    end(first)
    assert schedules.begin_queued(EPOCH) == 1
    assert executions(second) == 0
    operations.resume_run(principal=principal, run_id=second.id)
    assert executions(second) == 1


def test_a_resumed_one_waits_on(principal: Principal) -> None:
    dag = make_dag(principal)
    trigger(principal, dag)
    second = trigger(principal, dag)
    operations.pause_run(principal=principal, run_id=second.id)
    operations.resume_run(principal=principal, run_id=second.id)
    second.refresh_from_db()
    assert (second.word, second.paused_at, executions(second)) == ("queued", None, 0)


def test_a_marked_node_of_one_that_waits_releases_nothing(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    first, second = trigger(principal, dag), trigger(principal, dag)
    operations.mark_node(principal=principal, run_id=second.id, node_id="a", state="success")
    assert executions(second) == 0
    end(first)
    assert schedules.begin_queued(EPOCH) == 1
    assert executions(second) == 1  # of b
    assert RunNode.objects.get(run_id=second.id, node_id="b").state == NodeState.ACTIVE


def test_the_schedule_does_not_overtake_what_waits(principal: Principal, schedules: DagSchedules) -> None:
    every = {"type": "interval", "every_seconds": 3600, "start_at": (now() - timedelta(seconds=10)).isoformat()}
    dag = make_dag(principal, schedule=every, strict_timing=True, overlap_policy="buffer_all")
    first, second = trigger(principal, dag), trigger(principal, dag)
    end(first)
    Dag.objects.filter(id=dag.id).update(next_fire_at=now() - timedelta(seconds=10))
    schedules.start_due(EPOCH)
    assert DagRun.objects.filter(dag_id=dag.id).count() == 2
    assert schedules.begin_queued(EPOCH) == 1
    end(second)
    schedules.start_due(EPOCH)
    assert DagRun.objects.filter(dag_id=dag.id).count() == 3


def test_a_run_for_later_takes_no_place_before_its_time(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal)
    later = trigger(principal, dag, after=86400)
    assert (later.word, executions(later)) == ("queued", 0)
    first, second = trigger(principal, dag), trigger(principal, dag)
    assert (first.word, second.word) == ("running", "queued")
    end(first)
    assert schedules.begin_queued(EPOCH) == 1
    assert (executions(second), executions(later)) == (1, 0)
    end(second)
    assert schedules.begin_queued(EPOCH) == 0
    operations.cancel_run(principal=principal, run_id=later.id)
    assert DagRun.objects.get(id=later.id).word == "cancelled"


@pytest.mark.parametrize("limit", [1, None])
def test_a_run_for_later_begins_at_its_time(principal: Principal, schedules: DagSchedules, limit: int | None) -> None:
    dag = make_dag(principal, max_active_runs=limit, run_timeout_seconds=60)
    run = trigger(principal, dag, after=3600)
    assert (run.word, run.deadline_at, schedules.begin_queued(EPOCH)) == ("queued", None, 0)
    due = now() + timedelta(seconds=1.5)
    DagRun.objects.filter(id=run.id).update(run_at=due)
    assert schedules.begin_queued(EPOCH) == 1  # a little ahead, for that moment and no earlier
    after = now()
    run.refresh_from_db()
    assert run.word == "running"
    assert due <= run.run_at <= max(due, after)
    assert run.deadline_at is not None
    assert due <= run.deadline_at - timedelta(seconds=60) <= max(due, after)
    assert due <= Execution.objects.get(dag_run_id=run.id).run_at <= max(due, after)


def test_a_run_for_later_that_is_due_waits_behind_who_was_due_before(
    principal: Principal, schedules: DagSchedules
) -> None:
    dag = make_dag(principal)
    later = trigger(principal, dag, after=3600)
    first, second = trigger(principal, dag), trigger(principal, dag)
    DagRun.objects.filter(id=later.id).update(run_at=now())
    assert schedules.begin_queued(EPOCH) == 0
    for ended, begins in ((first, second), (second, later)):
        end(ended)
        assert schedules.begin_queued(EPOCH) == 1
        assert executions(begins) == 1


@pytest.mark.parametrize("policy", ["skip", "buffer_all", "cancel_other", "allow_all"])
def test_the_schedule_goes_on_beside_a_run_for_later(
    principal: Principal, schedules: DagSchedules, policy: str
) -> None:
    every = {"type": "interval", "every_seconds": 3600, "start_at": (now() - timedelta(seconds=10)).isoformat()}
    dag = make_dag(principal, schedule=every, strict_timing=True, overlap_policy=policy)
    later = trigger(principal, dag, after=86400)
    Dag.objects.filter(id=dag.id).update(next_fire_at=now() - timedelta(seconds=10))
    schedules.start_due(EPOCH)
    [scheduled] = DagRun.objects.filter(dag_id=dag.id).exclude(id=later.id)
    assert (scheduled.word, executions(scheduled)) == ("running", 1)
    Dag.objects.filter(id=dag.id).update(next_fire_at=now() - timedelta(seconds=5))
    schedules.start_due(EPOCH)
    assert DagRun.objects.get(id=later.id).word == "queued"  # under cancel_other, too


def test_a_run_for_later_says_when(principal: Principal) -> None:
    dag = make_dag(principal, max_active_runs=None)
    run = trigger(principal, dag, after=86400)
    shown = make_api(Tenant.objects.get(id=principal.tenant_id)).get(f"/dags/executions/{run.id}").json()
    assert (shown["status"], shown["waits_for"]) == ("queued", f"run_at: not before {shown['run_at']}")


def test_what_runs_again_waits_for_a_place(principal: Principal, schedules: DagSchedules) -> None:
    dag = make_dag(principal, run_timeout_seconds=60)
    ended = trigger(principal, dag)
    operations.cancel_run(principal=principal, run_id=ended.id)
    first, second = trigger(principal, dag), trigger(principal, dag)
    operations.rerun_from_failed(principal=principal, run_id=ended.id)
    ended.refresh_from_db()
    assert (ended.word, ended.deadline_at, executions(ended)) == ("queued", None, 1)  # that of before
    operations.clear_node(principal=principal, run_id=ended.id, node_id="a")  # that does not begin it either
    assert executions(ended) == 1
    for over, begins, made in ((first, second, 1), (second, ended, 2)):
        end(over)
        assert schedules.begin_queued(EPOCH) == 1
        assert executions(begins) == made
    ended.refresh_from_db()
    assert (ended.word, ended.deadline_at is None) == ("running", False)


def test_a_node_of_an_active_run_is_cleared_at_once(principal: Principal) -> None:
    dag = make_dag(principal)
    first, _ = trigger(principal, dag), trigger(principal, dag)
    operations.clear_node(principal=principal, run_id=first.id, node_id="a")
    assert (DagRun.objects.get(id=first.id).word, executions(first)) == ("running", 2)


def test_a_mark_that_leaves_nothing_to_run_waits_for_nobody(principal: Principal) -> None:
    dag = make_dag(principal)
    ended = trigger(principal, dag)
    operations.cancel_run(principal=principal, run_id=ended.id)
    trigger(principal, dag)
    operations.mark_node(principal=principal, run_id=ended.id, node_id="b", state="success")
    run = DagRun.objects.get(id=ended.id)
    assert (run.word, run.queued_since) == ("partially_completed", None)


def test_so_many_may_wait_for_their_time(principal: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggering, "MOST_QUEUED", 1)
    dag = make_dag(principal)
    trigger(principal, dag, after=86400)
    with pytest.raises(Conflict, match="1 runs of DAG 'd' wait for their time already"):
        trigger(principal, dag, after=90000)
    assert [trigger(principal, dag).word for _ in range(2)] == ["running", "queued"]


def test_the_queue_has_an_end(principal: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggering, "MOST_QUEUED", 2)
    dag = make_dag(principal)
    for _ in range(3):
        trigger(principal, dag)
    with pytest.raises(Conflict, match="2 runs of DAG 'd' wait already") as caught:
        trigger(principal, dag)
    assert caught.value.extra == {"queued_runs": 2, "active_runs": 1, "max_active_runs": 1}


def test_the_audit_log_says_that_it_waits(principal: Principal) -> None:
    dag = make_dag(principal)
    trigger(principal, dag)
    trigger(principal, dag)
    entries = AuditEntry.objects.filter(action="dag.trigger", tenant_id=principal.tenant_id).order_by("id")
    assert [entry.detail["queued"] for entry in entries] == [False, True]


def test_the_api_shows_it_and_finds_it(principal: Principal) -> None:
    dag = make_dag(principal)
    first, second = trigger(principal, dag), trigger(principal, dag)
    api = make_api(Tenant.objects.get(id=principal.tenant_id))
    shown = api.get(f"/dags/executions/{second.id}").json()
    assert shown["status"] == "queued"
    assert shown["waits_for"].startswith("max_active_runs")
    assert shown["queued_since"] is not None

    def listed(*words: str) -> list[str]:
        query = "&".join(f"status={word}" for word in words)
        return [row["id"] for row in api.get(f"/dags/{dag.id}/executions?{query}").json()["items"]]

    assert listed("queued") == [str(second.id)]
    assert listed("running") == [str(first.id)]
    assert listed("queued", "running") == [str(second.id), str(first.id)]
    assert selectors.runs(principal).filter(dag_id=dag.id).count() == 2
