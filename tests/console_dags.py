"""DAGs and their runs in a test's own tenant, for the console's pages: ended by the test, without daemons."""

import json
import secrets
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.dags import making
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Dag
from apps.executions import feed
from apps.executions.dags.models import DagRun, RunNode
from apps.executions.dags.settle import settle
from apps.executions.dags.states import NodeState
from apps.executions.models import Execution
from apps.executions.rows import Finish
from apps.executions.states import Outcome, Status
from apps.executions.store.working import finish
from apps.tenants.models import Membership, Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres

TOKEN = (1 << 32) + 8
NOOP = "demo.noop"
ERROR = b'{"type": "ValueError", "message": "amount \\"12,50\\"", "traceback": "Traceback: no"}'


def make_member(tenant: Tenant, role: Role = Role.OPERATOR) -> User:
    """Somebody who never logs in by password, whose hashing takes long."""
    person = User.objects.create(username="m" + secrets.token_hex(5))
    Membership.objects.create(tenant=tenant, user=person, role=role)
    return person


class Dags:
    """What a tenant's people and workers do."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.who = Principal.in_tenant(tenant, role=Role.OPERATOR, actor="user:ada")

    def make(self, name: str, nodes: list[dict[str, Any]], **fields: Any) -> Dag:
        runs = {"handler", "task", "approval"}
        filled = [node if runs & node.keys() else {"handler": NOOP, **node} for node in nodes]
        return making.create_dag(principal=self.who, data={"name": name, "nodes": filled, **fields})

    def start(self, dag: Dag, **parameters: Any) -> UUID:
        return trigger_dag(principal=self.who, dag_id=dag.id, parameters=parameters)

    def run(self, run_id: UUID) -> DagRun:
        return DagRun.objects.get(id=run_id)

    def nodes(self, run_id: UUID) -> dict[str, RunNode]:
        return {row.node_id: row for row in RunNode.objects.filter(run_id=run_id)}

    def states(self, run_id: UUID) -> dict[str, str]:
        return {name: NodeState(row.state).word for name, row in self.nodes(run_id).items()}

    def waiting(self, run_id: UUID, node_id: str | None = None) -> list[Execution]:
        """What has been released and has not begun, of one node or all."""
        rows = Execution.objects.filter(dag_run_id=run_id, status=Status.SCHEDULED).order_by("dag_node", "dag_item")
        if node_id is not None:
            rows = rows.filter(dag_node=self.nodes(run_id)[node_id].node)
        return list(rows)

    def begin(self, rows: list[Execution], *, status: Status = Status.RUNNING) -> None:
        """Have a worker claim them, and tell who looks."""
        with django_connection.cursor() as cursor:
            cursor.execute(
                "UPDATE executions SET status = %s, attempt = 1, token = %s, worker_id = 7, version = version + 1,"
                " wake_at = NULL, dispatched_at = clock_timestamp(), started_at = clock_timestamp()"
                " WHERE id = ANY(%s) AND scheduled_at = ANY(%s)",
                [status, TOKEN, [row.id for row in rows], [row.scheduled_at for row in rows]],
            )
        feed.changed(self.tenant.id, [row.id for row in rows])

    def finish(self, ends: Mapping[Execution, Any]) -> None:
        """End attempts that have begun: a Status, or a result. The run hears of it, and so does who looks."""
        now = postgres.raw(django_connection).execute("SELECT (extract(epoch FROM clock_timestamp()) * 1e6)::int8")
        [at] = now.fetchone() or [0]
        finishes = [_finish(row, how, at) for row, how in sorted(ends.items(), key=lambda pair: pair[0].id)]
        with transaction.atomic():
            ledger = postgres.raw(django_connection)
            written = finish(ledger, finishes, worker_id=7)
            outcome = settle(ledger, sorted(written))
        assert len(written) == len(finishes)
        feed.changed_many(outcome.changed)
        feed.changed(self.tenant.id, [row.id for row in ends])

    def end(self, run_id: UUID, **how: Any) -> None:
        """Begin and end what waits of these nodes (`-` in a name as `_`)."""
        names = {name.replace("-", "_"): name for name in self.nodes(run_id)}
        for word, outcome in how.items():
            rows = self.waiting(run_id, names[word])
            assert rows, f"{word} does not wait"
            self.begin(rows)
            self.finish({row: outcome for row in rows})


def _finish(row: Execution, how: Any, at: int) -> Finish:
    target = how if isinstance(how, Status) else Status.COMPLETED
    dead = target is Status.DEAD_LETTER
    return Finish(
        id=row.id.bytes,
        token=TOKEN,
        attempt=1,
        target=target,
        outcome=Outcome.SUCCEEDED if target is Status.COMPLETED else Outcome.FAILED,
        due_us=at,
        started_us=at - 1_000_000,
        finished_us=at,
        delay_us=None,
        result=None if isinstance(how, Status) else json.dumps(how).encode(),
        error=ERROR if dead else None,
        fingerprint=b"ValueError" if dead else None,
    )


SALES: list[dict[str, Any]] = [
    {"id": "extract"},
    {"id": "clean", "depends_on": ["extract"]},
    {"id": "score", "depends_on": ["extract"], "map_over": "extract.result.shops"},
    {
        "id": "receipts",
        "depends_on": ["extract"],
        "condition": {"field": "extract.result.type", "equals": "receipt"},
    },
    {"id": "merge", "depends_on": ["clean", "score"]},
    {"id": "archive", "depends_on": ["receipts"]},
    {"id": "sign-off", "approval": {"message": "Numbers look right?"}, "depends_on": ["merge"]},
    {"id": "publish", "depends_on": ["sign-off", "archive"], "trigger_rule": "none_failed"},
]
"""The graph of the drawings: a branch that is not taken, a mapped node, an approval, a join."""


def layered(width: int, depth: int, *, before: int = 2) -> list[dict[str, Any]]:
    """width × depth nodes; each but the first column's waits for `before` of the column before."""
    return [
        {
            "id": f"n{column}_{row}",
            "depends_on": [f"n{column - 1}_{(row + k) % width}" for k in range(before)] if column else [],
        }
        for column in range(depth)
        for row in range(width)
    ]
