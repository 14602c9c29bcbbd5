"""Causes that can be removed, made with the real daemons: how long after its removal an execution starts."""

import contextlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection

from apps.definitions import services as definitions
from apps.executions import circuit_services, freezing, usage
from apps.executions.models import CircuitBreaker, Execution, TenantUsage
from apps.executions.quotas import UNITS, Use
from apps.executions.services import cancel
from apps.executions.states import RESTING, Status
from apps.explain import service
from apps.explain.words import Code
from apps.tenants.models import Tenant
from chronoweb.runtime import postgres
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import Conflict
from tests.factories import make_principal
from tests.test_end_to_end import Installation, fresh, status
from tests.waiting import PATIENCE_SECONDS, eventually

WAIT = {"type": "python", "name": "playground.wait"}
GENEROUS_SECONDS = PATIENCE_SECONDS
Waiting = tuple[Code, UUID, Callable[[], datetime]]
"""The code that must be told, the execution, and what removes the cause and says when."""
Cause = Callable[[Installation], contextlib.AbstractContextManager[Waiting]]


@pytest.fixture
def place(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """A tenant of the test's own on the running daemons; this process looks where they write."""
    changed = Config(**{**settings.CHRONOWEB.__dict__, "redis_prefix": installation.prefix})
    monkeypatch.setattr(settings, "CHRONOWEB", changed)
    before = installation.principal
    installation.principal = make_principal()
    yield installation
    installation.principal = before


def sleep(seconds: float) -> dict[str, object]:
    """A program: one slot each."""
    return {"type": "command", "argv": ["/bin/sh", "-c", f"sleep {seconds}"]}


def tenant_of(place: Installation) -> Tenant:
    return Tenant.objects.get(id=place.principal.tenant_id)


def limit(place: Installation, **limits: int | None) -> datetime:
    Tenant.objects.filter(id=place.principal.tenant_id).update(**limits)
    return place.now()


def running(place: Installation, seconds: float = 60, **document: object) -> Execution:
    row = place.trigger(place.task(handler=WAIT, parameters={"seconds": seconds}, **document))
    eventually(lambda: status(row) is Status.RUNNING)
    return row


def stop(place: Installation, row: Execution) -> None:
    Execution.objects.with_id(row.id).update(cancel_requested_at=place.now())
    eventually(lambda: status(row) is Status.CANCELLED)


def let_dispatchers_know(place: Installation, changed_at: datetime) -> None:
    """They look each 100 ms, and later where the machine is busy."""
    eventually(lambda: place.now() > changed_at + timedelta(seconds=1))


# ---- causes ---------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def paused(place: Installation) -> Iterator[Waiting]:
    due = place.now() + timedelta(seconds=2)
    task = place.task(schedule={"type": "one_shot", "run_at": due.isoformat()})
    row = eventually(lambda: Execution.objects.filter(task_id=task.id).first())
    assert row is not None
    definitions.pause_task(principal=place.principal, task_id=task.id)
    eventually(lambda: place.now() > due)

    def remove() -> datetime:
        definitions.resume_task(principal=place.principal, task_id=task.id)
        return place.now()

    yield Code.TASK_PAUSED, row.id, remove


@contextlib.contextmanager
def frozen(place: Installation, *, all_of_it: bool) -> Iterator[Waiting]:
    tenant = None if all_of_it else tenant_of(place)
    freezing.freeze(tenant=tenant, reason="maintenance", actor="test")
    row = place.trigger(place.task())

    def remove() -> datetime:
        freezing.thaw(tenant=tenant, actor="test")
        return place.now()

    yield Code.SCHEDULER_FROZEN if all_of_it else Code.TENANT_FROZEN, row.id, remove


@contextlib.contextmanager
def over_quota(place: Installation, use: Use, *, window_moves: bool = False) -> Iterator[Waiting]:
    limit(place, **{use.quota: 10})
    usage.add(postgres.raw(connection), {(place.principal.tenant_id.bytes, int(use)): 10 * UNITS[use]})
    row = place.trigger(place.task())

    def remove() -> datetime:
        if not window_moves:
            return limit(place, **{use.quota: 1000})
        sums = TenantUsage.objects.filter(tenant_id=place.principal.tenant_id, kind=use)
        sums.update(window_start=sums.get().window_start - timedelta(hours=1))
        return place.now()

    yield Code(use.quota), row.id, remove
    limit(place, **{use.quota: None})


@contextlib.contextmanager
def at_most_one(place: Installation) -> Iterator[Waiting]:
    let_dispatchers_know(place, limit(place, max_concurrent_workers=1))
    holder = running(place)
    row = place.trigger(place.task())
    yield Code.MAX_CONCURRENT_WORKERS, row.id, lambda: limit(place, max_concurrent_workers=200)
    stop(place, holder)


@contextlib.contextmanager
def one_a_second(place: Installation) -> Iterator[Waiting]:
    let_dispatchers_know(place, limit(place, rate_limit_rps=1))
    task = place.task()
    # Each second one of them goes, of whichever shard; among so many it is hardly ever the one that is looked at.
    made = definitions.trigger_batch(principal=place.principal, task_id=task.id, items=[{}] * 500)
    yield Code.RATE_LIMIT_RPS, max(made), lambda: limit(place, rate_limit_rps=None)


@contextlib.contextmanager
def behind_another(place: Installation, code: Code) -> Iterator[Waiting]:
    """Of the same task, or of the same key."""
    terms: dict[str, object] = {"overlap_policy": "buffer_all"}
    if code is Code.CONCURRENCY_KEY:
        terms = {"concurrency": {"key": "one", "limit": 1}}
    task = place.task(handler=WAIT, parameters={"seconds": 2.0}, **terms)
    holder = place.trigger(task)
    eventually(lambda: status(holder) is Status.RUNNING)
    row = place.trigger(task)

    def remove() -> datetime:
        done = eventually(lambda: fresh(holder).finished_at)
        assert done is not None
        return done

    yield code, row.id, remove


@contextlib.contextmanager
def open_circuit(place: Installation) -> Iterator[Waiting]:
    now = place.now()
    circuit = CircuitBreaker.objects.create(
        tenant_id=place.principal.tenant_id,
        key="python:demo.noop",
        opened_at=now,
        quarantine_until=now + timedelta(minutes=1),
        slow_start_until=now + timedelta(minutes=3),
        changed_at=now,
    )
    row = place.trigger(place.task())

    def remove() -> datetime:
        circuit_services.reset(principal=place.principal, circuit_id=circuit.id)
        return place.now()

    yield Code.CIRCUIT_OPEN, row.id, remove


@contextlib.contextmanager
def no_slot(place: Installation) -> Iterator[Waiting]:
    """Standard work fills its own slots, and those that critical work lends; the worker has claimed the rest."""
    task = place.task(handler=sleep(4.0))
    made = definitions.trigger_batch(principal=place.principal, task_id=task.id, items=[{}] * 16)
    rows = Execution.objects.filter(id__in=made)
    eventually(lambda: rows.filter(started_at__isnull=False).count() >= 13)
    row = rows.filter(started_at__isnull=True).order_by("id").first()
    assert row is not None

    def remove() -> datetime:
        ended = Execution.objects.filter(id__in=made, status=Status.COMPLETED).order_by("finished_at")
        first = eventually(lambda: ended.first())
        assert first is not None
        assert first.finished_at is not None
        return first.finished_at

    yield Code.NO_FREE_SLOT, row.id, remove
    for left in Execution.objects.filter(id__in=made).exclude(status__in=RESTING):
        with contextlib.suppress(Conflict):  # it has ended
            cancel(principal=place.principal, execution_id=left.id)


QUICK: dict[str, Cause] = {
    "tenant_frozen": lambda place: frozen(place, all_of_it=False),
    "scheduler_frozen": lambda place: frozen(place, all_of_it=True),
    "executions_per_hour raised": lambda place: over_quota(place, Use.EXECUTIONS),
    "executions_per_hour moved": lambda place: over_quota(place, Use.EXECUTIONS, window_moves=True),
    "compute_minutes_per_month": lambda place: over_quota(place, Use.COMPUTE),
    "log_storage_gb": lambda place: over_quota(place, Use.LOGS),
    "max_concurrent_workers": at_most_one,
    "rate_limit_rps": one_a_second,
    "circuit_open": open_circuit,
}
CAUSES: dict[str, Cause] = {
    **QUICK,
    "task_paused": paused,
    "overlap": lambda place: behind_another(place, Code.OVERLAP),
    "concurrency_key": lambda place: behind_another(place, Code.CONCURRENCY_KEY),
    "no_free_slot": no_slot,
}


def is_set_aside(place: Installation, identity: UUID, code: Code) -> bool:
    """Whether it has waited for longer than any daemon looks away: something must wake it."""
    row = Execution.objects.with_id(identity).get()
    assert row.started_at is None, f"{code} did not keep it waiting"
    return place.now() - row.created_at > timedelta(seconds=0.4)


def seconds_to_start(place: Installation, cause: Cause) -> float:
    with cause(place) as (code, identity, remove):
        seen: set[Code] = set()

        def is_told() -> bool:
            seen.update(reason.code for reason in service.explain(place.principal, identity).reasons)
            return code in seen

        try:
            eventually(is_told, every=0.01)
        except AssertionError:
            raise AssertionError(f"{code} was not told, but {sorted(seen)}") from None
        eventually(lambda: is_set_aside(place, identity, code), every=0.01)
        removed = remove()
        begun = eventually(lambda: Execution.objects.with_id(identity).get().dispatched_at, every=0.01)
        ended = eventually(lambda: Execution.objects.with_id(identity).get().started_at, every=0.01)
        assert begun is not None
        assert ended is not None
        return (ended - removed).total_seconds()
