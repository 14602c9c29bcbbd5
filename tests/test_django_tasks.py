"""The backend of Django's Tasks framework, as the framework's own backends are tested."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ImproperlyConfigured, SuspiciousOperation
from django.db import transaction
from django_tasks import TaskResultStatus, default_task_backend, task, task_backends
from django_tasks.base import Task
from django_tasks.exceptions import InvalidTaskError, TaskResultDoesNotExist, TaskResultMismatch
from django_tasks.signals import task_enqueued

from apps.definitions import services
from apps.definitions.models import Task as Definition
from apps.executions.models import Attempt, Execution
from apps.executions.states import Outcome, Status
from apps.tasks_backend.priorities import chronoweb_priority
from apps.tenants.models import Tenant
from apps.worker.handlers.registry import REGISTRY
from tests.factories import execution, make_principal, make_task, make_tenant, now
from tests.shop import settings as shop_settings

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def tenant(settings: Any) -> Tenant:
    made = make_tenant()
    use(settings, tenant=made.slug)
    return made


def use(settings: Any, **options: Any) -> None:
    chosen = shop_settings.TASKS["default"]
    settings.TASKS = {"default": {**chosen, "OPTIONS": {**chosen["OPTIONS"], **options}}}


@pytest.fixture
def shop() -> Any:
    from tests.shop import tasks  # as its tasks are defined, the settings must name the backend

    return tasks


def row_of(result: Any) -> Execution:
    return Execution.objects.with_id(UUID(result.id)).get()


# ---- enqueue ------------------------------------------------------------------------------------------------------


def test_enqueue_makes_one_execution_of_a_definition_that_is_made_once(shop: Any, tenant: Tenant) -> None:
    before = now()
    result = shop.add.enqueue(1, b=2)
    assert (result.status, result.is_finished, result.attempts) == (TaskResultStatus.READY, False, 0)
    assert (result.args, result.kwargs, result.backend) == ([1], {"b": 2}, "default")
    assert result.started_at is None
    assert before - timedelta(milliseconds=1) <= result.enqueued_at <= now()
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    shop.add.enqueue(3)
    (definition,) = Definition.objects.filter(tenant=tenant)
    assert (definition.name, definition.priority) == ("tests.shop.tasks.add", 5)
    assert definition.handler == {"type": "python", "name": "tests.shop.tasks.add"}
    assert (definition.overlap_policy, definition.timeout_seconds) == ("allow_all", 60)
    assert definition.retry_policy["max_attempts"] == 1
    assert Execution.objects.filter(task_id=definition.id).count() == 2


def test_supports() -> None:
    backend = default_task_backend
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_aenqueue_and_aget_result(shop: Any) -> None:
    result = async_to_sync(shop.add_async.aenqueue)(1)
    again = async_to_sync(shop.add_async.aget_result)(result.id)
    assert again == result
    async_to_sync(result.arefresh)()
    assert result.status is TaskResultStatus.READY


@pytest.mark.parametrize(
    ("given", "ours"),
    [(-100, 10), (-81, 10), (-41, 8), (-40, 7), (-1, 6), (0, 5), (19, 5), (39, 4), (40, 3), (79, 2), (100, 1)],
)
def test_priorities(shop: Any, given: int, ours: int) -> None:
    assert chronoweb_priority(given) == ours
    result = shop.add.using(priority=given).enqueue(1)
    assert row_of(result).priority == ours
    assert shop.add.get_result(result.id).task.priority == given


def test_priorities_are_monotone() -> None:
    values = [chronoweb_priority(given) for given in range(-100, 101)]
    assert values == sorted(values, reverse=True)
    assert set(values) == set(range(1, 11))


def test_queues_have_definitions_and_options_of_their_own(shop: Any, tenant: Tenant) -> None:
    shop.buy_patiently.enqueue("tea")
    shop.buy_patiently.using(queue_name="mail", priority=100).enqueue("tea")
    path = "tests.shop.tasks.buy_patiently"
    found = {row.name: row for row in Definition.objects.filter(tenant=tenant)}
    assert set(found) == {f"{path} (queue patient)", f"{path} (queue mail, priority 1)"}
    assert found[f"{path} (queue patient)"].retry_policy["max_attempts"] == 2
    assert "queue:patient" in found[f"{path} (queue patient)"].tags


def test_run_after(shop: Any) -> None:
    later = now() + timedelta(hours=3)
    result = shop.add.using(run_after=later).enqueue(1)
    assert abs(row_of(result).run_at - later) < timedelta(milliseconds=2)
    assert shop.add.get_result(result.id).task.run_after == later
    past = shop.add.using(run_after=datetime(2020, 1, 1, tzinfo=UTC)).enqueue(1)
    assert row_of(past).run_at <= now()
    with pytest.raises(InvalidTaskError, match="400 days"):
        shop.add.using(run_after=now() + timedelta(days=4000)).enqueue(1)


def test_in_a_transaction_it_counts_when_that_commits(shop: Any, tenant: Tenant) -> None:
    with transaction.atomic():
        undone = shop.add.enqueue(1)
        assert shop.add.get_result(undone.id).status is TaskResultStatus.READY
        transaction.set_rollback(True)
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(undone.id)
    assert not Definition.objects.filter(tenant=tenant).exists()
    # What this process remembers of the definition that was undone with it does no harm.
    assert shop.add.enqueue(1).id
    assert Definition.objects.filter(tenant=tenant).count() == 1


def test_a_definition_that_was_deleted_or_edited_is_put_right(shop: Any, tenant: Tenant, settings: Any) -> None:
    shop.add.enqueue(1)
    (first,) = Definition.objects.filter(tenant=tenant)
    services.delete_task(principal=make_principal(tenant), task_id=first.id)
    shop.add.enqueue(1)
    second = Definition.objects.get(tenant=tenant, deleted_at=None)
    assert second.id != first.id
    changes = {"description": "adds", "retry_policy": {"max_attempts": 9}}
    services.update_task(principal=make_principal(tenant), task_id=second.id, data=changes, partial=True)
    use(settings, tenant=tenant.slug, task={"timeout_seconds": 77})
    shop.add.enqueue(1)
    second.refresh_from_db()
    assert (second.timeout_seconds, second.retry_policy["max_attempts"], second.description) == (77, 1, "adds")


def test_the_signal_of_enqueueing(shop: Any) -> None:
    heard = []

    def hear(sender: Any, task_result: Any, **_: Any) -> None:
        heard.append((sender, task_result.id))

    task_enqueued.connect(hear)
    try:
        result = shop.add.enqueue(1)
    finally:
        task_enqueued.disconnect(hear)
    assert heard == [(type(task_backends["default"]), result.id)]


# ---- validation ---------------------------------------------------------------------------------------------------


def test_what_is_no_task_is_refused(shop: Any) -> None:
    with pytest.raises(InvalidTaskError, match="module level"):

        @task
        def inner() -> None: ...

    for bad in (-101, 101, 3.1):
        with pytest.raises(InvalidTaskError, match="whole number between -100 and 100"):
            shop.add.using(priority=bad)
    with pytest.raises(InvalidTaskError, match="aware"):
        shop.add.using(run_after=datetime(2030, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidTaskError, match="not valid for backend"):
        shop.add.using(queue_name="none")
    with pytest.raises(InvalidTaskError, match="first argument of 'context'"):
        Task(func=shop.add.func, takes_context=True)


def test_arguments_that_are_no_json_are_refused(shop: Any) -> None:
    for bad in (object(), {1, 2}, datetime(2030, 1, 1, tzinfo=UTC)):
        with pytest.raises(TypeError):
            shop.add.enqueue(bad)
    with pytest.raises(InvalidTaskError, match="bytes of JSON"):
        shop.add.enqueue("x" * 2_000_000)
    with pytest.raises(InvalidTaskError, match="NUL"):
        shop.add.enqueue("\0")


def test_options_are_checked(settings: Any, shop: Any) -> None:
    assert list(default_task_backend.check()) == []
    use(settings, tenant=None, what=1, queues={"none": {}})
    assert [found.id for found in default_task_backend.check()] == [
        "chronoweb.E020",
        "chronoweb.E021",
        "chronoweb.E022",
    ]
    use(settings, tenant="nobody")
    with pytest.raises(ImproperlyConfigured, match="no such tenant"):
        shop.add.enqueue(1)
    use(settings, task={"timeout_seconds": -1})
    with pytest.raises((InvalidTaskError, ImproperlyConfigured)):
        shop.add.enqueue(1)


# ---- results ------------------------------------------------------------------------------------------------------


def test_unknown_results(shop: Any) -> None:
    for unknown in ("", "123", str(uuid4()), "x\0"):
        with pytest.raises(TaskResultDoesNotExist):
            default_task_backend.get_result(unknown)


def test_results_of_others_do_not_exist(shop: Any, tenant: Tenant, settings: Any) -> None:
    ours = shop.add.enqueue(1)
    by_hand = execution(make_task(make_principal(tenant)))
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(str(by_hand.id))
    with pytest.raises(TaskResultMismatch):
        shop.buy.get_result(ours.id)
    use(settings, tenant=make_tenant().slug)
    with pytest.raises(TaskResultDoesNotExist):
        shop.add.get_result(ours.id)


def test_a_name_that_is_no_task_any_more(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = shop.add.enqueue(1)
    monkeypatch.setattr("tests.shop.tasks.add", len)
    with pytest.raises(SuspiciousOperation):
        default_task_backend.get_result(result.id)


@pytest.mark.parametrize(
    ("status", "theirs"),
    [
        (Status.SCHEDULED, TaskResultStatus.READY),
        (Status.PRELOADED, TaskResultStatus.READY),
        (Status.DISPATCHED, TaskResultStatus.READY),
        (Status.RETRYING, TaskResultStatus.READY),
        (Status.WAITING, TaskResultStatus.READY),
        (Status.RUNNING, TaskResultStatus.RUNNING),
        (Status.COMPLETED, TaskResultStatus.SUCCESSFUL),
        (Status.DEAD_LETTER, TaskResultStatus.FAILED),
        (Status.CANCELLED, TaskResultStatus.FAILED),
        (Status.SKIPPED, TaskResultStatus.FAILED),
    ],
)
def test_statuses(shop: Any, status: Status, theirs: TaskResultStatus) -> None:
    given = row_of(shop.add.enqueue(1))
    definition = Definition.objects.get(id=given.task_id)
    row = execution(definition, status, payload=given.payload, worker_id=7)
    result = shop.add.get_result(str(row.id))
    assert result.status is theirs
    assert result.is_finished == (theirs in (TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED))
    assert bool(result.errors) == (status in (Status.RETRYING, *failed()))
    if theirs is TaskResultStatus.RUNNING:
        assert result.worker_ids == ["7"]
    if result.errors and status in failed():
        with pytest.raises(ValueError, match="failed"):
            _ = result.return_value
        assert issubclass(result.errors[0].exception_class, Exception)


def failed() -> tuple[Status, ...]:
    return (Status.DEAD_LETTER, Status.CANCELLED, Status.SKIPPED)


def test_releases_are_no_attempts(shop: Any) -> None:
    given = row_of(shop.add.enqueue(1))
    definition = Definition.objects.get(id=given.task_id)
    row = execution(definition, Status.DEAD_LETTER, payload=given.payload)
    Attempt.objects.filter(execution_id=row.id).update(outcome=Outcome.RELEASED)
    assert shop.add.get_result(str(row.id)).attempts == 0


def test_functions_are_handlers_under_their_paths(shop: Any) -> None:
    for name in ("add", "add_async", "whoami", "buy"):
        assert REGISTRY.handlers[f"tests.shop.tasks.{name}"].isolation == "process"
    assert shop.add.call(1, b=3) == 4  # the function itself is as it was
