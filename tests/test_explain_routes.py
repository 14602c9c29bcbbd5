"""The routes that explain, and that lists, chips and explanations use the same words."""

from datetime import timedelta

import pytest
from django.db import connection

from apps.console import reasons
from apps.definitions.dags import making
from apps.definitions.dags.triggering import trigger_dag
from apps.executions import freezing, person_store, usage
from apps.executions.dags import operations
from apps.executions.models import Execution, RunNode
from apps.executions.quotas import Use
from apps.executions.states import Hold, Status
from apps.tenants.models import Tenant
from chronoweb.runtime import postgres
from tests import factories
from tests.factories import make_api, make_task

pytestmark = pytest.mark.django_db


def test_an_execution_is_explained_with_its_place_and_a_guess() -> None:
    api = make_api()
    row = factories.execution(make_task(api.principal))
    body = api.get(f"/executions/{row.id}/explain").json()
    assert body["status"] == "scheduled"
    by_code = {reason["code"]: reason for reason in body["reasons"]}
    assert {"not_loaded", "no_preloader", "no_dispatcher"} <= set(by_code)
    assert body["position"] == {"ahead": 0, "at_least": False, "turns": 1, "loaded": False}
    assert body["estimated_start"]["at"] is None


def test_a_quota_that_is_used_up_is_told_everywhere_in_the_same_words() -> None:
    api = make_api()
    Tenant.objects.filter(id=api.tenant.id).update(executions_per_hour=5)
    row = factories.execution(make_task(api.principal), Status.SCHEDULED, hold=Hold.QUOTA)
    raw = postgres.raw(connection)
    usage.add(raw, {(api.tenant.id.bytes, int(Use.EXECUTIONS)): 5})
    text = "quota: 5 of 5 executions this hour"
    [told] = [
        r for r in api.get(f"/executions/{row.id}/explain").json()["reasons"] if r["code"] == "executions_per_hour"
    ]
    assert told["text"] == text
    assert told["figures"] == {"used": 5, "limit": 5}
    assert told["since"] < told["clears_when"]
    assert api.get(f"/executions/{row.id}").json()["reason"] == text
    assert api.get("/executions").json()["items"][0]["reason"] == text
    now = person_store.database_now(raw)
    evidence = reasons.gather(api.principal, [row], now=now)
    chip = reasons.of(row, evidence)
    assert chip is not None
    assert (chip.text, chip.code) == (text, "executions_per_hour")
    later = factories.execution(make_task(api.principal), scheduled_at=now + timedelta(minutes=5))
    coming = reasons.of(later, evidence)
    assert coming is not None
    assert coming.code == "not_due", "what is not due is not said to wait for the quota"


def test_a_tenant_of_which_as_many_run_as_may_says_so_everywhere() -> None:
    api = make_api()
    task = make_task(api.principal)
    row, _ = factories.execution(task), factories.execution(task, Status.RUNNING)
    Tenant.objects.filter(id=api.tenant.id).update(max_concurrent_workers=2)
    assert api.get(f"/executions/{row.id}").json()["reason"] is None
    Tenant.objects.filter(id=api.tenant.id).update(max_concurrent_workers=1)
    text = "limit: 1 of 1 running for its tenant"
    assert text in [reason["text"] for reason in api.get(f"/executions/{row.id}/explain").json()["reasons"]]
    assert api.get(f"/executions/{row.id}").json()["reason"] == text


def test_what_a_person_froze_is_told_with_the_reason() -> None:
    api = make_api()
    row = factories.execution(make_task(api.principal))
    freezing.freeze(tenant=api.tenant, reason="unpaid", actor="key:ops")
    shown = api.get(f"/executions/{row.id}").json()
    assert shown["reason"] == "its tenant is frozen: unpaid"
    told = api.get(f"/executions/{row.id}/explain").json()["reasons"][0]
    assert (told["code"], told["text"]) == ("tenant_frozen", "its tenant is frozen: unpaid")
    freezing.thaw(tenant=api.tenant, actor="key:ops")
    assert api.get(f"/executions/{row.id}").json()["reason"] is None


@pytest.mark.parametrize("hold", [Hold.FROZEN, Hold.QUOTA])
def test_an_edit_of_what_is_held_with_its_tenant_leaves_it_to_the_preloader(hold: Hold) -> None:
    """A row that is edited while its tenant is held must be found once the hold is gone."""
    api = make_api()
    soon = factories.now() + timedelta(minutes=5)
    task = make_task(api.principal, schedule={"type": "one_shot", "run_at": soon.isoformat()})
    [row] = factories.materialise(task)
    Execution.objects.with_id(row.id).update(hold=hold)
    assert api.call("patch", f"/tasks/{task.id}", {"priority": 2}).status_code == 200
    again = factories.reread(row)
    assert (again.hold, again.wake_at, again.priority) == (Hold.NONE, again.run_at, 2)


def test_a_node_says_which_parents_are_open_and_that_its_run_is_paused() -> None:
    api = make_api()
    work = {"handler": {"type": "python", "name": "demo.noop"}}
    nodes = [{"id": "a", **work}, {"id": "b", **work}, {"id": "c", **work, "depends_on": ["a", "b"]}]
    dag = making.create_dag(principal=api.principal, data={"name": "d", "nodes": nodes})
    run = trigger_dag(principal=api.principal, dag_id=dag.id)
    [told] = api.get(f"/dags/executions/{run}/nodes/c/explain").json()["reasons"]
    assert told["code"] == "open_dependencies"
    parents = [{"node": "a", "state": "active"}, {"node": "b", "state": "active"}]
    assert told["figures"] == {"open": 2, "parents": parents}
    operations.pause_run(principal=api.principal, run_id=run)
    found = api.get(f"/dags/executions/{run}/nodes/c/explain").json()
    assert [reason["code"] for reason in found["reasons"]] == ["run_paused", "open_dependencies"]
    begun = api.get(f"/dags/executions/{run}/nodes/a/explain").json()
    assert begun["state"] == "active"
    assert begun["execution"]["id"] == str(RunNode.objects.get(run_id=run, node_id="a").execution_id)


def test_an_approval_says_what_it_asks() -> None:
    api = make_api()
    nodes = [{"id": "sign", "approval": {"message": "ship it?"}}]
    dag = making.create_dag(principal=api.principal, data={"name": "d", "nodes": nodes})
    run = trigger_dag(principal=api.principal, dag_id=dag.id)
    found = api.get(f"/dags/executions/{run}/nodes/sign/explain").json()["execution"]
    [told] = found["reasons"]
    assert told["code"] == "approval"
    assert told["figures"] == {"run_id": str(run), "node": "sign", "message": "ship it?"}
    assert found["estimated_start"] is None
