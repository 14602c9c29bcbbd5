"""One act on all that a filter finds: counted first, done in batches, what is refused listed (rows 7.4 and 7.5)."""

import pytest

from apps.definitions.models import Task
from apps.definitions.services import update_task
from apps.executions import bulk
from apps.executions.models import DeadLetter, Execution, ExecutionEvent
from apps.executions.states import Hold, Status
from apps.tenants.models import AuditEntry, Role
from tests.factories import (
    DAILY,
    EACH_MINUTE,
    Api,
    document,
    execution,
    make_api,
    make_task,
    materialise,
    pointers,
    problem,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]


@pytest.fixture
def api() -> Api:
    return make_api()


def test_pause_by_filter_with_a_count_first(api: Api) -> None:
    meant = [make_task(api.principal, tags=["a"], schedule=EACH_MINUTE) for _ in range(3)]
    other = make_task(api.principal)
    foreign = make_task(make_api().principal, tags=["a"])
    for task in meant:
        materialise(task)
    wanted = {"action": "pause", "filter": {"tag": "a", "paused": False}}
    counted = api.post("/tasks/bulk", {**wanted, "dry_run": True}).json()
    assert (counted["matched"], len(counted["first"])) == (3, 3)
    assert Task.objects.filter(paused_at__isnull=False).count() == 0
    done = api.post("/tasks/bulk", {**wanted, "expected_count": 3, "note": "all of them"}).json()
    assert done == {"action": "pause", "matched": 3, "done": 3, "failed": 0, "failures": [], "remaining": 0}
    assert set(Task.objects.filter(paused_note="all of them")) == set(meant)
    held = Execution.objects.filter(task_id__in=[task.id for task in meant])
    assert set(held.values_list("hold", flat=True)) == {Hold.PAUSED}
    assert AuditEntry.objects.filter(tenant=api.tenant, action="task.pause").count() == 3
    again = api.post("/tasks/bulk", {**wanted, "action": "resume", "filter": {"paused": True}})
    assert again.json()["done"] == 3
    assert not held.filter(hold=Hold.PAUSED).exists()
    assert {other.paused_at, Task.objects.get(id=foreign.id).paused_at} == {None}


def test_another_number_than_was_counted_does_nothing(api: Api) -> None:
    make_task(api.principal)
    refused = problem(api.post("/tasks/bulk", {"action": "delete", "filter": {}, "expected_count": 2}), 409)
    assert refused["matched"] == 1
    assert Task.objects.filter(tenant=api.tenant, deleted_at=None).count() == 1


def test_what_is_refused_is_listed_and_hinders_nothing_else(api: Api) -> None:
    used, free = make_task(api.principal, name="used"), make_task(api.principal, name="free")
    assert api.post("/dags", {"name": "d", "nodes": [{"id": "n", "task": "used"}]}).status_code == 201
    done = api.post("/tasks/bulk", {"action": "delete", "filter": {}}).json()
    assert (done["done"], done["failed"]) == (1, 1)
    assert done["failures"][0]["id"] == str(used.id)
    assert "used by DAGs: d (n)" in done["failures"][0]["detail"]
    problem(api.get(f"/tasks/{free.id}"), 404)


def test_trigger_by_filter(api: Api) -> None:
    tasks = [make_task(api.principal, tags=["a"], schedule=DAILY) for _ in range(3)]
    assert api.post("/tasks/bulk", {"action": "trigger", "filter": {"tag": "a"}}).json()["done"] == 3
    made = Execution.objects.filter(tenant=api.tenant)
    assert {row.task_id for row in made} == {task.id for task in tasks}


def test_cancel_executions_in_every_state_by_filter(api: Api) -> None:
    """Rows 7.5 and 8.5."""
    task = make_task(api.principal)
    rows = {status: execution(task, status) for status in Status}
    foreign = execution(make_task(make_api().principal), Status.SCHEDULED)
    wanted = {"action": "cancel", "filter": {"task_id": str(task.id)}}
    alive = [Status.SCHEDULED, Status.PRELOADED, Status.DISPATCHED, Status.RUNNING, Status.WAITING, Status.RETRYING]
    assert api.post("/executions/bulk", {**wanted, "dry_run": True}).json()["matched"] == len(alive)
    done = api.post("/executions/bulk", wanted).json()
    assert (done["matched"], done["done"], done["failed"]) == (len(alive), len(alive), 0)
    for status in alive:
        row = Execution.objects.with_id(rows[status].id).get()
        if status in (Status.DISPATCHED, Status.RUNNING):
            assert row.cancel_requested_at is not None
            assert ExecutionEvent.objects.filter(execution_id=row.id, reason="cancel requested").count() == 1
        else:
            assert row.state is Status.CANCELLED
    ended = {**wanted, "filter": {"task_id": str(task.id), "status": "completed"}}
    assert api.post("/executions/bulk", ended).json()["failures"][0]["detail"] == "it is completed: it has ended"
    assert Execution.objects.with_id(foreign.id).get().state is Status.SCHEDULED


def test_retry_executions_by_filter(api: Api) -> None:
    task = make_task(api.principal)
    dead = [execution(task, Status.DEAD_LETTER) for _ in range(3)]
    execution(task, Status.RUNNING)
    wanted = {"action": "retry", "filter": {"task_id": str(task.id), "status": ["dead_letter", "running"]}}
    done = api.post("/executions/bulk", wanted).json()
    assert (done["done"], done["failed"]) == (3, 1)
    assert not DeadLetter.objects.filter(execution_id__in=[row.id for row in dead]).exists()


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "round"}])
def test_an_act_on_many_goes_round_by_round(api: Api, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str]) -> None:
    """Each request counts so many and acts for so long; what was run again is not met again."""
    rows = [execution(make_task(api.principal), Status.COMPLETED) for _ in range(6)]
    for name, value in {"MOST": 4, "BATCH": 2, "RETRIED": 2, "ACT_SECONDS": 0}.items():
        monkeypatch.setattr(bulk, name, value)
    wanted = {"action": "retry", "filter": {}}
    counted = api.post("/executions/bulk", {**wanted, "dry_run": True}).json()
    assert (counted["matched"], counted["more"], len(counted["first"])) == (4, True, 5)
    seen, behind = [], None
    for number in range(3):
        key = {name: f"{value}-{number}" for name, value in headers.items()}
        answer = api.post("/executions/bulk", {**wanted, "behind": behind}, headers=key).json()
        behind = answer["behind"]
        seen.append((answer["matched"], answer["more"], answer["done"], answer["remaining"], behind is None))
    assert seen == [(4, True, 2, 2, False), (4, False, 2, 2, False), (2, False, 2, 0, True)]
    made = Execution.objects.filter(tenant=api.tenant).exclude(rerun_of=None)
    assert made.count() == len(rows), "none is met twice"
    assert set(made.values_list("rerun_of", flat=True)) == {row.id for row in rows}
    refused = problem(api.post("/executions/bulk", {**wanted, "behind": "there"}), 422)
    assert refused["errors"][0]["pointer"] == "/behind"


def test_what_runs_again_does_so_as_it_was_or_as_its_task_is_now(api: Api) -> None:
    """One by one and by filter: what is dead under its own id, what has ended as a new execution."""
    task = make_task(api.principal, parameters={"n": 1})
    done, dead = (execution(task, status) for status in (Status.COMPLETED, Status.DEAD_LETTER))
    update_task(principal=api.principal, task_id=task.id, data={"priority": 1, "parameters": {"n": 2}}, partial=True)
    wanted = {"action": "retry", "filter": {"task_id": str(task.id), "status": ["completed"]}}
    assert api.post("/executions/bulk", wanted).json()["done"] == 1
    assert api.post("/executions/bulk", wanted | {"current_version": True}).json()["done"] == 1
    assert api.post(f"/executions/{done.id}/retry", {"current_version": True}).status_code == 202
    again = Execution.objects.filter(rerun_of=done.id).select_related("task_version")
    found = sorted((one.task_version.number, one.priority, one.parameters["n"], one.attempt) for one in again)
    assert found == [(1, done.priority, 1, 0), (2, 1, 2, 0), (2, 1, 2, 0)]
    assert api.post(f"/executions/{dead.id}/retry", {"current_version": True}).json()["task_version"] == 2
    assert pointers(problem(api.post("/executions/bulk", wanted | {"current_version": 1}), 422)) == {"/current_version"}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"filter": {}}, "/action"),
        ({"action": "explode", "filter": {}}, "/action"),
        ({"action": "pause"}, "/filter"),
        ({"action": "pause", "filter": {"colour": "red"}}, "/filter/colour"),
        ({"action": "pause", "filter": {"paused": "yes"}}, "/filter/paused"),
        ({"action": "pause", "filter": {"tag": 3}}, "/filter/tag"),
        ({"action": "pause", "filter": {"schedule_type": []}}, "/filter/schedule_type"),
        ({"action": "pause", "filter": {}, "dry_run": 1}, "/dry_run"),
        ({"action": "pause", "filter": {}, "expected_count": "3"}, "/expected_count"),
        ({"action": "pause", "filter": {}, "note": 3}, "/note"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(api: Api, body: dict[str, object], pointer: str) -> None:
    found = problem(api.post("/tasks/bulk", body), 422)
    assert found["errors"][0]["pointer"] == pointer


def test_viewers_may_not(api: Api) -> None:
    viewer = make_api(api.tenant, role=Role.VIEWER)
    problem(viewer.post("/tasks/bulk", {"action": "pause", "filter": {}}), 403)


def test_many_tasks_are_made_each_for_itself_in_order(api: Api) -> None:
    taken = make_task(api.principal)
    items = [document(name="one"), document(name=taken.name), document(priority=11), document(name="two"), 3]
    made = api.post("/tasks/bulk-create", {"items": items}).json()["items"]
    assert [item["status"] for item in made] == [201, 409, 422, 201, 422]
    assert made[1]["problem"]["existing_id"] == str(taken.id)
    assert made[2]["problem"]["errors"][0]["pointer"] == "/priority"
    assert [item.get("name") for item in made] == ["one", None, None, "two", None]
    problem(api.post("/tasks/bulk-create", {"items": []}), 422)
