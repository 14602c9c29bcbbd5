"""Runs of DAGs over REST: what is shown, what may be done, and to whom."""

import uuid
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from apps.definitions.dags import making
from apps.executions import ids
from apps.executions.dags.critical_path import Span, critical_path
from apps.executions.dags.plan import DagPlan, FailurePolicy, NodeKind, PlannedEdge, PlannedNode, TriggerRule
from apps.executions.dags.runs import start_run
from apps.executions.dags.settle import settle
from apps.executions.models import Execution
from apps.executions.states import Overlap, Status
from apps.tenants.models import Role
from chronoweb.runtime import postgres
from tests.factories import Api, make_api, make_task, now, pointers, problem

pytestmark = pytest.mark.django_db


def started(api: Api, dag_id: UUID | None = None, **approval: Any) -> UUID:
    """A run of a → b → c; b is an approval when its terms are given."""
    task = make_task(api.principal)
    nodes = tuple(
        PlannedNode(
            index=position,
            node_id=name,
            task_id=task.id,
            version_id=task.version_id,
            trigger_rule=TriggerRule.ALL_SUCCESS,
            priority=5,
            max_attempts=1,
            queue_seconds=None,
            kind=NodeKind.APPROVAL if approval and name == "b" else NodeKind.TASK,
            map_over=None,
            approval=approval if approval and name == "b" else None,
        )
        for position, name in enumerate("abc")
    )
    plan = DagPlan(
        dag_id=dag_id or uuid.uuid4(),
        version_id=1,
        tenant_id=api.tenant.id,
        nodes=nodes,
        edges=(PlannedEdge(0, 1, None), PlannedEdge(1, 2, None)),
        failure_policy=FailurePolicy.SKIP_DOWNSTREAM,
        run_timeout_seconds=600,
        max_active_runs=None,
        overlap=Overlap.ALLOW_ALL,
    )
    return start_run(postgres.raw(connection), plan, parameters={"customer": 7}, actor="key:test")


def end(run: UUID, status: Status) -> None:
    """Whatever waits or runs of a run ends."""
    rows = Execution.objects.filter(dag_run_id=run, status__in=[Status.SCHEDULED, Status.RUNNING])
    found = list(rows.values_list("id", flat=True))
    rows.update(status=status, finished_at=now(), wake_at=None)
    settle(postgres.raw(connection), sorted(identity.bytes for identity in found))


def shown(api: Api, run: UUID) -> dict[str, Any]:
    body: dict[str, Any] = api.get(f"/dags/executions/{run}").json()
    return body


def states(body: dict[str, Any]) -> dict[str, str]:
    return {node["id"]: node["state"] for node in body["nodes"]}


def test_a_run_is_shown_with_its_nodes_edges_and_critical_path() -> None:
    api = make_api()
    run = started(api)
    for _ in "abc":
        end(run, Status.COMPLETED)
    body = shown(api, run)
    assert body["status"] == "succeeded"
    assert body["parameters"] == {"customer": 7}
    assert states(body) == dict.fromkeys("abc", "succeeded")
    assert [(edge["parent"], edge["child"], edge["outcome"]) for edge in body["edges"]] == [
        ("a", "b", "success"),
        ("b", "c", "success"),
    ]
    assert [node["id"] for node in body["critical_path"]["nodes"]] == ["a", "b", "c"]
    assert body["nodes"][0]["execution_status"] == "completed"
    assert body["nodes"][0]["duration_seconds"] >= 0
    execution = api.get(f"/executions/{body['nodes'][0]['execution_id']}").json()
    assert execution["dag_run_id"] == str(run)
    assert execution["origin"] == "dag"


def test_an_impossible_node_is_not_there() -> None:
    api = make_api()
    at = f"/dags/executions/{started(api)}/nodes/%00"
    problem(api.get(at), 404)
    problem(api.get(f"{at}/explain"), 404)
    for act, body in (("clear", {}), ("mark", {"state": "success"}), ("skip", {}), ("approve", {})):
        problem(api.post(f"{at}/{act}", body), 404)


def test_runs_are_listed_by_dag_and_status_a_page_at_a_time() -> None:
    api = make_api()
    dag = making.create_dag(
        principal=api.principal, data={"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}]}
    ).id
    assert api.get(f"/dags/{dag}/executions").json()["items"] == []
    made = [str(started(api, dag)) for _ in range(3)]
    started(api)
    first = api.get(f"/dags/{dag}/executions?limit=2").json()
    rest = api.get(f"/dags/{dag}/executions?limit=2&cursor={first['next_cursor']}").json()
    assert sorted(row["id"] for row in first["items"] + rest["items"]) == sorted(made)
    assert api.get(f"/dags/{dag}/executions?status=succeeded").json()["items"] == []
    problem(api.get(f"/dags/{dag}/executions?status=lost"), 400)
    problem(api.get(f"/dags/{uuid.uuid4()}/executions"), 404)


def test_acts_change_the_run_and_repeat_with_their_key() -> None:
    api = make_api()
    run = started(api)
    at = f"/dags/executions/{run}"
    answer = api.post(f"{at}/pause")
    assert answer.status_code == 202
    assert answer.json()["paused_at"] is not None
    end(run, Status.COMPLETED)
    assert states(shown(api, run))["b"] == "pending"
    assert states(api.post(f"{at}/resume").json())["b"] == "active"
    end(run, Status.DEAD_LETTER)
    assert shown(api, run)["status"] == "partially_completed"
    key = {"Idempotency-Key": "again"}
    assert states(api.post(f"{at}/rerun", headers=key).json())["b"] == "active"
    assert api.post(f"{at}/rerun", headers=key)["Idempotent-Replayed"] == "true"
    marked = api.post(f"{at}/nodes/b/mark", {"state": "success"}).json()
    assert states(marked) == {"a": "succeeded", "b": "succeeded", "c": "active"}
    cleared = api.post(f"{at}/nodes/b/clear", {"downstream": True}).json()
    assert states(cleared) == {"a": "succeeded", "b": "active", "c": "pending"}
    history = api.get(f"{at}/nodes/b").json()["executions"]
    assert [row["counts"] for row in history] == [True, False, False]
    assert states(api.post(f"{at}/nodes/b/skip").json())["c"] == "skipped"
    problem(api.post(f"{at}/cancel"), 409)


def test_nothing_of_a_run_is_reopened_over_rest_while_it_is_being_stopped() -> None:
    api = make_api()
    at = f"/dags/executions/{(run := started(api))}"
    Execution.objects.filter(dag_run_id=run).update(status=Status.RUNNING)
    assert api.post(f"{at}/cancel").json()["ending"] == "cancelled"
    for act in ("rerun", "nodes/b/clear", "nodes/b/skip"):
        assert "try again when it has ended" in problem(api.post(f"{at}/{act}"), 409)["detail"]
    problem(api.post(f"{at}/nodes/a/mark", {"state": "failed"}), 409)


def test_an_approval_is_answered_over_rest() -> None:
    api = make_api()
    run = started(api, timeout_seconds=60, default=None, message="sure?")
    at = f"/dags/executions/{run}"
    problem(api.post(f"{at}/nodes/b/approve"), 409)
    end(run, Status.COMPLETED)
    body = shown(api, run)
    assert body["nodes"][1]["execution_status"] == "waiting"
    assert body["nodes"][1]["deadline_at"] is not None
    assert states(api.post(f"{at}/nodes/b/approve", {"note": "go"}).json())["c"] == "active"


def test_what_is_wrong_is_said() -> None:
    api = make_api()
    run = started(api)
    at = f"/dags/executions/{run}"
    assert pointers(problem(api.post(f"{at}/nodes/a/mark", {"state": "lost"}), 422)) == {"/state"}
    assert pointers(problem(api.post(f"{at}/nodes/a/mark", {}), 422)) == {"/state"}
    assert pointers(problem(api.post(f"{at}/nodes/a/clear", {"downstream": "yes"}), 422)) == {"/downstream"}
    assert pointers(problem(api.post(f"{at}/cancel", {"reason": 7}), 422)) == {"/reason"}
    problem(api.post(f"{at}/nodes/nobody/clear"), 404)
    problem(api.get(f"{at}/nodes/nobody"), 404)
    problem(make_api().get(at), 404)
    problem(make_api().post(f"{at}/cancel"), 404)
    problem(api.get(f"/dags/executions/{uuid.uuid4()}"), 404)
    problem(make_api(api.tenant, Role.VIEWER).post(f"{at}/cancel"), 403)
    assert make_api(api.tenant, Role.VIEWER).get(at).status_code == 200


def test_the_critical_path_follows_who_was_waited_for() -> None:
    begin = ids.from_ms(1_700_000_000_000)

    def span(start: int, stop: int) -> Span:
        return Span(ids.from_ms(1_700_000_000_000 + start), ids.from_ms(1_700_000_000_000 + stop))

    spans = {0: span(0, 10), 1: span(10, 50), 2: span(10, 20), 3: span(50, 60), 4: Span(None, begin)}
    assert critical_path(spans, [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4)]) == [0, 1, 3]
    assert critical_path({}, []) == []
