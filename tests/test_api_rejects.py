"""Bad input: each a 4xx problem that points at the field, and no row written."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client

from apps.definitions.models import Task
from apps.executions.models import Execution, IdempotencyKey, TaskVersion
from apps.tenants.models import AuditEntry, Role
from tests.factories import Api, document, make_api, make_task, pointers, problem

REJECTED = json.loads((Path(__file__).parent / "data" / "cron.json").read_text())["reject"]
UNKNOWN = "01a228d1-a002-784d-9836-45028876d1a9"
pytestmark = pytest.mark.django_db


@pytest.fixture
def api() -> Api:
    return make_api()


def nothing_written(api: Api) -> bool:
    tenant = {"tenant_id": api.tenant.id}
    models: tuple[Any, ...] = (Task, TaskVersion, Execution, IdempotencyKey, AuditEntry)
    return not any(model.objects.filter(**tenant).exists() for model in models)


@pytest.mark.parametrize("expression", REJECTED, ids=repr)
def test_cron_rejects_point_at_the_expression(api: Api, expression: str) -> None:
    schedule = {"type": "cron", "expression": expression}
    body = problem(api.post("/tasks", document(schedule=schedule)), 422)
    assert pointers(body) == {"/schedule/expression"}
    assert all("legal" in error and "value" in error for error in body["errors"])
    assert pointers(problem(api.post("/schedules/preview", schedule), 422)) == {"/expression"}
    assert nothing_written(api)


@pytest.mark.parametrize("zone", ["Europe/Pariss", "../etc/passwd", "", 7, ["UTC"]], ids=repr)
def test_unknown_zone(api: Api, zone: object) -> None:
    schedule = {"type": "cron", "expression": "0 2 * * *", "timezone": zone}
    assert pointers(problem(api.post("/tasks", document(schedule=schedule)), 422)) == {"/schedule/timezone"}
    assert pointers(problem(api.post("/schedules/preview", schedule), 422)) == {"/timezone"}
    assert nothing_written(api)


def test_a_body_of_ten_megabytes_is_refused_before_it_is_parsed(api: Api) -> None:
    not_json = b"x" * 10_000_000
    assert "larger than" in problem(api.post("/tasks", not_json), 413)["detail"]
    assert nothing_written(api)


def test_parameters_over_the_payload_limit(api: Api) -> None:
    body = problem(api.post("/tasks", document(parameters={"a": "x" * 300_000})), 422)
    assert pointers(body) == {"/parameters"}
    assert "262144" in body["errors"][0]["legal"]
    assert nothing_written(api)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"name": "a",}', "line 1 column 1"),
        (b"", "required"),
        (b'{"name": "a"', "line 1"),
        (b'{"name": "\xff"}', "UTF-8"),
        (b'{"name": "a", "name": "b"}', "'name' comes twice"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_json(api: Api, body: bytes, told: str) -> None:
    response = api.post("/tasks", body)
    assert told in json.dumps(problem(response, 400 if body else 422))
    assert nothing_written(api)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"name": "a\\u0000b"}', "/name"),
        (b'{"parameters": {"list": [1, "\\u0000"]}}', "/parameters/list/1"),
        (b'{"parameters": {"\\u0000": 1}}', "/parameters"),
        (b'{"description": "\\ud800"}', "/description"),
        (b'{"parameters": {"a": NaN}}', "/parameters/a"),
        (b'{"parameters": {"a": -Infinity}}', "/parameters/a"),
        (b'{"parameters": {"a": 1e999}}', "/parameters/a"),
        (b'{"parameters": {"a": 9223372036854775808}}', "/parameters/a"),
        (b'{"parameters": {"a": ' + b"9" * 100_000 + b"}}", "/parameters/a"),
        (b'{"parameters": {"a": ' + b"[" * 40 + b"]" * 40 + b"}}", "/parameters/a" + "/0" * 30),
    ],
)
def test_json_that_must_not_be_stored(api: Api, body: bytes, pointer: str) -> None:
    assert pointer in pointers(problem(api.post("/tasks", body), 422))
    assert nothing_written(api)


def test_every_missing_and_unknown_field_is_told_at_once(api: Api) -> None:
    body = problem(api.post("/tasks", {"nme": "a", "id": 1, "tags": "etl", "priority": 11}), 422)
    assert pointers(body) == {"/name", "/schedule", "/handler", "/nme", "/id", "/tags", "/priority"}
    assert nothing_written(api)


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"name": " "}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": "a\nb"}, "/name"),
        ({"name": "report-\u202egpj.sh"}, "/name"),
        ({"name": 5}, "/name"),
        ({"description": 5}, "/description"),
        ({"tags": ["a"] * 33}, "/tags"),
        ({"tags": ["a", "x" * 64]}, "/tags/1"),
        ({"priority": 0}, "/priority"),
        ({"priority": True}, "/priority"),
        ({"priority": 5.0}, "/priority"),
        ({"strict_timing": "yes"}, "/strict_timing"),
        ({"overlap_policy": "forbid"}, "/overlap_policy"),
        ({"overlap_policy": []}, "/overlap_policy"),
        ({"catchup_seconds": 604_801}, "/catchup_seconds"),
        ({"requires": "gpu"}, "/requires"),
        ({"requires": ["gpu", "tenant=acme"]}, "/requires/1"),
        ({"timeout_seconds": 0}, "/timeout_seconds"),
        ({"timeout_seconds": 86_401}, "/timeout_seconds"),
        ({"parameters": []}, "/parameters"),
        ({"retry_policy": {"max_attempts": 0}}, "/retry_policy/max_attempts"),
        ({"retry_policy": {"backof": "fixed"}}, "/retry_policy/backof"),
        ({"retry_policy": 3}, "/retry_policy"),
        ({"handler": {"type": "shell"}}, "/handler/type"),
        ({"handler": {"type": "command", "argv": "rm -rf"}}, "/handler/argv"),
        ({"handler": {"type": "webhook", "url": "http://169.254.169.254/"}}, "/handler/url"),
        ({"handler": "noop"}, "/handler"),
        ({"schedule": {"type": "cron"}}, "/schedule/expression"),
        ({"schedule": {"type": "interval", "every_seconds": 0}}, "/schedule/every_seconds"),
        ({"schedule": {"type": "one_shot", "run_at": "2020-01-01T00:00:00Z"}}, "/schedule/run_at"),
        ({"schedule": {"type": "cron", "expression": "0 0 30 2 *"}}, "/schedule/expression"),
        ({"schedule": []}, "/schedule"),
    ],
)
def test_each_field_has_its_range(api: Api, changes: dict[str, Any], pointer: str) -> None:
    assert pointers(problem(api.post("/tasks", document(**changes)), 422)) == {pointer}
    assert nothing_written(api)


def test_a_used_idempotency_key_with_another_body(api: Api) -> None:
    headers = {"Idempotency-Key": "once"}
    assert api.post("/tasks", document(name="first"), headers=headers).status_code == 201
    body = problem(api.post("/tasks", document(name="second"), headers=headers), 422)
    assert body["errors"][0]["header"] == "Idempotency-Key"
    assert Task.objects.filter(tenant=api.tenant).count() == 1


@pytest.mark.parametrize("body", [[], "text", 5, None, [{}]])
def test_a_document_that_is_no_object(api: Api, body: object) -> None:
    problem(api.post("/tasks", json.dumps(body).encode()), 422)
    assert nothing_written(api)


@pytest.mark.parametrize("body", [b"[]", b"0", b"false", b'""', b"null", b"[1]", b'"x"', b"7"])
def test_a_body_that_is_no_object_is_not_taken_for_none(api: Api, body: bytes) -> None:
    """Also where every field may be left out: a mistake must not start anything."""
    task = make_task(api.principal)
    for path in ("trigger", "trigger-batch", "pause", "resume"):
        assert pointers(problem(api.post(f"/tasks/{task.id}/{path}", body), 422)) == {""}
    problem(api.post("/schedules/preview", body), 422)
    problem(api.call("delete", f"/admin/dlq/{UNKNOWN}", body), 422)
    assert not Execution.objects.filter(task_id=task.id).exists()
    assert Task.objects.get(pk=task.pk).paused_at is None


@pytest.mark.parametrize("value", [0, False, [], {}, 1])
def test_notes_and_reasons_are_texts(api: Api, value: object) -> None:
    task = make_task(api.principal)
    assert pointers(problem(api.post(f"/tasks/{task.id}/pause", {"note": value}), 422)) == {"/note"}
    body = problem(api.call("delete", f"/admin/dlq/{UNKNOWN}", {"reason": value}), 422)
    assert pointers(body) == {"/reason"}


def test_a_body_of_many_fields_costs_no_more_than_its_size(api: Api) -> None:
    """Looking for the repeated one, and for what must not be stored, takes seconds for the largest body."""
    began = time.process_time()
    fields = ",".join(f'"f{n}": 1' for n in range(200_000))
    body = problem(api.post("/tasks", f'{{{fields}, "z": 1, "z": 2}}'.encode()), 400)
    assert "'z' comes twice" in body["detail"]
    many = ("[" + "[1]," * 500_000 + '"\\u0000"]').encode()
    assert pointers(problem(api.post("/tasks", many), 422)) == {"/500000"}
    assert time.process_time() - began < 30
    assert nothing_written(api)


def test_a_foreign_host_header_is_a_problem_below_api_and_a_page_elsewhere(api: Api) -> None:
    client = Client()
    problem(client.get("/api/v1/tasks", headers={"Host": "evil.example"}), 400)
    page = client.get("/login/", headers={"Host": "evil.example"})
    assert (page.status_code, page["Content-Type"]) == (400, "text/html; charset=utf-8")


def test_batch_errors_point_at_their_items_and_nothing_is_written(api: Api) -> None:
    task = make_task(api.principal)
    items: list[Any] = [
        {},
        {"run_at": "2020-01-01T00:00:00Z"},
        {"run_at": "2099-01-01T00:00:00Z"},
        {"run_at": "soon"},
        {"parameters": [1]},
        {"when": 1},
        {"idempotency_key": ""},
        7,
        {"idempotency_key": "a", "parameters": {"n": 1}},
        {"idempotency_key": "b", "parameters": {"n": 1}},
    ]
    body = problem(api.post(f"/tasks/{task.id}/trigger-batch", {"items": items}), 422)
    expected = {"/items/1/run_at", "/items/2/run_at", "/items/3/run_at", "/items/4/parameters", "/items/5/when"}
    assert pointers(body) == expected | {"/items/6/idempotency_key", "/items/7"}
    assert not Execution.objects.filter(task_id=task.id).exists()
    same_key = [{"idempotency_key": "a", "parameters": {"n": n}} for n in range(2)]
    body = problem(api.post(f"/tasks/{task.id}/trigger-batch", {"items": same_key}), 422)
    assert pointers(body) == {"/items/1/idempotency_key"}
    assert not Execution.objects.filter(task_id=task.id).exists()
    wrong: Any
    for wrong in ([], None, {}, [{}] * 10_001):
        problem(api.post(f"/tasks/{task.id}/trigger-batch", {"items": wrong}), 422)
    assert not Execution.objects.filter(task_id=task.id).exists()


def test_routes_methods_and_types_that_are_not_there(api: Api) -> None:
    problem(api.get("/nowhere"), 404)
    problem(api.get("/tasks/"), 404)
    problem(api.get("/tasks/5"), 404)
    problem(api.call("put", "/tasks", {}), 405)
    problem(api.post("/tasks", b"name=a", headers={"Content-Type": "application/x-www-form-urlencoded"}), 415)
    told = problem(api.post("/tasks", b"{}", headers={"Content-Type": "text/plain"}), 415)
    assert "application/json" in told["detail"]
    packed = api.post("/tasks", gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"})
    assert "without a Content-Encoding" in problem(packed, 415)["detail"], "not: is no UTF-8"
    assert packed["Accept-Encoding"] == "identity"
    assert api.get("/tasks", headers={"Accept": "text/html"}).status_code == 200


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=201", "limit=x", "paused=1", "cursor=AAAA", "cursor=%00", "nme=a", "search=%00", "tag=%00"],
)
def test_bad_queries(api: Api, query: str) -> None:
    body = problem(api.get(f"/tasks?{query}"), 400)
    assert body["errors"][0]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize(
    "query", ["status=gone", "status=", "status=running,", "task_id=7", "since=yesterday", "until=2026-13-01T00:00:00Z"]
)
def test_bad_queries_of_executions(api: Api, query: str) -> None:
    body = problem(api.get(f"/executions?{query}"), 400)
    assert body["errors"][0]["parameter"] == query.partition("=")[0]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("get", "/tasks/{task}"),
        ("patch", "/tasks/{task}"),
        ("delete", "/tasks/{task}"),
        ("post", "/tasks/{task}/pause"),
        ("post", "/tasks/{task}/trigger"),
        ("get", f"/executions/{UNKNOWN}"),
        ("post", f"/executions/{UNKNOWN}/cancel"),
        ("delete", f"/admin/dlq/{UNKNOWN}"),
        ("post", f"/admin/dlq/{UNKNOWN}/replay"),
        ("post", "/circuits/1/reset"),
        ("get", "/webhook-secret"),
        ("get", "/admin/scheduler"),
    ],
)
def test_no_route_ignores_a_parameter(api: Api, method: str, path: str) -> None:
    """A misspelt one is told, not taken for none; nothing is done."""
    task = make_task(api.principal)
    owner = make_api(api.tenant, role=Role.OWNER)
    body = problem(owner.call(method, f"{path.format(task=task.id)}?dry_run=1", {} if method != "get" else None), 400)
    assert body["errors"][0]["parameter"] == "dry_run"
    task.refresh_from_db()
    assert (task.deleted_at, task.paused_at, task.version) == (None, None, 1)
    assert not Execution.objects.filter(task_id=task.id).exists()


def test_ids_outside_all_partitions_are_simply_unknown(api: Api) -> None:
    for identity in ("ffffffff-ffff-7fff-bfff-ffffffffffff", "00000000-0000-7000-8000-000000000000"):
        problem(api.get(f"/executions/{identity}"), 404)
        problem(api.post(f"/executions/{identity}/cancel"), 404)


@pytest.mark.parametrize(
    ("fault", "status"),
    [(RuntimeError("SELECT secret FROM keys"), 500), (OperationalError("password=secret refused"), 503)],
)
def test_our_own_faults_tell_no_secrets(
    api: Api, monkeypatch: pytest.MonkeyPatch, fault: Exception, status: int
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise fault

    monkeypatch.setattr("apps.api.lists.filtered", fail)
    response = api.get("/tasks")
    problem(response, status)
    assert b"secret" not in response.content
    assert response.has_header("Retry-After") == (status == 503)


@pytest.mark.parametrize("identity", ["01a0b605-062a-7c36-9330-a9b31c4c71f3", "05e3ccbf-e3a9-7093-abd2-56593b168dc8"])
def test_ids_of_runs_on_days_that_there_are_not(api: Api, identity: str) -> None:
    run = f"/dags/executions/{identity}"
    for act in ("cancel", "pause", "resume", "rerun", "nodes/a/clear", "nodes/a/skip", "nodes/a/approve"):
        problem(api.post(f"{run}/{act}"), 404)
    problem(api.post(f"{run}/nodes/a/mark", {"state": "success"}), 404)


def test_what_is_no_route_is_a_problem_even_with_a_line_feed_in_it(api: Api) -> None:
    problem(api.get("/dags/%0Aa/next"), 404)


def test_a_database_that_only_reads_is_a_service_that_is_away(api: Api) -> None:
    """After a failover the address may lead to a replica for a moment."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION READ ONLY")
        response = api.post("/tasks", document())
        transaction.set_rollback(True)
    problem(response, 503)
    assert response.has_header("Retry-After")
