"""Tasks over REST: the document round, who may do what, tenants apart, ETags, lists."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from apps.definitions.models import Task
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.keys import issue
from apps.tenants.models import ApiKey, AuditEntry, Role
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.factories import Api, document, make_api, make_task, materialise, now, pointers, problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return make_api()


def created(api: Api, **changes: Any) -> dict[str, Any]:
    response = api.post("/tasks", document(**changes))
    assert response.status_code == 201, response.content
    body: dict[str, Any] = response.json()
    del body["warnings"]  # of the definition, not of the task
    return body


def test_the_document_comes_back_whole(api: Api) -> None:
    given = {
        "name": "nightly-sales",
        "description": "",
        "tags": ["etl"],
        "priority": 5,
        "schedule": {
            "type": "cron",
            "expression": "0 2 * * *",
            "timezone": "Europe/Paris",
            "run_at": None,
            "every_seconds": None,
            "start_at": None,
            "end_at": None,
            "dst_gap": "shift",
            "dst_fold": "first",
        },
        "strict_timing": False,
        "overlap_policy": "skip",
        "catchup_seconds": 3600,
        "concurrency": {"key": "sales", "limit": 2, "when_full": "skip_newest"},
        "handler": {"type": "webhook", "url": "https://1.1.1.1/x", "method": "POST", "headers": {}},
        "parameters": {},
        "timeout_seconds": 300,
        "timeouts": {"queue_seconds": 600},
        "retry_policy": {
            "max_attempts": 4,
            "backoff": "exponential_jitter",
            "base_delay_seconds": 60,
            "max_delay_seconds": 3600,
        },
        "idempotent": False,
        "requires": ["gpu", "region=eu"],
    }
    response = api.post("/tasks", given)
    assert response.status_code == 201, response.content
    task = response.json()
    assert task.pop("warnings") == []
    assert {name: task[name] for name in given} == given
    assert set(task) - set(given) == {
        "id",
        "notifications",
        "version",
        "paused_at",
        "paused_note",
        "next_fire_at",
        "created_at",
        "updated_at",
    }
    assert (response["ETag"], response["Location"]) == ('"1"', f"/api/v1/tasks/{task['id']}")
    assert api.get(f"/tasks/{task['id']}").json() == task
    assert Task.objects.get(id=task["id"]).next_fire_at is not None


def test_defaults(api: Api) -> None:
    task = created(api)
    assert (task["priority"], task["overlap_policy"], task["catchup_seconds"]) == (5, "skip", 3600)
    assert (task["timeout_seconds"], task["tags"], task["parameters"]) == (300, [], {})
    assert task["retry_policy"]["max_attempts"] == 4
    assert (task["schedule"]["type"], task["next_fire_at"]) == ("manual", None)


def test_put_replaces_and_patch_changes(api: Api) -> None:
    task = created(api, tags=["a"], priority=3)
    path = f"/tasks/{task['id']}"
    patched = api.call("patch", path, {"description": "new"}).json()
    assert (patched["description"], patched["tags"], patched["version"]) == ("new", ["a"], 2)
    put = api.call("put", path, document(name=task["name"])).json()
    assert (put["description"], put["tags"], put["priority"], put["version"]) == ("", [], 5, 3)
    assert pointers(problem(api.call("put", path, {"name": "x"}), 422)) == {"/schedule", "/handler"}


def test_last_save_does_not_win_silently(api: Api) -> None:
    """Behaviour 8.6: the ETag is about what people edit; pausing and firing do not change it."""
    task = created(api)
    path = f"/tasks/{task['id']}"
    first, second = api.get(path)["ETag"], api.get(path)["ETag"]
    api.post(f"{path}/pause", {"note": "x"})
    assert api.call("patch", path, {"priority": 1}, headers={"If-Match": first}).status_code == 200
    body = problem(api.call("patch", path, {"priority": 2}, headers={"If-Match": second}), 412)
    assert (body["version"], body["changed"]) == (2, ["priority"])
    problem(api.call("patch", path, {"priority": 2}, headers={"If-Match": '"another"'}), 412)
    wrong = problem(api.call("patch", path, {"priority": 2}, headers={"If-Match": "nonsense"}), 422)
    assert wrong["errors"][0]["header"] == "If-Match"
    assert api.get(path).json()["priority"] == 1
    assert api.call("patch", path, {"priority": 2}, headers={"If-Match": "*"}).status_code == 200


def test_a_taken_name_is_a_conflict_that_names_the_other(api: Api) -> None:
    task = created(api, name="miné")
    body = problem(api.post("/tasks", document(name="mine\u0301")), 409)  # looks the same
    assert body["existing_id"] == task["id"]
    assert "constraint" not in str(body)
    assert created(make_api(), name="miné")["id"] != task["id"]


def test_delete_pause_and_resume(api: Api) -> None:
    task = created(api, schedule={"type": "interval", "every_seconds": 60})
    path = f"/tasks/{task['id']}"
    paused = api.post(f"{path}/pause", {"note": "holiday"}).json()
    assert (paused["paused_note"], paused["paused_at"] is None) == ("holiday", False)
    problem(api.post(f"{path}/pause", {"nte": "x"}), 422)
    assert pointers(problem(api.post(f"{path}/pause", {"note": 5}), 422)) == {"/note"}
    assert api.post(f"{path}/resume").json()["paused_at"] is None
    assert api.call("delete", path).status_code == 204
    problem(api.get(path), 404)
    problem(api.call("delete", path), 404)
    actions = list(AuditEntry.objects.filter(target_id=task["id"]).order_by("id").values_list("action", flat=True))
    assert actions == ["task.create", "task.pause", "task.resume", "task.delete"]
    assert AuditEntry.objects.filter(target_id=task["id"]).first().actor.startswith("key:cw_")  # type: ignore[union-attr]


def test_next_fire_at_is_the_next_run_although_an_hour_is_made_ahead(api: Api) -> None:
    made = created(api, schedule={"type": "interval", "every_seconds": 5})
    materialise(Task.objects.get(id=made["id"]))
    assert Task.objects.get(id=made["id"]).next_fire_at > now() + timedelta(minutes=50)  # type: ignore[operator]
    url = f"/tasks/{made['id']}"
    for look in (lambda: api.get(url).json(), lambda: api.get("/tasks").json()["items"][0]):
        before, shown, after = now(), look(), now()
        near = timedelta(seconds=6)
        assert before - timedelta(seconds=1) < datetime.fromisoformat(shown["next_fire_at"]) < after + near
    assert api.post(f"{url}/pause", {}).json()["next_fire_at"] is None
    assert api.post(f"{url}/resume", {}).json()["next_fire_at"] is not None


@pytest.mark.parametrize("key", ["", "Bearer", "Bearer cw_wrong", "Bearer a b", "Basic YTpi", "Bearer \xe9", "cw_x"])
def test_without_a_good_key(api: Api, key: str) -> None:
    response = api.get("/tasks", headers={"Authorization": key})
    problem(response, 401)
    assert response["WWW-Authenticate"].startswith("Bearer")
    problem(api.post("/tasks", b"x" * 9_000_000, headers={"Authorization": key}), 401)


def test_expired_and_revoked_keys(api: Api) -> None:
    late = issue(tenant=api.tenant, name="late", expires_at=SYSTEM_CLOCK.now())
    problem(Api(late, api.tenant).get("/tasks"), 401)
    ApiKey.objects.filter(tenant=api.tenant).update(revoked_at=SYSTEM_CLOCK.now())
    problem(api.get("/tasks"), 401)


def test_viewers_are_not_shown_what_headers_and_environments_hold(api: Api) -> None:
    webhook = {"type": "webhook", "url": "https://example.com/", "headers": {"Authorization": "Bearer hush"}}
    command = {"type": "command", "argv": ["true"], "environment": {"TOKEN": "hush"}}
    paths = [
        f"/tasks/{api.post('/tasks', document(name=n, handler=h)).json()['id']}"
        for n, h in (("w", webhook), ("c", command))
    ]
    viewer = make_api(api.tenant, Role.VIEWER)
    for path in [*paths, "/tasks"]:
        assert "hush" not in viewer.get(path).content.decode()
        assert "hush" in api.get(path).content.decode()


def test_viewers_read_and_do_not_write(api: Api) -> None:
    task = created(api)
    viewer = make_api(api.tenant, Role.VIEWER)
    path = f"/tasks/{task['id']}"
    assert viewer.get(path).status_code == viewer.get("/tasks").status_code == 200
    assert viewer.post("/schedules/preview", {"type": "manual"}).status_code == 200
    for response in (
        viewer.post("/tasks", document()),
        viewer.call("patch", path, {"priority": 1}),
        viewer.call("delete", path),
        viewer.post(f"{path}/pause"),
        viewer.post(f"{path}/trigger"),
        viewer.post(f"{path}/trigger-batch", {"items": [{}]}),
    ):
        assert "operator" in problem(response, 403)["detail"]
    assert api.get(path).json() == task


def test_a_foreign_task_is_an_unknown_one(api: Api) -> None:
    theirs = created(make_api())
    unknown = "019a0000-0000-7000-8000-000000000000"
    foreign = theirs["id"]

    def texts(identity: str) -> list[str]:
        path = f"/tasks/{identity}"
        responses = [
            api.get(path),
            api.call("patch", path, {"priority": 1}),
            api.call("put", path, document()),
            api.call("delete", path),
            api.post(f"{path}/pause"),
            api.post(f"{path}/resume"),
            api.post(f"{path}/trigger"),
            api.post(f"{path}/trigger-batch", {"items": [{}]}),
        ]
        return [problem(response, 404)["detail"].replace(identity, "ID") for response in responses]

    assert texts(foreign) == texts(unknown)
    assert api.get("/tasks").json()["items"] == []
    assert not Execution.objects.filter(task_id=foreign).exists()


def test_lists_filter_and_turn_pages_while_rows_come(api: Api) -> None:
    made = [created(api, name=f"job-{n:02}-Middle", tags=["odd"] if n % 2 else ["even"])["id"] for n in range(7)]
    created(make_api())
    api.post(f"/tasks/{made[0]}/pause")
    seen: list[str] = []
    cursor, pages = "", 0
    while cursor is not None:
        page = api.get(f"/tasks?limit=3{cursor and '&cursor=' + cursor}").json()
        seen += [item["id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
        created(api, name=f"later-{pages}")
    assert seen == made[::-1]
    assert len(api.get("/tasks?search=-middle").json()["items"]) == 7
    assert [item["id"] for item in api.get("/tasks?search=03-mid").json()["items"]] == [made[3]]
    assert api.get("/tasks?search=%25").json()["items"] == []
    assert len(api.get("/tasks?tag=odd").json()["items"]) == 3
    assert [item["id"] for item in api.get("/tasks?paused=true").json()["items"]] == [made[0]]
    assert [item["id"] for item in api.get("/tasks?name=job-02-Middle").json()["items"]] == [made[2]]
    other = api.get("/tasks?limit=3&tag=odd").json()["next_cursor"]
    assert other is None
    cursor = api.get("/tasks?limit=3").json()["next_cursor"]
    problem(api.get(f"/tasks?limit=3&tag=odd&cursor={cursor}"), 400)
    problem(api.get(f"/tasks?cursor=A{cursor[1:]}x"), 400)


def test_preview(api: Api) -> None:
    asked = {"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Paris", "after": "2026-03-28T00:00:00Z"}
    body = api.post("/schedules/preview", {**asked, "count": 3}).json()
    assert body["fire_times"] == ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert body["description"] == "at 02:30 every day (Europe/Paris)"
    assert (body["timezone"], body["tzdata"][:2]) == ("Europe/Paris", "20")
    assert len(api.post("/schedules/preview", asked).json()["fire_times"]) == 5
    assert len(api.post("/schedules/preview", {"type": "interval", "every_seconds": 5, "count": 1000}).json()) == 4
    assert api.post("/schedules/preview", {"type": "manual"}).json()["fire_times"] == []
    once = {
        "type": "one_shot",
        "run_at": "2026-03-29T02:30:00",
        "timezone": "Europe/Paris",
        "after": "2026-01-01T00:00Z",
    }
    assert api.post("/schedules/preview", once).json()["fire_times"] == ["2026-03-29T01:00:00Z"]
    for wrong, pointer in (({"count": 0}, "/count"), ({"count": 1001}, "/count"), ({"after": "x"}, "/after")):
        assert pointers(problem(api.post("/schedules/preview", {**asked, **wrong}), 422)) == {pointer}
    assert not Task.objects.filter(tenant=api.tenant).exists()


@pytest.mark.parametrize(
    ("run_at", "fires"),
    [(-1, True), (-20, True), (-70, False), (-86_400, False)],
)
def test_one_shots_in_the_past(api: Api, run_at: int, fires: bool) -> None:
    """Behaviour 2.10: a small grace fires; older ones are refused, not forgotten."""
    moment = now() + timedelta(seconds=run_at)
    schedule = {"type": "one-shot", "run_at": moment.isoformat()}
    response = api.post("/tasks", document(schedule=schedule, catchup_seconds=0))
    if not fires:
        assert pointers(problem(response, 422)) == {"/schedule/run_at"}
        return
    body = response.json()
    assert body["schedule"]["run_at"].endswith("Z")
    assert body["next_fire_at"] is not None
    rows = materialise(Task.objects.get(id=body["id"]))
    assert [row.status for row in rows] == [Status.SCHEDULED]


@pytest.mark.parametrize(("retries", "executions"), [(0, 1), (1, 2), (3, 4)])
def test_max_attempts_counts_the_first(api: Api, retries: int, executions: int) -> None:
    """Behaviour 5.7, the part of the definition: the number is of attempts, and the row carries it."""
    task = make_task(api.principal, retry_policy={"max_attempts": retries + 1})
    body = api.post(f"/tasks/{task.id}/trigger").json()
    assert body["max_attempts"] == executions


def test_health_of_the_web_process(api: Api) -> None:
    client = Client()
    assert client.get("/livez").json() == {"alive": True}
    assert client.get("/readyz").status_code == 200
    assert b"python_info" in client.get("/metrics").content
    assert client.post("/livez").status_code == 405
