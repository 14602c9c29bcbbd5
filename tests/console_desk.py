"""A tenant with something for each button of the console."""

from datetime import timedelta
from functools import cached_property
from typing import Any
from uuid import uuid4

from django.urls import reverse

from apps.definitions import backfills, services
from apps.definitions.dags import standing
from apps.definitions.models import Dag
from apps.executions import freezing
from apps.executions.dags import operations
from apps.executions.dead_letters import DeadLetterFilter, start_replay
from apps.executions.models import CircuitBreaker, Execution, Lease
from apps.executions.states import Status
from apps.tenants import channels, keys, secret_store
from apps.tenants.models import Role, Tenant
from tests.console_dags import Dags, make_member
from tests.console_ledger import Ledger, make_tenant, now
from tests.console_letters import letter
from tests.test_api_workers import worker_row


class Desk:
    """A tenant with something for each button; each thing is made when a button first asks for it."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.ledger = Ledger(tenant)
        self.dags = Dags(tenant)

    def at(self, route: str, **arguments: Any) -> str:
        return reverse(f"console:{route}", kwargs={"slug": self.tenant.slug, **arguments})

    @cached_property
    def task_id(self) -> Any:
        return self.ledger.version("job").task_id

    @cached_property
    def paused_task_id(self) -> Any:
        services.pause_task(principal=self.dags.who, task_id=self.task_id, note="for a while")
        return self.task_id

    @cached_property
    def resting(self) -> Execution:
        return self.ledger.add(Status.COMPLETED, task="ended")

    @cached_property
    def failing(self) -> Execution:
        later = now() + timedelta(minutes=1)
        return self.ledger.add(Status.RETRYING, task="fails", attempt=1, run_at=later)

    @cached_property
    def waiting(self) -> Execution:
        return self.ledger.add(Status.SCHEDULED, task="waits")

    @cached_property
    def worker_id(self) -> int:
        return worker_row(tenant_id=self.tenant.id).pk

    @cached_property
    def shared_worker_id(self) -> int:
        return worker_row().pk

    @cached_property
    def member(self) -> str:
        return make_member(self.tenant, Role.VIEWER).username

    @cached_property
    def newcomer(self) -> str:
        return make_member(make_tenant()).username

    @cached_property
    def key_id(self) -> Any:
        return keys.make(tenant=self.tenant, name="deploy", role=Role.VIEWER).key.id

    @cached_property
    def secret(self) -> str:
        secret_store.create(principal=self.dags.who, name="TOKEN", given={"value": "hidden"})
        return "TOKEN"

    @cached_property
    def channel_id(self) -> Any:
        given = {"to": ["a@example.com"]}
        return channels.create(principal=self.dags.who, kind="email", name="us", given=given).id

    @cached_property
    def circuit_id(self) -> int:
        times = {"changed_at": now(), "opened_at": now(), "quarantine_until": now() + timedelta(hours=1)}
        return CircuitBreaker.objects.create(tenant=self.tenant, key="webhook:h:443", **times).pk

    @cached_property
    def frozen(self) -> bool:
        freezing.freeze(tenant=None, reason="for a while", actor="user:ada")
        return True

    @cached_property
    def frozen_tenant_id(self) -> Any:
        tenant = make_tenant()
        freezing.freeze(tenant=tenant, reason="it floods us", actor="user:ada")
        return tenant.id

    @cached_property
    def led(self) -> bool:
        for role in ("preloader", "watchdog", *(f"dispatcher/{shard}" for shard in range(16))):
            until, at = now() + timedelta(minutes=1), now()
            Lease.objects.create(role=role, holder=uuid4(), epoch=7, expires_at=until, acquired_at=at)
        return True

    @cached_property
    def dead(self) -> Execution:
        return letter(self.ledger)

    @cached_property
    def replay_id(self) -> Any:
        letter(self.ledger)
        return start_replay(principal=self.dags.who, wanted=DeadLetterFilter()).id

    @cached_property
    def dag(self) -> Dag:
        nodes: list[dict[str, Any]] = [
            {"id": "a"},
            {"id": "ask", "approval": {"message": "?"}},
            {"id": "b", "depends_on": ["a"]},
        ]
        return self.dags.make("acted-on", nodes)

    @cached_property
    def timed_dag(self) -> Dag:
        schedule = {"type": "cron", "expression": "0 * * * *", "timezone": "Europe/Paris"}
        return self.dags.make("timed", [{"id": "a"}], schedule=schedule)

    @cached_property
    def timed_task_id(self) -> Any:
        schedule = {"type": "cron", "expression": "0 * * * *", "timezone": "UTC"}
        data = {"name": "timed", "handler": {"type": "python", "name": "demo.noop"}, "schedule": schedule}
        return services.create_task(principal=self.dags.who, data=data).id

    @cached_property
    def backfill_id(self) -> Any:
        asked = backfills.read_request(self.timed_dag, {"start": "2025-06-01T00:00Z", "end": "2025-06-02T00:00Z"})
        return backfills.start_backfill(principal=self.dags.who, of=self.timed_dag, request=asked).id

    @cached_property
    def paused_dag(self) -> Dag:
        standing.pause_dag(principal=self.dags.who, dag_id=self.dag.id)
        return self.dag

    @cached_property
    def run_id(self) -> Any:
        return self.dags.start(self.dag)

    @cached_property
    def paused_run_id(self) -> Any:
        operations.pause_run(principal=self.dags.who, run_id=self.run_id)
        return self.run_id

    @cached_property
    def failed_run_id(self) -> Any:
        self.dags.end(self.run_id, a=Status.DEAD_LETTER)
        return self.run_id
