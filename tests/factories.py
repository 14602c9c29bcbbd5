"""Rows that are valid for the state they are in, made through the services where persons make them."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.test import Client

from apps.definitions import services
from apps.definitions.models import Task
from apps.definitions.plans import materialise_task, new_executions, plan_of
from apps.executions import ids, person_store, store
from apps.executions.models import Attempt, DeadLetter, Execution, ExecutionEvent, Outstanding, Worker
from apps.executions.rows import NewExecution
from apps.executions.states import ACTIVE, RESTING, Hold, Origin, Outcome, Status
from apps.tenants.keys import issue
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from tests.openapi_contract import check_answer

DAILY = {"type": "cron", "expression": "0 12 * * *"}
EACH_MINUTE = {"type": "cron", "expression": "* * * * *"}
MANUAL = {"type": "manual"}


def make_tenant() -> Tenant:
    slug = "t" + secrets.token_hex(6)
    return Tenant.objects.create(slug=slug, name=slug, max_concurrent_workers=None, rate_limit_rps=None)


def make_principal(tenant: Tenant | None = None, role: Role = Role.OPERATOR) -> Principal:
    tenant = tenant or make_tenant()
    return Principal(tenant_id=tenant.id, tenant_slug=tenant.slug, role=role, actor="key:test")


def document(**changes: Any) -> dict[str, Any]:
    """A task's JSON document."""
    base = {"name": "n" + secrets.token_hex(6), "schedule": MANUAL, "handler": {"type": "python", "name": "demo.noop"}}
    return {**base, **changes}


def make_task(principal: Principal, **changes: Any) -> Task:
    return services.create_task(principal=principal, data=document(**changes))


def now() -> datetime:
    """PostgreSQL's clock."""
    return person_store.database_now(postgres.raw(connection))


def materialise(task: Task, *, ahead: timedelta = timedelta(minutes=62)) -> list[Execution]:
    """Turn what is near into rows, as the preloader does; returns all rows of the task, by time."""
    task.refresh_from_db()
    instant = now()
    made = materialise_task(task, now=instant, horizon=instant + ahead, limit=1000)
    raw = postgres.raw(connection)
    skipped = [row for row, _ in made.skipped]
    store.insert(raw, made.executions + skipped)
    store.record_events(raw, skipped, source=None, actor="preloader", reasons=[reason for _, reason in made.skipped])
    Task.objects.filter(id=task.id).update(next_fire_at=made.next_fire_at)
    task.refresh_from_db()
    return rows_of(task)


def rows_of(task: Task) -> list[Execution]:
    """Every execution of the task, by scheduled_at."""
    return list(Execution.objects.filter(task_id=task.id).order_by("scheduled_at", "id"))


def occurrence(task: Task, nominal: datetime, status: Status = Status.SCHEDULED, **changes: Any) -> Execution:
    """A row of the schedule, as materialising makes it, in a state of its life."""
    return _in_state(task, new_executions(task, [nominal], now=now() - timedelta(days=30))[0], status, changes)


def execution(
    task: Task, status: Status = Status.SCHEDULED, *, scheduled_at: datetime | None = None, **changes: Any
) -> Execution:
    """A triggered execution, in a state of its life."""
    moment = ids.to_ms(scheduled_at or now())
    identity = ids.new_id(moment)
    row = NewExecution(
        id=identity,
        scheduled_us=moment * 1000,
        run_us=moment * 1000,
        nominal_us=moment * 1000,
        origin=Origin.MANUAL,
        idempotency_key=str(UUID(bytes=identity)),
        **plan_of(task),
    )
    return _in_state(task, row, status, changes)


def _in_state(task: Task, row: NewExecution, status: Status, changes: dict[str, Any]) -> Execution:
    store.insert(postgres.raw(connection), [row])
    identity = UUID(bytes=row.id)
    found = Execution.objects.with_id(identity)
    fields: dict[str, Any] = {"status": status}
    moment = ids.from_us(row.scheduled_us)
    if status is not Status.SCHEDULED and status is not Status.RETRYING:
        fields["wake_at"] = None
    tried = status in {Status.RUNNING, Status.RETRYING, Status.COMPLETED, Status.DEAD_LETTER}
    if tried:
        fields |= {"attempt": 1, "token": 1, "started_at": moment}
    if status in ACTIVE:
        fields |= {"token": 1, "worker_id": 1, "dispatched_at": moment}
        Outstanding.objects.create(
            execution_id=identity,
            scheduled_at=moment,
            worker_id=1,
            class_index=row.class_index,
            tenant_id=task.tenant_id,
            token=1,
            dispatched_at=moment,
        )
    if status in RESTING:
        fields["finished_at"] = moment
    if status in {Status.RETRYING, Status.DEAD_LETTER}:
        fields["error"] = {"type": "ValueError", "message": "no"}
        Attempt.objects.create(
            scheduled_at=moment,
            execution_id=identity,
            attempt=1,
            token=1,
            tenant_id=task.tenant_id,
            worker_id=1,
            outcome=Outcome.FAILED,
            due_at=moment,
            started_at=moment,
            finished_at=moment,
            error=fields["error"],
        )
    if status is Status.DEAD_LETTER:
        DeadLetter.objects.create(
            execution_id=identity,
            scheduled_at=moment,
            tenant_id=task.tenant_id,
            task_id=task.id,
            fingerprint="ValueError",
            since=moment,
        )
    if changes.get("hold", Hold.NONE) is not Hold.NONE:
        fields["wake_at"] = None
    found.update(**{**fields, **changes})
    return found.get()


def reread(row: Execution) -> Execution:
    return Execution.objects.with_id(row.id).get()


def reasons(row: Execution) -> list[str]:
    """What the events of an execution say, in order."""
    rows = ExecutionEvent.objects.filter(scheduled_at=row.scheduled_at, execution_id=row.id)
    return [event.reason for event in rows.order_by("at", "event_id")]


@dataclass
class Api:
    """The REST API as a program sees it. Each answer must be one that docs/openapi.yaml describes."""

    key: str
    tenant: Tenant

    def call(self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Any:
        """body: an object becomes JSON, bytes go as they are."""
        sent = {"Authorization": f"Bearer {self.key}", **(headers or {})}
        extra = {"data": b"" if body is None else body, "content_type": sent.pop("Content-Type", "application/json")}
        if method.lower() == "get":
            extra = {}
        client = Client(raise_request_exception=True)
        response = getattr(client, method.lower())(f"/api/v1{path}", headers=sent, **extra)
        if not response.streaming:
            check_answer(method, path, response)
        return response

    def get(self, path: str, **options: Any) -> Any:
        return self.call("get", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Any:
        return self.call("post", path, body, **options)

    @property
    def principal(self) -> Principal:
        return make_principal(self.tenant)


def make_api(tenant: Tenant | None = None, role: Role = Role.OPERATOR) -> Api:
    tenant = tenant or make_tenant()
    return Api(key=issue(tenant=tenant, name="test", role=role), tenant=tenant)


def problem(response: Any, status: int) -> dict[str, Any]:
    """The problem details of a refusal."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert {"type", "title", "status", "detail"} <= set(body)
    return body


def pointers(body: dict[str, Any]) -> set[str]:
    return {error["pointer"] for error in body["errors"]}


def worker_row(**fields: Any) -> Worker:
    """One that is there."""
    at = now()
    base = {"state": "active", "host": "h", "process_id": 1, "slots": 4}
    times = {"started_at": at, "heartbeat_at": at, "lease_expires_at": at}
    return Worker.objects.create(**base | times | fields)
