"""Idempotency-Key: every POST of a tenant that is sent again happens once, and answers as it did."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.urls import URLPattern

from apps.api.base import ApiView
from apps.api.urls import urlpatterns
from apps.executions.models import Execution, IdempotencyKey
from apps.tenants.models import ApiKey, AuditEntry, Role
from tests.factories import document, make_api, make_task, problem

pytestmark = pytest.mark.django_db

KEY = {"Idempotency-Key": "click"}


def _posts() -> Iterator[type[ApiView]]:
    for pattern in urlpatterns:
        view = getattr(pattern.callback, "cls", None) if isinstance(pattern, URLPattern) else None
        if isinstance(view, type) and issubclass(view, ApiView) and hasattr(view, "post"):
            yield view


@pytest.mark.parametrize("view", _posts())
def test_every_post_of_a_tenant_heeds_the_key(view: type[ApiView]) -> None:
    assert view.repeatable
    assert view._act_once is ApiView._act_once


def test_what_had_no_key_of_its_own_before_is_done_once() -> None:
    api = make_api()
    task = make_task(api.principal)
    first = api.post(f"/tasks/{task.id}/pause", {"note": "why"}, headers=KEY)
    again = api.post(f"/tasks/{task.id}/pause", {"note": "why"}, headers=KEY)
    assert again.status_code == first.status_code == 200
    assert again.json() == first.json()
    assert again["ETag"] == first["ETag"]
    assert again["Idempotent-Replayed"] == "true"
    assert AuditEntry.objects.filter(tenant=api.tenant, action="task.pause").count() == 1
    other = problem(api.post(f"/tasks/{task.id}/pause", {"note": "other"}, headers=KEY), 422)
    assert other["errors"][0]["header"] == "Idempotency-Key"
    problem(api.post(f"/tasks/{task.id}/resume", {"note": "why"}, headers=KEY), 422)


@pytest.mark.parametrize(("path", "body"), [("/api-keys", {"name": "deploy"}), ("/webhook-secret/rotate", {})])
def test_an_answer_with_a_secret_is_neither_kept_nor_repeated(path: str, body: dict[str, Any]) -> None:
    api = make_api(role=Role.OWNER)
    made = api.post(path, body, headers=KEY)
    secret = made.json().get("key") or made.json()["secret"]
    refused = problem(api.post(path, body, headers=KEY), 409)
    assert "shown once" in refused["detail"]
    if path == "/api-keys":
        assert refused["location"] == f"/api/v1/api-keys/{made.json()['id']}"
        assert ApiKey.objects.filter(tenant=api.tenant, name="deploy").count() == 1
    stored = IdempotencyKey.objects.get(tenant=api.tenant)
    assert secret not in str(stored.__dict__)


def test_who_is_refused_may_ask_again_with_the_same_key() -> None:
    api = make_api()
    task = make_task(api.principal)
    taken = document(name=task.name)
    problem(api.post("/tasks", taken, headers=KEY), 409)
    api.call("delete", f"/tasks/{task.id}")
    assert api.post("/tasks", taken, headers=KEY).status_code == 201


@pytest.mark.django_db(transaction=True)
def test_a_hundred_at_once_with_one_key_are_one_execution() -> None:
    api = make_api()
    task = make_task(api.principal)
    answers: list[Any] = []

    def click() -> None:
        answers.append(api.post(f"/tasks/{task.id}/trigger", {}, headers=KEY))
        connection.close()

    threads = [threading.Thread(target=click) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Execution.objects.filter(task_id=task.id).count() == 1
    assert {answer.status_code for answer in answers} == {202}
    done = [answer.json() for answer in answers if answer.status_code == 202]
    assert len(done) >= 1
    assert all(answer["id"] == done[0]["id"] for answer in done)
