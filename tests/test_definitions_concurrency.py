"""A task's `concurrency`: what it may say, the key that parameters give, and the rows that carry it on every path."""

from typing import Any

import pytest

from apps.console import reasons
from apps.definitions import services
from apps.definitions.models import Task
from apps.executions import concurrency, selectors
from apps.executions.models import Execution, Slot
from apps.executions.services import retry
from apps.executions.states import Hold, Origin, Status
from chronoweb.runtime.errors import InvalidInputs
from tests.factories import (
    EACH_MINUTE,
    Api,
    execution,
    make_api,
    make_task,
    materialise,
    now,
    pointers,
    problem,
    reread,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("early_in_the_minute")]
TENANT = bytes(16)
BY_CUSTOMER = {"key": "customer-{{ parameters.customer }}", "limit": 3}


def refusal(data: Any) -> set[str]:
    with pytest.raises(InvalidInputs) as caught:
        concurrency.read_concurrency(data)
    return {error.pointer for error in caught.value.errors}


@pytest.fixture
def api() -> Api:
    return make_api()


@pytest.fixture
def task(api: Api) -> Task:
    return make_task(
        api.principal,
        schedule=EACH_MINUTE,
        strict_timing=True,
        parameters={"customer": 42},
        concurrency=BY_CUSTOMER,
    )


def shown_key(row: Execution) -> str | None:
    return None if row.concurrency_key is None else concurrency.shown(row.concurrency_key)


# ---- what it may say ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (5, {""}),
        ({}, {"/key", "/limit"}),
        ({"key": "a", "limit": 0}, {"/limit"}),
        ({"key": "a", "limit": 1001}, {"/limit"}),
        ({"key": "a", "limit": True}, {"/limit"}),
        ({"key": "a", "limit": 1.0}, {"/limit"}),
        ({"key": "", "limit": 1}, {"/key"}),
        ({"key": ["a"], "limit": 1}, {"/key"}),
        ({"key": "a" * 201, "limit": 1}, {"/key"}),
        ({"key": "a\nb", "limit": 1}, {"/key"}),
        ({"key": "{{ customer }}", "limit": 1}, {"/key"}),
        ({"key": "{{ parameters }}", "limit": 1}, {"/key"}),
        ({"key": "{{ parameters.a | upper }}", "limit": 1}, {"/key"}),
        ({"key": "{{ parameters.a }", "limit": 1}, {"/key"}),
        ({"key": "a }}", "limit": 1}, {"/key"}),
        ({"key": "{{ parameters.__class__.x() }}", "limit": 1}, {"/key"}),
        ({"key": "a", "limit": 1, "when_full": "wait"}, {"/when_full"}),
        ({"key": "a", "limit": 1, "when_full": ["queue"]}, {"/when_full"}),
        ({"key": "a", "limit": 1, "then": 1}, {"/then"}),
    ],
)
def test_what_is_refused(data: Any, wrong: set[str]) -> None:
    assert refusal(data) == wrong


@pytest.mark.parametrize(
    ("template", "parameters", "key"),
    [
        ("nightly", {}, "nightly"),
        ("c-{{ parameters.customer }}", {"customer": 42}, "c-42"),
        ("c-{{parameters.customer.id}}", {"customer": {"id": "x"}}, "c-x"),
        ("{{ parameters.a }}/{{ parameters.b }}", {"a": True, "b": 1.5}, "true/1.5"),
        ("{{ parameters.a }}", {"a": "{{ parameters.b }}", "b": 1}, "{{ parameters.b }}"),
        ("{{ parameters.größe }}", {"größe": 1}, None),
    ],
)
def test_the_key_of_parameters(template: str, parameters: dict[str, Any], key: str | None) -> None:
    """A value is a value: what looks like a template in it stays as it is."""
    if key is None:
        assert refusal({"key": template, "limit": 1}) == {"/key"}
        return
    declared = concurrency.read_concurrency({"key": template, "limit": 1})
    found = concurrency.key_of(declared, parameters, tenant_id=TENANT)
    assert found is not None
    assert concurrency.shown(found) == key


def test_a_long_key_is_cut_and_still_tells_from_others() -> None:
    declared = concurrency.read_concurrency({"key": "{{ parameters.a }}", "limit": 1})
    keys = {concurrency.key_of(declared, {"a": "x" * 10_000 + end}, tenant_id=TENANT) for end in "ab"}
    assert len(keys) == 2
    assert {len(concurrency.shown(key or "")) for key in keys} == {193}


def test_tenants_do_not_share_keys() -> None:
    declared = concurrency.read_concurrency({"key": "a:b", "limit": 1})
    one, other = (concurrency.key_of(declared, {}, tenant_id=bytes([n]) * 16) for n in (1, 2))
    assert one != other
    assert one is not None
    assert concurrency.shown(one) == "a:b"


# ---- over the API -------------------------------------------------------------------------------------------------


def test_a_task_shows_it_and_a_version_has_it(api: Api, task: Task) -> None:
    assert api.get(f"/tasks/{task.id}").json()["concurrency"] == {**BY_CUSTOMER, "when_full": "queue"}
    changed = api.call("PATCH", f"/tasks/{task.id}", {"concurrency": None}).json()
    assert (changed["concurrency"], changed["version"]) == (None, 2)


def test_own_parameters_must_give_the_key(api: Api, task: Task) -> None:
    answer = api.call("PATCH", f"/tasks/{task.id}", {"parameters": {"customer": [1]}})
    assert pointers(problem(answer, 422)) == {"/parameters/customer"}
    answer = api.call("PATCH", f"/tasks/{task.id}", {"concurrency": {"key": "{{ parameters.region }}", "limit": 1}})
    assert pointers(problem(answer, 422)) == {"/parameters/region"}
    answer = api.call("PATCH", f"/tasks/{task.id}", {"concurrency": {"key": "{{ region }}", "limit": 0}})
    assert pointers(problem(answer, 422)) == {"/concurrency/key", "/concurrency/limit"}


def test_a_trigger_has_the_key_of_its_parameters(api: Api, task: Task) -> None:
    body = api.post(f"/tasks/{task.id}/trigger", {"parameters": {"customer": "7"}}).json()
    assert body["concurrency_key"] == "customer-7"
    assert api.post(f"/tasks/{task.id}/trigger").json()["concurrency_key"] == "customer-42"
    answer = api.post(f"/tasks/{task.id}/trigger", {"parameters": {"region": "eu"}})
    assert pointers(problem(answer, 422)) == {"/parameters/customer"}


def test_a_batch_has_the_key_of_each_item(api: Api, task: Task) -> None:
    items: list[dict[str, Any]] = [{"parameters": {"customer": n}} for n in range(3)] + [{}]
    answered = api.post(f"/tasks/{task.id}/trigger-batch", {"items": items}).json()["items"]
    keys = {str(row.id): shown_key(row) for row in Execution.objects.filter(task_id=task.id)}
    assert [keys[item["id"]] for item in answered] == ["customer-0", "customer-1", "customer-2", "customer-42"]
    answer = api.post(f"/tasks/{task.id}/trigger-batch", {"items": [{}, {"parameters": {}}]})
    assert pointers(problem(answer, 422)) == {"/items/1/parameters/customer"}


# ---- schedule, edits, reruns --------------------------------------------------------------------------------------


def test_occurrences_follow_an_edit(api: Api, task: Task) -> None:
    rows = materialise(task)
    assert {shown_key(row) for row in rows} == {"customer-42"}
    services.update_task(principal=api.principal, task_id=task.id, data={"parameters": {"customer": 43}}, partial=True)
    assert {shown_key(reread(row)) for row in rows} == {"customer-43"}


def test_a_rerun_keeps_the_key(api: Api, task: Task) -> None:
    made = api.post(f"/tasks/{task.id}/trigger", {"parameters": {"customer": "7"}}).json()["id"]
    Execution.objects.filter(id=made).update(status=Status.COMPLETED)
    [row] = Execution.objects.filter(id=made)
    rerun = Execution.objects.get(id=retry(principal=api.principal, execution_id=row.id))
    assert (rerun.origin, shown_key(rerun)) == (Origin.RERUN, "customer-7")


# ---- what people see ----------------------------------------------------------------------------------------------


def test_the_reason_of_one_that_waits(api: Api, task: Task) -> None:
    running = [execution(task, Status.RUNNING) for _ in range(3)]
    waits = execution(task, Status.SCHEDULED, hold=Hold.CONCURRENCY, wake_at=None)
    key = waits.concurrency_key
    assert key is not None
    Slot.objects.bulk_create(
        Slot(key=key, n=n, execution_id=row.id, scheduled_at=row.scheduled_at) for n, row in enumerate(running, 1)
    )
    assert selectors.running_under_keys([waits, *running]) == {key: 3}
    text = "waits: 3 of 3 running for customer-42"
    shown = api.get(f"/executions/{waits.id}").json()
    assert (shown["hold"], shown["reason"], shown["concurrency_key"]) == ("concurrency", text, "customer-42")
    seen = reasons.of(waits, reasons.gather(api.principal, [waits], now=now()))
    assert seen is not None
    assert seen.text == text
    listed = api.get(f"/executions?task_id={task.id}").json()["items"]
    assert [item["reason"] for item in listed if item["id"] == str(waits.id)] == [text]
