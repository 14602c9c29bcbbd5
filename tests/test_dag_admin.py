"""The admin's form of a DAG: its document, judged as everywhere else; what is wrong is told beside it."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from apps.definitions.dags import making
from apps.definitions.models import Dag
from apps.tenants.models import AuditEntry, Tenant
from tests.console_ledger import make_person, make_tenant
from tests.factories import make_principal

pytestmark = pytest.mark.django_db
CHANGELIST = "admin:definitions_dag_changelist"
DOCUMENT = "name: d\nnodes:\n  - id: a\n    handler: demo.noop\n"


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(make_person(None, is_staff=True, is_superuser=True))
    return client


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


def send(root: Client, tenant: Tenant, text: str, dag: Dag | None = None, **fields: Any) -> str:
    page = (
        reverse("admin:definitions_dag_add") if dag is None else reverse("admin:definitions_dag_change", args=[dag.id])
    )
    answer = root.post(page, {"tenant": str(tenant.pk), "document": text, **fields}, follow=True)
    assert answer.status_code == 200
    return answer.content.decode()


def test_a_dag_is_made_and_edited(root: Client, tenant: Tenant) -> None:
    send(root, tenant, DOCUMENT)
    dag = Dag.objects.get(tenant=tenant)
    assert (dag.name, dag.version, dag.node_count) == ("d", 1, 1)
    page = root.get(reverse("admin:definitions_dag_change", args=[dag.id])).content.decode()
    assert "demo.noop" in page
    edited = DOCUMENT + "  - id: b\n    handler: demo.noop\n    depends_on: [a]\n"
    send(root, tenant, edited, dag, seen="1")
    dag.refresh_from_db()
    assert (dag.version, dag.node_count) == (2, 2)
    assert "no new version" in send(root, tenant, edited, dag, seen="2")
    assert "is at version 2, not 1" in send(root, tenant, DOCUMENT, dag, seen="1")
    dag.refresh_from_db()
    assert dag.version == 2
    entries = AuditEntry.objects.filter(tenant=tenant).order_by("id").values_list("action", "actor")
    assert [action for action, _ in entries] == ["dag.create", "dag.update"]
    assert all(actor.startswith("user:") for _, actor in entries)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: d\nnodes: [\n", "not YAML"),
        ("name: d\nnodes: []\n", "/nodes: is empty"),
        ("name: d\nnodes: [{id: a, handler: x, depends_on: [a]}]\n", "/nodes/0/depends_on/0: is the node itself"),
    ],
)
def test_faults_are_told_in_the_form(root: Client, tenant: Tenant, text: str, words: str) -> None:
    assert words in send(root, tenant, text)
    assert not Dag.objects.filter(tenant=tenant).exists()
    assert not AuditEntry.objects.filter(tenant=tenant).exists()


def test_a_taken_name_is_told_in_the_form(root: Client, tenant: Tenant) -> None:
    send(root, tenant, DOCUMENT)
    assert "is taken by DAG" in send(root, tenant, DOCUMENT)
    assert Dag.objects.filter(tenant=tenant).count() == 1


def test_pause_and_resume_from_the_list(root: Client, tenant: Tenant) -> None:
    data = {"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}]}
    dag = making.create_dag(principal=make_principal(tenant), data=data)
    for action in ("pause", "resume"):
        root.post(reverse(CHANGELIST), {"action": action, "_selected_action": [str(dag.id)]})
        dag.refresh_from_db()
        assert (dag.paused_at is not None) is (action == "pause")


def test_who_may_only_look_cannot_write(tenant: Tenant) -> None:
    client = Client()
    client.force_login(make_person(None, is_staff=True))
    assert (
        client.post(reverse("admin:definitions_dag_add"), {"tenant": str(tenant.pk), "document": DOCUMENT}).status_code
        == 403
    )
    assert not Dag.objects.filter(tenant=tenant).exists()
