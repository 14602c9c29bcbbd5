"""Executions over REST: lists by key, detail, cancel in every state, retry, dead letters."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from apps.definitions import services as tasks
from apps.definitions.models import Task
from apps.executions import ids, searching, selectors
from apps.executions.models import DeadLetter, Execution, Progress, Worker
from apps.executions.selectors import Filter
from apps.executions.states import Hold, Origin, Status
from apps.quickstart.bench.pages import counted
from apps.tenants.models import AuditEntry, Role
from chronoweb.runtime import postgres
from tests.factories import (
    Api,
    execution,
    make_api,
    make_task,
    now,
    problem,
    reasons,
    reread,
    worker_row,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return make_api()


@pytest.fixture
def task(api: Api) -> Task:
    return make_task(api.principal, parameters={"amount": "12,50"}, retry_policy={"max_attempts": 2})


def listed(api: Api, query: str = "") -> list[str]:
    response = api.get(f"/executions{query and '?' + query}")
    assert response.status_code == 200, response.content
    return [item["id"] for item in response.json()["items"]]


def test_the_list_turns_pages_by_key_while_rows_come(api: Api, task: Task) -> None:
    """Behaviour 8.4: over days, no gap and no repeat, although newer rows arrive."""
    start = now()
    made = [execution(task, scheduled_at=start + timedelta(days=2 - n, seconds=n)) for n in range(9)]
    made += [execution(task, scheduled_at=made[4].scheduled_at) for _ in range(3)]
    expected = [str(row.id) for row in sorted(made, key=lambda row: row.id, reverse=True)]
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = api.get(f"/executions?limit=2{cursor and '&cursor=' + cursor}").json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        execution(task, scheduled_at=start + timedelta(days=3))
    assert seen == expected


def test_a_long_page_asks_no_more_than_a_short_one(api: Api, task: Task) -> None:
    for _ in range(6):
        execution(task, Status.COMPLETED)
    listed(api)  # the first use of a key is noted
    asked = []
    for limit in (1, 5):
        with counted() as statements:
            assert len(listed(api, f"limit={limit}")) == limit
        asked.append(len(statements))
    assert asked[0] == asked[1]


def test_filters(api: Api, task: Task) -> None:
    other = make_task(api.principal)
    execution(make_task(make_api().principal))
    states = (Status.SCHEDULED, Status.RUNNING, Status.DISPATCHED, Status.COMPLETED, Status.DEAD_LETTER)
    rows = {status: execution(task, status, scheduled_at=now() - timedelta(hours=status)) for status in states}
    elsewhere = execution(other, scheduled_at=now() - timedelta(days=5))
    for status, row in rows.items():
        assert listed(api, f"status={status.word}") == (
            [str(row.id), str(elsewhere.id)] if status is Status.SCHEDULED else [str(row.id)]
        )
    assert len(listed(api, "status=running,dispatched&status=completed")) == 3
    assert listed(api, f"task_id={other.id}") == [str(elsewhere.id)]
    day_ago = (now() - timedelta(days=1)).isoformat().replace("+", "%2B")
    assert listed(api, f"until={day_ago}") == [str(elsewhere.id)]
    assert len(listed(api, f"since={day_ago}")) == 5
    assert len(listed(api)) == 6


def test_detail_tells_attempts_and_events(api: Api, task: Task) -> None:
    row = execution(task, Status.DEAD_LETTER)
    body = api.get(f"/executions/{row.id}").json()
    assert (body["status"], body["attempt"], body["max_attempts"], body["class"]) == ("dead_letter", 1, 2, "standard")
    assert (body["task_name"], body["task_version"], body["reason"]) == (task.name, 1, "no")
    assert body["parameters"] == {"amount": "12,50"}
    (attempt,) = body["attempts"]
    assert (attempt["outcome"], attempt["error"]["type"]) == ("failed", "ValueError")
    assert body["events"] == []


def test_foreign_executions_are_unknown(api: Api) -> None:
    theirs = execution(make_task(make_api().principal), Status.DEAD_LETTER)
    paths = (f"/executions/{theirs.id}/retry", f"/executions/{theirs.id}/cancel", f"/admin/dlq/{theirs.id}/replay")
    problem(api.get(f"/executions/{theirs.id}"), 404)
    for path in paths:
        problem(api.post(path), 404)
    problem(api.call("delete", f"/admin/dlq/{theirs.id}"), 404)
    assert listed(api) == []
    assert api.get("/admin/dlq").json()["items"] == []
    assert reread(theirs).version == theirs.version


def test_viewers_do_not_touch_executions(api: Api, task: Task) -> None:
    row = execution(task, Status.DEAD_LETTER)
    viewer = make_api(api.tenant, Role.VIEWER)
    assert viewer.get(f"/executions/{row.id}").status_code == 200
    for path in (f"/executions/{row.id}/retry", f"/executions/{row.id}/cancel", f"/admin/dlq/{row.id}/replay"):
        problem(viewer.post(path), 403)
    problem(viewer.call("delete", f"/admin/dlq/{row.id}"), 403)


@pytest.mark.parametrize("status", list(Status))
def test_cancel_in_each_state(api: Api, task: Task, status: Status) -> None:
    """Behaviour 8.5, the part of the API: at once, asked for, repeated, or refused because it has ended."""
    row = execution(task, status)
    path = f"/executions/{row.id}/cancel"
    if status in (Status.COMPLETED, Status.SKIPPED, Status.DEAD_LETTER):
        assert problem(api.post(path), 409)["status"] == 409
        assert reread(row).version == row.version
        return
    first, again = api.post(path).json(), api.post(path).json()
    assert first == again
    if status in (Status.DISPATCHED, Status.RUNNING):
        assert (first["status"], first["reason"]) == (status.word, "asked to stop")
        assert first["cancel_requested_at"] is not None
        assert reasons(row) == ["cancel requested"]
        return
    assert first["status"] == "cancelled"
    assert reasons(row) == ([] if status is Status.CANCELLED else ["cancelled"])
    assert reread(row).wake_at is None


def test_replay_gives_a_fresh_budget_once(api: Api, task: Task) -> None:
    row = execution(task, Status.DEAD_LETTER)
    assert [item["id"] for item in api.get("/admin/dlq").json()["items"]] == [str(row.id)]
    response = api.post(f"/admin/dlq/{row.id}/replay")
    assert response.status_code == 202
    body = response.json()
    assert (body["id"], body["status"], body["attempt"], body["max_attempts"]) == (str(row.id), "scheduled", 1, 3)
    again = reread(row)
    assert again.wake_at == again.run_at <= now()
    assert reasons(row) == ["replayed from the dead letters"]
    assert not DeadLetter.objects.filter(execution_id=row.id).exists()
    assert api.get("/admin/dlq").json()["items"] == []
    assert "is scheduled" in problem(api.post(f"/admin/dlq/{row.id}/replay"), 409)["detail"]
    assert reread(row).version == again.version
    assert AuditEntry.objects.filter(target_id=row.id, action="execution.replay").count() == 1


def test_discard(api: Api, task: Task) -> None:
    row = execution(task, Status.DEAD_LETTER)
    assert api.call("delete", f"/admin/dlq/{row.id}", {"reason": "wrong amount"}).status_code == 204
    assert reread(row).status == Status.CANCELLED
    assert reasons(row) == ["discarded: wrong amount"]
    problem(api.call("delete", f"/admin/dlq/{row.id}"), 409)
    assert not DeadLetter.objects.filter(execution_id=row.id).exists()


def test_the_dead_letters_page(api: Api, task: Task) -> None:
    other = make_task(api.principal)
    rows = [execution(task, Status.DEAD_LETTER, scheduled_at=now() - timedelta(days=n)) for n in range(5)]
    execution(other, Status.DEAD_LETTER)
    seen: list[str] = []
    cursor = ""
    while cursor is not None:
        page = api.get(f"/admin/dlq?task_id={task.id}&limit=2{cursor and '&cursor=' + cursor}").json()
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == [str(row.id) for row in rows]
    item = api.get("/admin/dlq?limit=1").json()["items"][0]
    assert (item["fingerprint"], item["error"]["message"]) == ("ValueError", "no")


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.CANCELLED, Status.SKIPPED])
def test_retry_of_what_ended_is_a_new_execution(api: Api, task: Task, status: Status) -> None:
    row = execution(task, status, payload={"own": 1})
    tasks.update_task(principal=api.principal, task_id=task.id, data={"priority": 1}, partial=True)
    body = api.post(f"/executions/{row.id}/retry").json()
    assert (body["rerun_of"], body["origin"], body["status"]) == (str(row.id), "rerun", "scheduled")
    assert (body["parameters"], body["task_version"], body["priority"]) == ({"own": 1}, 1, 5)
    assert (body["nominal_at"], body["attempt"], body["max_attempts"]) == (
        row.nominal_at.isoformat().replace("+00:00", "Z") if row.nominal_at else None,
        0,
        2,
    )
    assert reread(row).version == row.version
    assert Execution.objects.get(id=body["id"]).origin == Origin.RERUN


def test_retry_of_a_dead_letter_is_its_replay_and_of_what_runs_a_conflict(api: Api, task: Task) -> None:
    dead, running = execution(task, Status.DEAD_LETTER), execution(task, Status.RUNNING)
    assert api.post(f"/executions/{dead.id}/retry").json()["id"] == str(dead.id)
    assert reread(dead).status == Status.SCHEDULED
    assert "is running" in problem(api.post(f"/executions/{running.id}/retry"), 409)["detail"]


def test_a_double_click_on_retry(api: Api, task: Task) -> None:
    row = execution(task, Status.COMPLETED)
    headers = {"Idempotency-Key": "click"}
    first, second = (api.post(f"/executions/{row.id}/retry", headers=headers) for _ in range(2))
    assert first.json() == second.json()
    assert Execution.objects.filter(task_id=task.id).count() == 2


def test_nothing_of_a_deleted_task_runs_again(api: Api, task: Task) -> None:
    dead, done = execution(task, Status.DEAD_LETTER), execution(task, Status.COMPLETED)
    tasks.delete_task(principal=api.principal, task_id=task.id)
    problem(api.post(f"/admin/dlq/{dead.id}/replay"), 409)
    problem(api.post(f"/executions/{done.id}/retry"), 409)
    assert api.call("delete", f"/admin/dlq/{dead.id}").status_code == 204
    assert api.get(f"/executions/{done.id}").json()["task_name"] == task.name


def know_nothing_of_days() -> None:
    """As on a day that has just begun. By now PostgreSQL may know what tests that were rolled back have left: pages
    without rows, which it would rather read than look up.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_clear_relation_stats('public', inhrelid::regclass::text) FROM pg_inherits"
            " WHERE inhparent = 'executions'::regclass"
        )


def test_a_page_is_read_by_the_index_of_its_order(api: Api, task: Task) -> None:
    """On a day that was never analysed the planner would rather read and sort all of it."""
    know_nothing_of_days()
    for _ in range(3):
        tasks.trigger_batch(principal=api.principal, task_id=task.id, items=[{} for _ in range(2000)])
    assert len(listed(api, "limit=5")) == 5
    for mode in ("force_custom_plan", "force_generic_plan"):
        plan = _plan_of_the_page(api, mode)
        assert "Seq Scan" not in plan
        assert "Sort Method" not in plan
        assert "tenant_id_id_idx" in plan


@pytest.mark.parametrize("order", ["-scheduled_at", "scheduled_at"])
def test_a_search_reaches_back_as_far_as_one_may_ask(api: Api, task: Task, order: str) -> None:
    """Its windows grow; the last one begins where the question does, and not before there were years."""
    row = execution(task, Status.COMPLETED)
    for where in (f"/tasks/{task.id}/executions?", f"/executions?task_id={task.id}&", "/executions?status=completed&"):
        page = api.get(f"{where}since=2000-01-01T00:00:00Z&ordering={order}")
        assert page.status_code == 200, page.content
        assert [item["id"] for item in page.json()["items"]] == [str(row.id)]


@pytest.mark.parametrize("descending", [True, False])
def test_a_search_that_stops_goes_on_behind_its_cursor(
    api: Api, task: Task, monkeypatch: pytest.MonkeyPatch, descending: bool
) -> None:
    made = [execution(task, Status.CANCELLED if n % 4 else Status.COMPLETED) for n in range(12)]
    made += [execution(task, Status.COMPLETED, scheduled_at=now() - timedelta(days=n)) for n in (2, 3, 6)]
    wanted = sorted((str(row.id) for row in made if row.status == Status.COMPLETED), reverse=descending)
    monkeypatch.setattr(searching, "SIZES", (2,))
    monkeypatch.setattr(searching, "LEAST", 2)
    monkeypatch.setattr(searching, "PAGE_SECONDS", 0)
    path = f"/executions?status=completed&limit=2&ordering={'-' * descending}scheduled_at"
    seen, cursor, empty = [], "", 0
    while cursor is not None:
        page = api.get(f"{path}{cursor and '&cursor=' + cursor}").json()
        assert (page["searched_to"] is None) or page["next_cursor"]
        seen += [item["id"] for item in page["items"]]
        empty += not page["items"]
        cursor = page["next_cursor"]
    assert seen == wanted
    assert empty, "a page may be empty, and not the last"


@pytest.mark.parametrize(
    ("question", "index"),
    [
        (Filter(error_type="KeyError", statuses=frozenset({Status.CANCELLED})), "_expr_id_idx"),
        (Filter(holds=frozenset({Hold.PAUSED}), error_type="KeyError"), "tenant_id_hold_id_idx"),
        (Filter(worker_id=7), "tenant_id_id_idx"),
        (Filter(statuses=frozenset({Status.RETRYING}), origins=frozenset({Origin.BACKFILL})), "tenant_id_id_idx1"),
    ],
)
def test_what_is_rare_has_an_index_to_be_found_by(
    api: Api, task: Task, question: Filter, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a day that was never analysed, too, whether PostgreSQL plans anew or keeps a plan."""
    know_nothing_of_days()
    Worker.objects.filter(pk=7).delete()
    worker_row(id=7)
    tasks.trigger_batch(principal=api.principal, task_id=task.id, items=[{} for _ in range(2000)])
    Execution.objects.filter(task_id=task.id).update(error={"type": "ValueError"}, hold=Hold.FROZEN)
    asked: list[tuple[str, dict[str, Any]]] = []
    read = postgres.UnderDjango.read
    monkeypatch.setattr(
        postgres.UnderDjango,
        "read",
        lambda self, *what: (asked.append(what), read(self, *what))[1],  # type: ignore[func-returns-value]
    )
    assert selectors.some_ids(api.principal, question, now=now(), limit=5).rows == []
    searched = [what for what in asked if "FROM executions" in what[0]]
    assert searched
    for query, values in searched:
        assert not re.search(r"(LIMIT|OFFSET) [1-9]", query), f"of a number a kept plan thinks wrong:\n{query}"
        for mode in ("force_custom_plan", "force_generic_plan"):
            plan = _plan_of(query, values, mode)
            if "One-Time Filter: false" in plan:
                break  # of a time that has no days
            assert index in plan, plan
            assert "Seq Scan" not in plan
            assert not re.search(r"-> +(Incremental )?Sort", plan), f"reads all, and sorts it:\n{plan}"


def _plan_of(query: str, values: dict[str, Any], mode: str) -> str:
    """Of a statement that was prepared."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", query)))
    sent = re.sub(r"%\((\w+)\)s", lambda found: f"${names.index(found[1]) + 1}", query)
    given = [values[name] for name in names]
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE statement = %s", [sent])
        [(name,)] = cursor.fetchall()
        cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
        cursor.execute(f"EXPLAIN (COSTS OFF) EXECUTE {name}({', '.join(['%s'] * len(given))})", given)
        return "\n".join(row[0] for row in cursor)


def _plan_of_the_page(api: Api, mode: str) -> str:
    """Of the statement that the list has prepared: PostgreSQL keeps one plan or makes one each time."""
    since, until = now() - timedelta(days=1), now() + timedelta(days=400)
    values = api.tenant.id, since, until, ids.lowest(since), ids.lowest(until), 5
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements WHERE statement LIKE '%FROM executions e%LIMIT%'")
        [(name,)] = cursor.fetchall()
        cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
        cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF) EXECUTE {name}({', '.join(['%s'] * len(values))})", values)
        return "\n".join(row[0] for row in cursor)


def test_progress_is_shown_until_it_rests(api: Api, task: Task) -> None:
    row = execution(task, Status.RUNNING)
    path = f"/executions/{row.id}"
    assert api.get(path).json()["progress"] is None
    said = Progress.objects.create(
        execution_id=row.id, scheduled_at=row.scheduled_at, tenant_id=task.tenant_id, token=1, checkpoint="{}"
    )
    assert api.get(path).json()["progress"]["text"] is None, "only a checkpoint has been left"
    said.done, said.total, said.said_at = 64, 100, now()
    said.save()
    shown = api.get(path).json()["progress"]
    assert (shown["done"], shown["total"], shown["text"], shown["fencing_token"]) == (64, 100, "64 of 100", 1)
    Execution.objects.with_id(row.id).update(status=Status.COMPLETED)
    assert api.get(path).json()["progress"] is None


@pytest.mark.parametrize(
    ("done", "total", "text"),
    [(64, 100, "64 of 100"), (3, None, "3"), (0.5, 1, "0.5 of 1"), (1234567, 2e9, "1,234,567 of 2,000,000,000")],
)
def test_progress_in_words(done: float, total: float | None, text: str) -> None:
    assert Progress(done=done, total=total).text == text
