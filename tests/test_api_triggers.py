"""Triggers over REST: when, with what, once for each key, also when twenty ask at once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from apps.definitions import services
from apps.definitions.models import Task
from apps.executions.models import Execution, IdempotencyKey
from apps.executions.states import Hold, Origin, Overlap, Status
from apps.tenants.models import Tenant
from tests.factories import Api, document, make_api, make_principal, make_task, now, pointers, problem
from tests.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return make_api()


@pytest.fixture
def task(api: Api) -> Task:
    return make_task(api.principal, parameters={"a": 1})


def rows(task: Task) -> list[Execution]:
    return list(Execution.objects.filter(task_id=task.id))


def test_a_trigger_is_due_now(api: Api, task: Task) -> None:
    before = now()
    response = api.post(f"/tasks/{task.id}/trigger")
    after = now()
    assert response.status_code == 202
    body = response.json()
    assert response["Location"] == f"/api/v1/executions/{body['id']}"
    assert (body["status"], body["origin"], body["parameters"], body["hold"]) == ("scheduled", "manual", {"a": 1}, None)
    (row,) = rows(task)
    assert row.run_at == row.scheduled_at == row.nominal_at == row.wake_at
    assert before <= row.run_at + timedelta(milliseconds=1)
    assert row.run_at <= after
    assert (row.origin, row.slot_key, row.overlap) == (Origin.MANUAL, f"task:{task.id}", Overlap.SKIP)


def test_parameters_of_its_own(api: Api, task: Task) -> None:
    body = api.post(f"/tasks/{task.id}/trigger", {"parameters": {"b": "ü"}}).json()
    assert body["parameters"] == {"b": "ü"}
    assert api.get(f"/executions/{body['id']}").json()["parameters"] == {"b": "ü"}
    assert pointers(problem(api.post(f"/tasks/{task.id}/trigger", {"parameters": 5}), 422)) == {"/parameters"}
    too_big = {"parameters": {"a": "x" * 262_144}}
    assert pointers(problem(api.post(f"/tasks/{task.id}/trigger", too_big), 422)) == {"/parameters"}


@pytest.mark.parametrize(("ahead", "legal"), [(-20, True), (-70, False), (399 * 86_400, True), (401 * 86_400, False)])
def test_the_range_of_run_at(api: Api, task: Task, ahead: int, legal: bool) -> None:
    """Days that no keeper has made yet get their partition when somebody asks for them."""
    moment = (now() + timedelta(seconds=ahead)).replace(microsecond=250_000)
    response = api.post(f"/tasks/{task.id}/trigger", {"run_at": moment.isoformat()})
    if not legal:
        assert pointers(problem(response, 422)) == {"/run_at"}
        assert rows(task) == []
        return
    assert response.status_code == 202, response.content
    assert [row.run_at for row in rows(task)] == [moment]
    assert response.json()["run_at"] == moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def test_run_at_without_offset_is_the_schedules_time(api: Api) -> None:
    schedule = {"type": "cron", "expression": "0 2 * * *", "timezone": "Asia/Tokyo"}
    task = make_task(api.principal, schedule=schedule)
    tomorrow = (now() + timedelta(days=1)).date()
    body = api.post(f"/tasks/{task.id}/trigger", {"run_at": f"{tomorrow}T09:00:00"}).json()
    assert body["run_at"] == f"{tomorrow}T00:00:00Z"


def test_two_in_the_same_millisecond(api: Api, task: Task) -> None:
    """Behaviour 8.1."""
    moment = (now() + timedelta(minutes=1)).isoformat()
    ids = {api.post(f"/tasks/{task.id}/trigger", {"run_at": moment}).json()["id"] for _ in range(2)}
    assert len(ids) == len(rows(task)) == 2
    assert len({row.scheduled_at for row in rows(task)}) == 1


def test_a_paused_task_runs_once_a_click(api: Api, task: Task) -> None:
    """Behaviour 7.8: the double click carries one key."""
    api.post(f"/tasks/{task.id}/pause")
    headers = {"Idempotency-Key": "click-1"}
    first, second = (api.post(f"/tasks/{task.id}/trigger", {}, headers=headers) for _ in range(2))
    assert first.json() == second.json()
    (row,) = rows(task)
    assert (row.hold, row.wake_at) == (Hold.NONE, row.run_at)
    api.post(f"/tasks/{task.id}/trigger", {}, headers={"Idempotency-Key": "click-2"})
    assert len(rows(task)) == 2


def test_a_batch_in_order_and_without_overlap(api: Api, task: Task) -> None:
    start = (now() + timedelta(minutes=1)).replace(microsecond=0)
    items = [{"run_at": (start + timedelta(seconds=n)).isoformat(), "parameters": {"n": n}} for n in range(250)]
    response = api.post(f"/tasks/{task.id}/trigger-batch", {"items": items})
    assert response.status_code == 202
    ids = [item["id"] for item in response.json()["items"]]
    by_id = {str(row.id): row for row in rows(task)}
    assert [by_id[identity].parameters["n"] for identity in ids] == list(range(250))
    assert {row.slot_key for row in by_id.values()} == {None}
    assert {row.status for row in by_id.values()} == {Status.SCHEDULED}


def test_ten_thousand_at_once(api: Api, task: Task) -> None:
    response = api.post(f"/tasks/{task.id}/trigger-batch", {"items": [{"parameters": {"n": n}} for n in range(10_000)]})
    assert len({item["id"] for item in response.json()["items"]}) == 10_000
    assert Execution.objects.filter(task_id=task.id).count() == 10_000


def test_keys_of_items(api: Api, task: Task) -> None:
    path = f"/tasks/{task.id}/trigger-batch"
    first = api.post(path, {"items": [{"idempotency_key": "a", "parameters": {"n": 1}}, {}]}).json()["items"]
    again = [{"idempotency_key": "b"}, {"idempotency_key": "a", "parameters": {"n": 1}}, {"idempotency_key": "b"}]
    second = api.post(path, {"items": again}).json()["items"]
    assert second[1] == first[0]
    assert second[0] == second[2] != first[0]
    assert len(rows(task)) == 3
    body = problem(api.post(path, {"items": [{}, {"idempotency_key": "a", "parameters": {"n": 2}}]}), 422)
    assert pointers(body) == {"/items/1/idempotency_key"}
    assert len(rows(task)) == 3
    other = make_task(api.principal)
    assert api.post(f"/tasks/{other.id}/trigger", {"idempotency_key": "a"}).status_code == 202
    one = api.post(f"/tasks/{task.id}/trigger", {"idempotency_key": "a", "parameters": {"n": 1}}).json()
    assert one["id"] == first[0]["id"]


@pytest.mark.parametrize("end", [Status.COMPLETED, Status.DEAD_LETTER])
def test_a_key_whose_execution_has_ended_is_not_run_again(api: Api, task: Task, end: Status) -> None:
    item = {"idempotency_key": "once"}
    first = api.post(f"/tasks/{task.id}/trigger", item).json()["id"]
    Execution.objects.filter(task_id=task.id).update(status=end, wake_at=None, finished_at=now())
    assert api.post(f"/tasks/{task.id}/trigger", item).json()["id"] == first
    assert [(str(row.id), row.status) for row in rows(task)] == [(first, end)]


def test_an_expired_key_whose_execution_still_stands(api: Api, task: Task) -> None:
    item = {"idempotency_key": "a", "run_at": (now() + timedelta(days=9)).isoformat()}
    first = api.post(f"/tasks/{task.id}/trigger", item).json()["id"]
    IdempotencyKey.objects.filter(tenant=api.tenant).update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert api.post(f"/tasks/{task.id}/trigger", item).json()["id"] == first
    assert len(rows(task)) == 1


def test_a_lost_answer_is_repeated(api: Api) -> None:
    """Behaviour 8.2."""
    headers = {"Idempotency-Key": "k"}
    given = document()
    first = api.post("/tasks", given, headers=headers)
    again = api.post("/tasks", given, headers=headers)
    assert (again.status_code, again.json()) == (201, first.json())
    assert (again["Idempotent-Replayed"], again["ETag"], again["Location"]) == ("true", '"1"', first["Location"])
    assert not first.has_header("Idempotent-Replayed")
    assert Task.objects.filter(tenant=api.tenant).count() == 1
    problem(api.post("/tasks", {**given, "priority": 1}, headers=headers), 422)
    assert make_api().post("/tasks", given, headers=headers).status_code == 201


def test_a_refused_request_may_use_its_key_again(api: Api) -> None:
    headers = {"Idempotency-Key": "k"}
    problem(api.post("/tasks", {"name": "a"}, headers=headers), 422)
    assert api.post("/tasks", document(), headers=headers).status_code == 201
    for wrong in ("x" * 256, "a\tb"):
        body = problem(api.post("/tasks", document(), headers={"Idempotency-Key": wrong}), 422)
        assert body["errors"][0]["header"] == "Idempotency-Key"


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_with_one_key_are_one_run() -> None:
    """Behaviours 5.4 and 8.2: one wins, the others wait for it and read its answer."""
    tenant = Tenant.objects.create(slug="parallel", name="parallel")
    task = make_task(make_principal(tenant))
    api = make_api(tenant)
    together = threading.Barrier(20)

    def post(n: int) -> Any:
        together.wait(timeout=PATIENCE_SECONDS)
        try:
            body: dict[str, Any] = {"parameters": {}}
            headers = {"Idempotency-Key": "same"}
            if n % 2:  # half of them by the key of the item
                body, headers = {"idempotency_key": "same"}, {}
            response = api.post(f"/tasks/{task.id}/trigger", body, headers=headers)
            return n % 2, response.status_code, response.json()["id"]
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(post, range(20)))
    assert {status for _, status, _ in answers} == {202}
    for kind in (0, 1):
        assert len({identity for which, _, identity in answers if which == kind}) == 1
    assert Execution.objects.filter(task_id=task.id).count() == 2


class _Undone(Exception):
    pass


@pytest.mark.django_db(transaction=True)
def test_one_that_is_undone_leaves_its_key_to_those_that_wait() -> None:
    """Behaviour 5.4: the first takes the key and is rolled back while nineteen wait for it: one of these is the run."""
    tenant = Tenant.objects.create(slug="undone", name="undone")
    task = make_task(make_principal(tenant))
    api = make_api(tenant)
    taken = threading.Event()

    def first() -> None:
        try:
            with transaction.atomic():
                services.trigger(principal=make_principal(tenant), task_id=task.id, idempotency_key="same")
                taken.set()
                eventually(lambda: _waiting_for_a_lock() >= 3)
                raise _Undone
        except _Undone:
            pass
        finally:
            connection.close()

    def post(_: int) -> tuple[int, str]:
        assert taken.wait(PATIENCE_SECONDS)
        try:
            response = api.post(f"/tasks/{task.id}/trigger", {"idempotency_key": "same"})
            return response.status_code, response.json()["id"]
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        undone = pool.submit(first)
        answers = list(pool.map(post, range(19)))
        undone.result()
    assert {status for status, _ in answers} == {202}
    [row] = Execution.objects.filter(task_id=task.id)
    assert {identity for _, identity in answers} == {str(row.id)}


def _waiting_for_a_lock() -> int:
    with connection.cursor() as cursor:
        # Not pg_stat_activity: a transaction sees it as it was at its first look.
        cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_a_deletion_and_triggers_at_once_leave_nothing_waiting() -> None:
    """A trigger is before the deletion, and cancelled with the rest, or after it, and refused."""
    tenant = Tenant.objects.create(slug="deleting", name="deleting")
    task = make_task(make_principal(tenant))
    api = make_api(tenant)
    together = threading.Barrier(12)

    def act(n: int) -> int:
        together.wait(timeout=PATIENCE_SECONDS)
        try:
            if n == 6:
                return api.call("delete", f"/tasks/{task.id}").status_code
            return api.post(f"/tasks/{task.id}/trigger").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(12) as pool:
        statuses = list(pool.map(act, range(12)))
    assert statuses[6] == 204
    assert set(statuses) <= {202, 204, 404}
    assert not Execution.objects.filter(task_id=task.id).exclude(status=Status.CANCELLED).exists()
