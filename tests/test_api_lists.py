"""Lists: filters, orders, pages by key; what a list does not know is refused with what it knows."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from apps.definitions.models import Task
from apps.executions.states import Status
from tests.factories import DAILY, Api, document, execution, make_api, make_task, now, problem

pytestmark = pytest.mark.django_db

LISTS = ("/tasks", "/dags", "/executions", "/backfills", "/audit-log", "/admin/dlq")


@pytest.fixture
def api() -> Api:
    return make_api()


def walk(api: Api, path: str, **changes: Any) -> list[dict[str, Any]]:
    """Every item of a list, page by page."""
    found: list[dict[str, Any]] = []
    address, sign = path, "&" if "?" in path else "?"
    while True:
        body = api.get(address).json()
        found += body["items"]
        if body["next_cursor"] is None:
            return found
        for change in changes.values():
            change()
        address = f"{path}{sign}cursor={body['next_cursor']}"


@pytest.mark.parametrize("path", LISTS)
def test_unknown_filters_and_orders_are_refused_with_the_legal_ones(api: Api, path: str) -> None:
    wrong = problem(api.get(f"{path}?colour=red"), 400)["errors"][0]
    assert wrong["parameter"] == "colour"
    assert {"ordering", "limit", "cursor"} < set(wrong["legal"])
    wrong = problem(api.get(f"{path}?ordering=colour"), 400)["errors"][0]
    assert wrong["parameter"] == "ordering"
    assert len(wrong["legal"]) >= 2


@pytest.mark.parametrize(
    "query",
    [
        "paused=yes",
        "paused=true&paused=false",
        "schedule_type=weekly",
        "name=%00",
        "limit=0",
        "limit=1e3",
        "cursor=abc",
    ],
)
def test_wrong_values_name_their_parameter(api: Api, query: str) -> None:
    body = problem(api.get(f"/tasks?{query}"), 400)
    assert body["errors"][0]["parameter"] == query.split("=")[0]


def test_filters_of_tasks(api: Api) -> None:
    named = make_task(api.principal, name="Nightly Report", tags=["a", "b"], schedule=DAILY)
    paused = make_task(api.principal, name="other", handler={"type": "command", "argv": ["true"]})
    api.post(f"/tasks/{paused.id}/pause")
    for query, expected in [
        ("search=LY%20rep", named),
        ("name=other", paused),
        ("name=oth", None),
        ("tag=b", named),
        ("paused=true", paused),
        ("paused=false", named),
        ("schedule_type=cron,interval", named),
        ("schedule_type=cron&schedule_type=manual&paused=true", paused),
        ("handler_type=command", paused),
    ]:
        found = [item["id"] for item in api.get(f"/tasks?{query}").json()["items"]]
        assert found == ([] if expected is None else [str(expected.id)]), query


def test_orders_with_ties_go_page_by_page_without_gap_or_repeat(api: Api) -> None:
    for number in range(23):
        make_task(api.principal, name=f"{number:02}", priority=number % 3 + 1)
    by_priority = walk(api, "/tasks?ordering=priority,-name&limit=4")
    expected = sorted(range(23), key=lambda number: (number % 3 + 1, -number))
    assert [item["name"] for item in by_priority] == [f"{number:02}" for number in expected]
    assert [item["name"] for item in walk(api, "/tasks?ordering=-name&limit=5")] == sorted(
        (item["name"] for item in by_priority), reverse=True
    )
    newest = [item["id"] for item in walk(api, "/tasks?limit=7")]
    assert newest == [item["id"] for item in walk(api, "/tasks?ordering=created_at&limit=7")][::-1]


def test_a_list_that_grows_and_shrinks_meanwhile_shows_the_rest_once(api: Api) -> None:
    """Row 8.4."""
    names = [f"b{number:03}" for number in range(40)]
    for name in names:
        make_task(api.principal, name=name)
    changed = iter(range(100))

    def change() -> None:
        number = next(changed)
        make_task(api.principal, name=f"a{number:03}")  # before everything that is shown
        Task.objects.filter(tenant=api.tenant, name=f"a{number - 1:03}").update(deleted_at=now())

    found = [item["name"] for item in walk(api, "/tasks?ordering=name&limit=3", change=change)]
    assert found == names


def test_a_cursor_is_good_for_its_list_its_filters_and_its_order_alone(api: Api) -> None:
    for _ in range(3):
        make_task(api.principal, tags=["a"])
    cursor = api.get("/tasks?limit=1&tag=a").json()["next_cursor"]
    assert api.get(f"/tasks?limit=1&tag=a&cursor={cursor}").status_code == 200
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    altered = base64.urlsafe_b64encode(raw[:-3] + b"x" + raw[-2:]).decode().rstrip("=")
    for query in (
        f"limit=1&cursor={cursor}",
        f"limit=1&tag=a&ordering=name&cursor={cursor}",
        f"limit=1&tag=a&cursor={altered}",
        "cursor=",
        "cursor=%00",
    ):
        assert problem(api.get(f"/tasks?{query}"), 400)["errors"][0]["parameter"] == "cursor"
    problem(make_api().get(f"/tasks?limit=1&tag=a&cursor={cursor}"), 400)


def test_executions_go_in_both_directions_over_many_days(api: Api) -> None:
    task = make_task(api.principal)
    moments = [now() - timedelta(days=days, minutes=days) for days in (0, 0.5, 1, 2, 3)]
    rows = [execution(task, Status.COMPLETED, scheduled_at=moment) for moment in moments]
    latest = [str(row.id) for row in sorted(rows, key=lambda row: row.id, reverse=True)]
    assert [item["id"] for item in walk(api, "/executions?limit=2")] == latest
    assert [item["id"] for item in walk(api, "/executions?ordering=scheduled_at&limit=2")] == latest[::-1]
    of_task = f"/tasks/{task.id}/executions?limit=2&status=completed,cancelled"
    assert [item["id"] for item in walk(api, of_task)] == latest
    assert api.get(f"/tasks/{make_task(api.principal).id}/executions").json()["items"] == []
    problem(make_api().get(f"/tasks/{task.id}/executions"), 404)


def test_the_next_times_of_tasks_and_dags(api: Api) -> None:
    task = make_task(api.principal, schedule={**DAILY, "timezone": "Europe/Paris"})
    api.post(f"/tasks/{task.id}/pause")
    told = api.get(f"/tasks/{task.id}/next?count=3").json()
    assert len(told["fire_times"]) == 3
    assert told["paused_at"] is not None
    dag = api.post("/dags", {"name": "d", "schedule": DAILY, "nodes": [{"id": "one", "handler": "demo.noop"}]})
    assert len(api.get(f"/dags/{dag.json()['id']}/next").json()["fire_times"]) == 5
    assert api.get(f"/tasks/{make_task(api.principal).id}/next").json()["fire_times"] == []
    problem(api.get(f"/tasks/{task.id}/next?count=0"), 400)


def test_an_edit_from_an_old_version_is_told_where_it_differs(api: Api) -> None:
    made = api.post("/tasks", document(priority=5, description="old"))
    url, etag = f"/tasks/{made.json()['id']}", made["ETag"]
    assert api.call("patch", url, {"priority": 3}, headers={"If-Match": etag}).status_code == 200
    refused = problem(api.call("patch", url, {"priority": 7, "description": "old"}, headers={"If-Match": etag}), 412)
    assert (refused["version"], refused["changed"]) == (2, ["priority"])
    assert refused["differences"] == [{"pointer": "/priority", "yours": 7, "current": 3}]
    problem(api.call("delete", url, headers={"If-Match": etag}), 412)
    assert api.call("delete", url, headers={"If-Match": '"2"'}).status_code == 204


def test_what_the_scheduler_writes_makes_no_edit_stale(api: Api) -> None:
    """Row 8.6."""
    made = api.post("/tasks", document(schedule=DAILY))
    task = Task.objects.get(id=made.json()["id"])
    Task.objects.filter(id=task.id).update(next_fire_at=now() + timedelta(days=1), jitter_ms=3, updated_at=now())
    api.post(f"/tasks/{task.id}/pause", {"note": "meanwhile"})
    edited = api.call("patch", f"/tasks/{task.id}", {"priority": 2}, headers={"If-Match": made["ETag"]})
    assert edited.status_code == 200


def test_of_two_edits_of_a_dag_the_second_is_told_which_nodes_differ(api: Api) -> None:
    """Row 8.6."""
    nodes = [{"id": name, "handler": "demo.noop"} for name in ("one", "two")]
    made = api.post("/dags", {"name": "d", "nodes": nodes})
    url = f"/dags/{made.json()['id']}"
    theirs = [{**nodes[0], "priority": 2}, nodes[1]]
    assert api.call("patch", url, {"nodes": theirs}, headers={"If-Match": made["ETag"]}).status_code == 200
    ours = [made.json()["nodes"][0], {**made.json()["nodes"][1], "priority": 9}]
    refused = problem(api.call("patch", url, {"nodes": ours}, headers={"If-Match": made["ETag"]}), 412)
    told = {each["pointer"]: each for each in refused["differences"]}
    assert set(told) == {"/nodes/one", "/nodes/two"}
    assert told["/nodes/two"]["yours"]["priority"] == 9
    assert told["/nodes/one"]["current"]["priority"] == 2
