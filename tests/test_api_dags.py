"""/api/v1/dags and /api/v1/backfills as programs see them."""

from datetime import timedelta
from typing import Any

import pytest

from apps.definitions.models import Backfill, Dag
from apps.executions.dags.models import DagRun
from apps.executions.models import DagVersion, TaskVersion
from apps.tenants.models import AuditEntry, Role
from tests.factories import EACH_MINUTE, Api, make_api, make_task, now, pointers, problem

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
UNKNOWN = "01a228d1-a002-784d-9836-45028876d1a9"
SECRET = {"type": "command", "argv": ["x"], "environment": {"KEY": "s3cret"}}


@pytest.fixture
def api() -> Api:
    return make_api()


def document(**changes: Any) -> dict[str, Any]:
    nodes = [{"id": "a", "handler": "demo.noop"}, {"id": "b", "handler": "demo.noop", "depends_on": ["a"]}]
    return {"name": "d", "nodes": nodes, **changes}


def test_life_of_a_dag(api: Api) -> None:
    made = api.post("/dags", document(tags=["etl"]))
    assert made.status_code == 201
    body = made.json()
    path = f"/dags/{body['id']}"
    assert made["Location"] == f"/api/v1{path}"
    assert made["ETag"] == '"1"'
    assert body["nodes"][1] == {"id": "b", "handler": {"type": "python", "name": "demo.noop"}, "depends_on": ["a"]}
    assert api.get(path).json() == body
    (line,) = api.get("/dags?tag=etl").json()["items"]
    assert (line["name"], line["nodes"], line["edges"], line["version"]) == ("d", 2, 1, 1)
    assert api.get("/dags?search=nothing").json()["items"] == []

    edited = api.call("patch", path, {"failure_policy": "continue"}, headers={"If-Match": '"1"'})
    assert (edited.status_code, edited["ETag"]) == (200, '"2"')
    problem(api.call("patch", path, {"tags": []}, headers={"If-Match": '"1"'}), 412)
    replaced = api.call("put", path, document())
    assert replaced.json()["version"] == 3
    assert [v["number"] for v in api.get(f"{path}/versions").json()["items"]] == [3, 2, 1]
    assert [v["number"] for v in api.get(f"{path}/versions?before=3&limit=1").json()["items"]] == [2]
    compared = api.get(f"{path}/versions/3?compare=2").json()
    assert compared["definition"]["failure_policy"] == "skip_downstream"
    assert {d["pointer"]: d["change"] for d in compared["differences"]} == {
        "/tags": "removed",
        "/failure_policy": "removed",
    }
    problem(api.get(f"{path}/versions/9"), 404)
    problem(api.get(f"{path}/versions/99999999999999999999"), 404)
    problem(api.get(f"{path}/versions?limit=0"), 400)

    assert api.post(f"{path}/pause", {"note": "x"}).json()["paused_note"] == "x"
    assert [d["name"] for d in api.get("/dags?paused=true").json()["items"]] == ["d"]
    assert api.post(f"{path}/resume").json()["paused_at"] is None
    assert api.call("delete", path).status_code == 204
    problem(api.get(path), 404)


def test_a_trigger_answers_with_the_run(api: Api) -> None:
    identity = api.post("/dags", document(parameters={"x": 1})).json()["id"]
    body = {"parameters": {"y": 2}}
    made = api.post(f"/dags/{identity}/trigger", body, headers={"Idempotency-Key": "once"})
    assert made.status_code == 202
    run = made.json()["id"]
    assert made["Location"] == f"/api/v1/dags/executions/{run}"
    assert DagRun.objects.get(id=run).parameters == {"x": 1, "y": 2}
    again = api.post(f"/dags/{identity}/trigger", body, headers={"Idempotency-Key": "once"})
    assert again.json() == made.json()
    assert DagRun.objects.filter(dag_id=identity).count() == 1
    assert pointers(problem(api.post(f"/dags/{identity}/trigger", {"parameters": 7}), 422)) == {"/parameters"}
    assert pointers(problem(api.post(f"/dags/{identity}/trigger", {"colour": 7}), 422)) == {"/colour"}
    far = (now() + timedelta(days=900)).isoformat()
    assert pointers(problem(api.post(f"/dags/{identity}/trigger", {"run_at": far}), 422)) == {"/run_at"}


def test_validation_writes_nothing_and_tells_what_would_change(api: Api) -> None:
    found = api.post("/dags/validate", document()).json()
    assert (found["id"], found["version"]) == (None, 1)
    assert [d["pointer"] for d in found["differences"]] == ["/name", "/nodes/a", "/nodes/b"]
    cycle = document(
        nodes=[{"id": "a", "handler": "x", "depends_on": ["b"]}, {"id": "b", "handler": "x", "depends_on": ["a"]}]
    )
    for path in ("/dags/validate", "/dags"):
        body = problem(api.post(path, cycle), 422)
        (error,) = body["errors"]
        assert error["pointer"] == "/nodes/0/depends_on/0"
        assert error["detail"] == "closes a cycle: a → b → a"
        assert {"value", "legal"} <= set(error)
    for model in (Dag, DagVersion, TaskVersion, AuditEntry):
        assert not model.objects.filter(tenant_id=api.tenant.id).exists()


@pytest.mark.parametrize(
    ("body", "status"), [(b"{", 400), (b'{"name": "a", "name": "b"}', 400), (b"[]", 422), (b'"x"', 422), (b"\xff", 400)]
)
def test_what_is_no_document(api: Api, body: bytes, status: int) -> None:
    problem(api.post("/dags", body), status)


def test_viewers_read_without_secrets_and_write_nothing(api: Api) -> None:
    hidden = document(nodes=[{"id": "a", "handler": SECRET}])
    path = f"/dags/{api.post('/dags', hidden).json()['id']}"
    viewer = make_api(api.tenant, Role.VIEWER)
    for shown in (viewer.get(path), viewer.get(f"{path}/versions/1"), viewer.get(f"{path}/versions/1?compare=1")):
        assert shown.status_code == 200
        assert "s3cret" not in shown.content.decode()
    assert "s3cret" in api.get(path).content.decode()
    for method, suffix in (
        ("post", "/trigger"),
        ("post", "/pause"),
        ("post", "/backfill"),
        ("delete", ""),
        ("patch", ""),
    ):
        problem(viewer.call(method, path + suffix, {}), 403)
    problem(viewer.post("/dags", document()), 403)


def test_another_tenants_dag_is_not_there(api: Api) -> None:
    path = f"/dags/{api.post('/dags', document()).json()['id']}"
    other = make_api()
    for method, suffix in (
        *(("get", ""), ("get", "/versions"), ("get", "/versions/1"), ("put", ""), ("patch", ""), ("delete", "")),
        *(("post", "/pause"), ("post", "/resume"), ("post", "/trigger"), ("post", "/backfill")),
    ):
        problem(
            other.call(method, path + suffix, None if method == "get" else document() if method == "put" else {}), 404
        )
    assert other.get("/dags").json()["items"] == []


def test_pages_follow_each_other(api: Api) -> None:
    for name in "abc":
        api.post("/dags", document(name=name))
    first = api.get("/dags?limit=2").json()
    second = api.get(f"/dags?limit=2&cursor={first['next_cursor']}").json()
    assert [d["name"] for d in first["items"] + second["items"]] == ["c", "b", "a"]
    assert second["next_cursor"] is None


# ---- backfills ----------------------------------------------------------------------------------------------------


def test_a_backfill_is_previewed_begun_and_stopped(api: Api) -> None:
    task = make_task(api.principal, schedule=EACH_MINUTE)
    path = f"/tasks/{task.id}/backfill"
    wanted = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:03:00Z", "order": "newest_first"}
    preview = api.post(path, {**wanted, "dry_run": True})
    assert preview.status_code == 200
    assert preview.json() == {
        "total": 3,
        "occurrences": ["2026-01-01T00:02:00Z", "2026-01-01T00:01:00Z", "2026-01-01T00:00:00Z"],
    }
    assert not Backfill.objects.filter(tenant_id=api.tenant.id).exists()
    made = api.post(path, wanted)
    assert made.status_code == 202
    body = made.json()
    assert (body["state"], body["total"], body["made"], body["order"]) == ("running", 3, 0, "newest_first")
    assert api.get(f"/backfills/{body['id']}").json() == body
    assert [b["id"] for b in api.get(f"/backfills?task_id={task.id}").json()["items"]] == [body["id"]]
    assert api.get(f"/backfills?dag_id={UNKNOWN}").json()["items"] == []
    stopped = api.post(f"/backfills/{body['id']}/stop").json()
    assert stopped["state"] == "stopped"
    assert api.post(f"/backfills/{body['id']}/stop").json() == stopped
    problem(make_api().get(f"/backfills/{body['id']}"), 404)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"start": None}, "/start"),
        ({"end": "soon"}, "/end"),
        ({"end": "2025-01-01T00:00:00Z"}, "/end"),
        ({"end": "2026-01-01T00:00:00.5Z", "start": "2026-01-01T00:00:00.1Z"}, "/end"),
        ({"end": "2998-01-01T00:00:00Z", "start": "2997-12-31T23:00:00Z"}, "/end"),
        ({"start": "2025-01-01T00:00:00Z"}, "/end"),  # more occurrences than may be
        ({"at_once": 0}, "/at_once"),
        ({"at_once": 5000}, "/at_once"),
        ({"order": "any"}, "/order"),
        ({"parameters": []}, "/parameters"),
        ({"parameters": {"a": "\0"}}, "/parameters/a"),
        ({"dry_run": "yes"}, "/dry_run"),
        ({"colour": 1}, "/colour"),
    ],
)
def test_a_backfill_that_cannot_be(api: Api, changes: dict[str, Any], pointer: str) -> None:
    task = make_task(api.principal, schedule=EACH_MINUTE)
    wanted = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:03:00Z", **changes}
    assert pointers(problem(api.post(f"/tasks/{task.id}/backfill", wanted), 422)) == {pointer}
    assert not Backfill.objects.filter(tenant_id=api.tenant.id).exists()


def test_what_has_no_schedule_has_nothing_to_fill_in(api: Api) -> None:
    identity = api.post("/dags", document()).json()["id"]
    wanted = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-01T00:03:00Z"}
    (error,) = problem(api.post(f"/dags/{identity}/backfill", wanted), 422)["errors"]
    assert "manual" in error["detail"]


def test_an_edit_under_both_names_of_a_field_is_refused(api: Api) -> None:
    made = api.post("/dags", {"name": "d", "nodes": [{"id": "one", "handler": "demo.noop"}]}).json()
    body = problem(api.call("patch", f"/dags/{made['id']}", {"name": "x", "dag": "y"}), 422)
    assert body["errors"][0]["pointer"] == "/dag"
