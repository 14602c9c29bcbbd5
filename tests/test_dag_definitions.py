"""DAGs defined: versions, nodes that keep their ids, plans that follow their tasks, triggers and conflicts."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from apps.definitions import services
from apps.definitions.dags import making, planning, selectors, standing, triggering, versions
from apps.definitions.dags.differences import differences
from apps.definitions.models import Dag, DagEdge, DagNode
from apps.executions.dags.models import DagRun
from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.models import DagVersion, Execution, TaskVersion
from apps.tenants.models import AuditEntry
from apps.tenants.principal import Principal
from chronoweb.runtime.errors import Conflict, InvalidInputs, NotFound
from tests.factories import EACH_MINUTE, make_principal, make_task, now
from tests.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
NOOP = {"type": "python", "name": "demo.noop"}


@pytest.fixture
def principal() -> Principal:
    return make_principal()


def node(name: str, *parents: Any, **fields: Any) -> dict[str, Any]:
    return {"id": name, "handler": NOOP, "depends_on": list(parents), **fields}


def make_dag(principal: Principal, *nodes: dict[str, Any], **fields: Any) -> Dag:
    data = {"name": "d", "nodes": list(nodes) or [node("a"), node("b", "a")], **fields}
    return making.create_dag(principal=principal, data=data)


def edit(principal: Principal, dag: Dag, **changes: Any) -> Dag:
    return making.update_dag(principal=principal, dag_id=dag.id, data=changes, partial=True)


# ---- versions -----------------------------------------------------------------------------------------------------


def test_a_dag_is_rows_and_a_snapshot(principal: Principal) -> None:
    dag = make_dag(
        principal,
        node("a"),
        node("b", {"node": "a", "condition": {"path": "$.x", "equals": 1}}, trigger_rule="all_done", priority=2),
        {"id": "c", "approval": {"message": "well?"}, "depends_on": ["b"]},
        max_active_runs=3,
        failure_policy="fail_all",
        run_timeout_seconds=60,
    )
    assert (dag.version, dag.node_count, dag.edge_count) == (1, 3, 2)
    plan = planning.plan_of(dag)
    assert [(n.node_id, n.kind, n.trigger_rule, n.priority) for n in plan.nodes] == [
        ("a", NodeKind.TASK, TriggerRule.ALL_SUCCESS, 5),
        ("b", NodeKind.TASK, TriggerRule.ALL_DONE, 2),
        ("c", NodeKind.APPROVAL, TriggerRule.ALL_SUCCESS, 5),
    ]
    edges = sorted((edge.parent, edge.child, edge.condition) for edge in plan.edges if edge.condition)
    assert edges == [(0, 1, {"parent": "a", "path": "$.x", "op": "equals", "value": 1})]
    assert plan.nodes[2].approval == {"message": "well?", "timeout_seconds": None, "default": None}
    assert (plan.failure_policy, plan.run_timeout_seconds, plan.max_active_runs) == (FailurePolicy.FAIL_ALL, 60, 3)
    inline = TaskVersion.objects.get(id=plan.nodes[1].version_id)
    assert (inline.name, inline.number, inline.definition["handler"]) == ("d.b", 1, NOOP)
    assert DagVersion.objects.get(id=plan.version_id).definition == versions.document_of(dag)


def test_each_change_is_a_version_and_no_change_is_none(principal: Principal) -> None:
    dag = make_dag(principal)
    before = {row.key: (row.id, row.version_id) for row in DagNode.objects.filter(dag=dag)}
    assert edit(principal, dag).version == 1
    assert edit(principal, dag, nodes=[node("a"), node("b", "a")]).version == 1
    dag = edit(principal, dag, nodes=[node("a", timeout_seconds=9), node("c", "a")])
    assert dag.version == 2
    after = {row.key: (row.id, row.version_id) for row in DagNode.objects.filter(dag=dag)}
    assert set(after) == {"a", "c"}
    assert after["a"][0] == before["a"][0]
    assert TaskVersion.objects.get(id=after["a"][1] or 0).number == 2
    assert DagEdge.objects.filter(dag=dag).count() == 1
    old, new = (selectors.version(principal, dag.id, number).definition for number in (1, 2))
    found = differences(old, new)
    assert [(d.pointer, d.change, d.after) for d in found] == [
        ("/nodes/a/timeout_seconds", "added", 9),
        ("/nodes/c", "added", {"handler": NOOP, "depends_on": {"a": True}}),
        ("/nodes/b", "removed", None),
    ]
    with pytest.raises(NotFound):
        selectors.version(principal, dag.id, 3)
    # An edit of something else leaves the nodes' versions alone.
    dag = edit(principal, dag, description="nightly")
    assert {row.key: (row.id, row.version_id) for row in DagNode.objects.filter(dag=dag)} == after


def test_an_edit_based_on_an_old_version_is_refused(principal: Principal) -> None:
    dag = edit(principal, make_dag(principal), description="new")
    with pytest.raises(Conflict) as caught:
        making.update_dag(principal=principal, dag_id=dag.id, data={"tags": ["x"]}, partial=True, expected_version=1)
    differing = [{"pointer": "/tags", "yours": ["x"], "current": []}]
    assert caught.value.extra == {"version": 2, "changed": ["description"], "differences": differing}


def test_runs_keep_their_version(principal: Principal) -> None:
    dag = make_dag(principal)
    run = triggering.trigger_dag(principal=principal, dag_id=dag.id)
    dag = edit(principal, dag, nodes=[node("z")])
    later = triggering.trigger_dag(principal=principal, dag_id=dag.id)
    numbers = dict(DagVersion.objects.values_list("id", "number"))
    rows = DagRun.objects.filter(id__in=[run, later]).values_list("id", "dag_version_id", "nodes")
    assert {(identity, numbers[version], nodes) for identity, version, nodes in rows} == {(run, 1, 2), (later, 2, 1)}


# ---- tasks that nodes refer to ------------------------------------------------------------------------------------


def test_nodes_follow_the_task_they_refer_to(principal: Principal) -> None:
    task = make_task(principal, name="load", timeout_seconds=60)
    dag = make_dag(principal, {"id": "a", "task": "load"}, {"id": "b", "task": str(task.id), "priority": 1})
    plan = planning.plan_of(dag)
    assert [(n.task_id, n.priority) for n in plan.nodes] == [(task.id, 5), (task.id, 1)]
    assert plan.nodes[0].version_id == task.version_id != plan.nodes[1].version_id
    change = {"name": "renamed", "timeout_seconds": 7}
    task = services.update_task(principal=principal, task_id=task.id, data=change, partial=True)
    after = planning.plan_of(dag)
    assert after.nodes[0].version_id == task.version_id
    own = TaskVersion.objects.get(id=after.nodes[1].version_id)
    assert (own.definition["timeout_seconds"], own.definition["priority"], own.number) == (7, 1, 2)
    assert planning.plan_of(dag).nodes[1].version_id == own.id
    # What is exported names the task as it is called now, so that it can be applied again.
    document = versions.document_of(dag)
    assert [n["task"] for n in document["nodes"]] == ["renamed", "renamed"]
    assert making.apply(principal=principal, data=document).version == 1


def test_a_task_in_use_is_not_deleted(principal: Principal) -> None:
    task = make_task(principal, name="load")
    dag = make_dag(principal, {"id": "a", "task": "load"})
    with pytest.raises(Conflict, match=r"used by DAGs: d \(a\)"):
        services.delete_task(principal=principal, task_id=task.id)
    standing.delete_dag(principal=principal, dag_id=dag.id)
    services.delete_task(principal=principal, task_id=task.id)


def test_tasks_of_other_tenants_do_not_exist(principal: Principal) -> None:
    foreign = make_task(make_principal(), name="load")
    for word in ("load", str(foreign.id)):
        with pytest.raises(InvalidInputs) as caught:
            make_dag(principal, {"id": "a", "task": word})
        assert [e.pointer for e in caught.value.errors] == ["/nodes/0/task"]
    assert not Dag.objects.filter(tenant_id=principal.tenant_id).exists()


def test_what_a_node_asks_of_workers_and_places_goes_with_its_executions(principal: Principal) -> None:
    asks = {"requires": ["gpu"], "concurrency": {"key": "c-{{ parameters.c }}", "limit": 2}, "parameters": {"c": 7}}
    make_task(principal, name="load", **asks)
    dag = make_dag(principal, node("a", **asks), {"id": "b", "task": "load"}, node("c"))
    plan = planning.plan_of(dag)
    assert plan.nodes[0].route_id == plan.nodes[1].route_id != 0
    assert plan.nodes[0].concurrency_key == plan.nodes[1].concurrency_key
    assert (plan.nodes[0].concurrency_key or "").endswith(":c-7")
    assert (plan.nodes[2].route_id, plan.nodes[2].concurrency_key) == (0, None)
    triggering.trigger_dag(principal=principal, dag_id=dag.id)
    rows = Execution.objects.filter(tenant_id=principal.tenant_id).order_by("dag_node")
    assert [(row.route_id, row.concurrency_key) for row in rows] == [
        (n.route_id, n.concurrency_key) for n in plan.nodes
    ]
    with pytest.raises(InvalidInputs) as caught:
        edit(principal, dag, nodes=[node("a", **{**asks, "parameters": {"c": "{{ run.parameters.c }}"}})])
    assert [e.pointer for e in caught.value.errors] == ["/nodes/0/concurrency"]


def test_secrets_that_inline_nodes_name_must_be_there(principal: Principal) -> None:
    handler = {"type": "command", "argv": ["x"], "environment": {"TOKEN": {"secret": "NOBODY_MADE_IT"}}}
    with pytest.raises(InvalidInputs) as caught:
        making.apply(principal=principal, data={"dag": "d", "tasks": [{"id": "a", "handler": handler}]}, dry_run=True)
    assert [e.pointer for e in caught.value.errors] == ["/tasks/0/handler/environment/TOKEN"]


# ---- apply, names, standing ---------------------------------------------------------------------------------------


def test_apply_makes_edits_and_leaves(principal: Principal) -> None:
    data: dict[str, Any] = {"dag": "d", "tasks": [{"id": "a", "handler": "demo.noop"}]}
    tried = making.apply(principal=principal, data=data, dry_run=True)
    assert (tried.dag, tried.version) == (None, 1)
    assert [d.pointer for d in tried.differences] == ["/name", "/nodes/a"]
    assert not Dag.objects.filter(tenant_id=principal.tenant_id).exists()
    assert making.apply(principal=principal, data=data).version == 1
    again = making.apply(principal=principal, data=data)
    assert (again.version, again.differences) == (1, [])
    data["failure_policy"] = "continue"
    assert making.apply(principal=principal, data=data, dry_run=True).version == 2
    done = making.apply(principal=principal, data=data)
    assert (done.version, [d.line() for d in done.differences]) == (2, ['+ /failure_policy: "continue"'])


def test_a_taken_name_is_a_conflict_and_one_of_a_deleted_dag_is_free(principal: Principal) -> None:
    dag = make_dag(principal)
    with pytest.raises(Conflict) as caught:
        make_dag(principal)
    assert caught.value.extra["existing_id"] == str(dag.id)
    standing.delete_dag(principal=principal, dag_id=dag.id)
    make_dag(principal)
    make_dag(make_principal())
    with pytest.raises(NotFound):
        selectors.dag(principal, dag.id)


def test_pause_and_resume(principal: Principal) -> None:
    dag = make_dag(principal, schedule=EACH_MINUTE, catchup_seconds=60)
    assert dag.next_fire_at is not None
    dag = standing.pause_dag(principal=principal, dag_id=dag.id, note="holiday")
    assert dag.paused_note == "holiday"
    Dag.objects.filter(id=dag.id).update(next_fire_at=now() - timedelta(days=400))
    before = now()
    dag = standing.resume_dag(principal=principal, dag_id=dag.id)
    assert dag.paused_at is None
    assert dag.next_fire_at is not None
    assert (before - dag.next_fire_at).total_seconds() < 61 + abs(dag.jitter_ms) / 1000
    actions = AuditEntry.objects.filter(target_id=str(dag.id)).order_by("id").values_list("action", flat=True)
    assert list(actions) == ["dag.create", "dag.pause", "dag.resume"]


# ---- triggers -----------------------------------------------------------------------------------------------------


def test_a_trigger_merges_parameters_and_checks_them(principal: Principal) -> None:
    schema = {"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}
    dag = make_dag(principal, parameters={"a": 1, "b": 1}, parameters_schema=schema)
    for given, pointer in ((None, "/parameters"), ({"day": 7}, "/parameters/day"), ([], "/parameters")):
        with pytest.raises(InvalidInputs) as caught:
            triggering.trigger_dag(principal=principal, dag_id=dag.id, parameters=given)
        assert [e.pointer for e in caught.value.errors] == [pointer]
    assert not DagRun.objects.filter(dag_id=dag.id).exists()
    run = triggering.trigger_dag(principal=principal, dag_id=dag.id, parameters={"day": "x", "b": 2})
    row = DagRun.objects.get(id=run)
    assert row.parameters == {"a": 1, "b": 2, "day": "x"}
    assert Execution.objects.filter(tenant_id=principal.tenant_id).count() == 1  # what depends on nothing


def test_the_same_key_is_the_same_run_and_another_question_is_refused(principal: Principal) -> None:
    dag = make_dag(principal)
    first = triggering.trigger_dag(principal=principal, dag_id=dag.id, idempotency_key="k", parameters={"a": 1})
    again = triggering.trigger_dag(principal=principal, dag_id=dag.id, idempotency_key="k", parameters={"a": 1})
    assert first == again
    with pytest.raises(InvalidInputs) as caught:
        triggering.trigger_dag(principal=principal, dag_id=dag.id, idempotency_key="k", parameters={"a": 2})
    assert [e.pointer for e in caught.value.errors] == ["/idempotency_key"]
    assert DagRun.objects.filter(dag_id=dag.id).count() == 1


@pytest.mark.django_db(transaction=True)
def test_two_triggers_at_once_do_not_pass_the_limit_together(principal: Principal) -> None:
    dag = make_dag(principal, max_active_runs=1)
    started = []
    together = threading.Barrier(2)

    def trigger() -> None:
        try:
            together.wait(PATIENCE_SECONDS)
            started.append(triggering.trigger_dag(principal=principal, dag_id=dag.id))
        finally:
            connection.close()

    threads = [threading.Thread(target=trigger) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    assert sorted(run.word for run in DagRun.objects.filter(id__in=started)) == ["queued", "running"]


def test_a_plan_can_be_made_inside_a_transaction_alone(principal: Principal) -> None:
    dag = make_dag(principal)
    with transaction.atomic():
        plan = planning.plan_of(dag, priority=10)
    assert {n.priority for n in plan.nodes} == {10}
