"""A tenant full of data, and a web process to ask about it: what the drill of the API's description runs against."""

import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from apps.definitions.models import Dag
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.models import CircuitBreaker
from apps.executions.states import Hold, Status
from apps.tenants import keys
from apps.tenants.models import LIMITS, ApiKey, Role, Tenant
from tests.console_ledger import make_person
from tests.factories import DAILY, Api, execution, make_principal, make_task, make_tenant, now, worker_row

NODES: list[dict[str, Any]] = [
    {"id": "fetch", "handler": "demo.noop"},
    {"id": "check", "approval": {"message": "good?"}, "depends_on": ["fetch"]},
    {"id": "each", "handler": "demo.noop", "depends_on": ["fetch"], "map_over": "fetch.result.items"},
]


@dataclass
class Full:
    """owner: its API, as an owner. others: what is there, by the names of path parameters."""

    owner: Api
    there: dict[str, list[Any]]


def make_full_tenant() -> Full:
    """Something of everything. The tenant has no limits: a drill must not be told to come back later."""
    tenant = make_tenant()
    Tenant.objects.filter(id=tenant.id).update(**dict.fromkeys(LIMITS), tier="SYSTEM")
    tenant.refresh_from_db()
    owner = Api(keys.make(tenant=tenant, name="drill", role=Role.OWNER).text, tenant)
    tasks, executions = _tasks_and_executions(tenant)
    there: dict[str, list[Any]] = {"task_id": tasks, "execution_id": executions}
    there |= _dags(owner)
    there["backfill_id"] = [_backfill(owner, "tasks", tasks[0]), _backfill(owner, "dags", there["dag_id"][0])]
    circuit = CircuitBreaker.objects.create(tenant_id=tenant.id, key="webhook:example.com:443", changed_at=now())
    there["circuit_id"] = [circuit.pk]
    there["worker_id"] = [worker_row().pk for _ in range(2)]
    there["username"] = [make_person(tenant, role=role).username for role in (Role.OPERATOR, Role.VIEWER)]
    for name in ("TOKEN", "PASSWORD"):
        assert owner.post("/secrets", {"name": name, "value": secrets.token_hex(8)}).status_code == 201
    there["name"] = ["TOKEN", "PASSWORD"]
    made = [owner.post("/api-keys", {"name": f"key {number}"}) for number in range(3)]
    there["key_id"] = [answer.json()["id"] for answer in made]
    assert ApiKey.objects.filter(tenant=tenant).count() == 4
    return Full(owner, {name: [str(value) for value in values] for name, values in there.items()})


def _tasks_and_executions(tenant: Tenant) -> tuple[list[Any], list[Any]]:
    principal = make_principal(tenant, role=Role.OWNER)
    tasks = [make_task(principal, name=f"task {number}", schedule=DAILY, tags=["a"]) for number in range(3)]
    tasks.append(
        make_task(
            principal,
            name="webhook",
            handler={"type": "command", "argv": ["true"], "environment": {"A": "b"}},
            retry_policy={"rules": [{"error": "http:4xx", "action": "dead_letter"}]},
        )
    )
    rows = [
        execution(task, status, scheduled_at=now() - timedelta(minutes=5 * number))
        for number, task in enumerate(tasks)
        for status in Status
    ]
    rows.append(execution(tasks[0], Status.PRELOADED, hold=Hold.PAUSED))
    return [task.id for task in tasks], [row.id for row in rows]


def _dags(owner: Api) -> dict[str, list[Any]]:
    dags = [owner.post("/dags", {"name": f"dag {n}", "schedule": DAILY, "nodes": NODES}).json() for n in range(2)]
    runs: list[Any] = [owner.post(f"/dags/{dag['id']}/trigger").json()["id"] for dag in dags for _ in range(2)]
    assert Dag.objects.filter(tenant=owner.tenant).count() == 2
    assert DagRun.objects.filter(id__in=runs).count() == 4
    assert RunNode.objects.filter(run_id=runs[0]).count() == 3
    return {
        "dag_id": [dag["id"] for dag in dags],
        "run_id": runs,
        "node_id": [str(node["id"]) for node in NODES],
        "number": [1],
    }


def _backfill(owner: Api, of: str, identity: Any) -> str:
    wanted = {"start": "2025-01-01T00:00:00Z", "end": "2025-01-03T00:00:00Z"}
    found: str = owner.post(f"/{of}/{identity}/backfill", wanted).json()["id"]
    return found
