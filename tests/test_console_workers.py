"""The page of workers: whose work and machines it shows to whom, how each stands, who drains which, what it costs."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.workers import standing
from apps.executions.models import Outstanding, Worker
from apps.executions.states import Status
from apps.tenants.models import AuditEntry, Role, Tenant, Tier
from chronoweb.runtime.version import VERSION
from tests.console_dags import make_member
from tests.console_ledger import Ledger, make_tenant, now
from tests.factories import make_api
from tests.test_api_workers import worker_row

ROOT = Path(__file__).resolve().parent.parent
pytestmark = pytest.mark.django_db


def platform() -> Tenant:
    tenant = make_tenant()
    Tenant.objects.filter(id=tenant.id).update(tier=Tier.SYSTEM)
    tenant.refresh_from_db()
    return tenant


class Desk:
    """Somebody of a tenant who looks at the fleet."""

    def __init__(self, tenant: Tenant, role: Role = Role.OWNER) -> None:
        self.tenant = tenant
        self.client = Client()
        self.client.force_login(make_member(tenant, role))

    def see(self) -> str:
        answer = self.client.get(f"/t/{self.tenant.slug}/workers/")
        assert answer.status_code == 200
        return answer.content.decode()

    def drain(self, worker: int, status: int = 200, act: str = "drain", **given: Any) -> Any:
        answer = self.client.post(f"/t/{self.tenant.slug}/workers/{worker}/act/{act}", {"note": "", **given})
        assert answer.status_code == status, answer.content
        return answer.json() if status != 404 else None


def audited() -> list[tuple[Any, str, str]]:
    rows = AuditEntry.objects.filter(action="worker.drain").order_by("id")
    return list(rows.values_list("tenant_id", "action", "target_id"))


def running(ledger: Ledger, worker: Worker, task: str) -> None:
    row = ledger.add(Status.RUNNING, task=task, worker_id=worker.pk)
    Outstanding.objects.filter(execution_id=row.id).update(worker_id=worker.pk)


def test_own_work_is_linked_others_is_a_number_and_machines_are_whose_they_are() -> None:
    tenant, other = make_tenant(), make_tenant()
    machine: dict[str, Any] = {"class_slots": [4, 2, 2], "cpu_percent": 134.0, "memory_bytes": 412_000_000}
    shared = worker_row(host="shared-host", class_used=[1, 5, 0], labels=["<b>"], **machine)
    worker_row(host="own-host", tenant_id=tenant.id, version="9.9.9", **machine)
    worker_row(host="their-host", tenant_id=other.id, **machine)
    running(Ledger(tenant), shared, "ours")
    theirs = Ledger(other)
    running(theirs, shared, "theirs")
    running(theirs, shared, "theirs")
    html = Desk(tenant).see()
    assert "2 of others" in html
    assert ">ours<" in html
    assert "3 lent by idle critical ones" in html
    assert "&lt;b&gt;" in html
    assert "own-host" in html
    assert "134 %" in html
    assert "9.9.9" in html
    for hidden in ("theirs", "their-host", "shared-host"):
        assert hidden not in html
    everything = Desk(platform()).see()
    assert "3 of others" in everything
    for shown in ("shared-host", "own-host", "their-host"):
        assert shown in everything
    for hidden in ("ours", "theirs", tenant.slug, str(tenant.id)):
        assert hidden not in everything, "whose it is, is its tenant's business"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({}, standing.LIVE),
        ({"heartbeat_at": timedelta(seconds=20)}, standing.LIVE),
        ({"heartbeat_at": timedelta(seconds=22)}, standing.SILENT),
        ({"state": "draining"}, standing.DRAINING),
        ({"drain_requested_at": timedelta(0)}, standing.DRAINING),
        ({"state": "draining", "heartbeat_at": timedelta(seconds=22)}, standing.SILENT),
        ({"state": "stopped", "heartbeat_at": timedelta(minutes=5)}, standing.STOPPED),
        ({"state": "lost", "heartbeat_at": timedelta(minutes=5)}, standing.LOST),
    ],
)
def test_how_a_worker_stands(fields: dict[str, Any], state: str) -> None:
    at = now()
    given = {name: at - value if isinstance(value, timedelta) else value for name, value in fields.items()}
    row = Worker(**{"state": "active", "heartbeat_at": at, **given})
    assert standing.of(row, now=at, heartbeat_seconds=10) == state


def test_those_that_have_left_are_shown_for_an_hour() -> None:
    worker_row(state="lost", heartbeat_at=now() - timedelta(minutes=5))
    worker_row(state="stopped", heartbeat_at=now() - timedelta(hours=2))
    html = Desk(make_tenant()).see()
    assert 'data-state="lost"' in html
    assert 'data-state="stopped"' not in html
    Worker.objects.all().delete()
    assert "No worker lives" in Desk(make_tenant()).see()


def test_owners_drain_their_own_and_the_platforms_owners_every_one() -> None:
    tenant = make_tenant()
    own, shared, theirs = worker_row(tenant_id=tenant.id), worker_row(), worker_row(tenant_id=make_tenant().id)
    owner = Desk(tenant)
    assert owner.see().count('data-label="Drain"') == 1
    assert "drains, and leaves" in owner.drain(own.pk)["said"]
    assert "owners of the platform" in owner.drain(shared.pk, 403)["problem"]
    owner.drain(theirs.pk, 404)
    owner.drain(own.pk, 404, act="restart")
    owner.drain(2**70, 404)
    assert "force" in str(owner.drain(own.pk, 422, force="1"))
    assert 'data-label="Drain"' not in owner.see(), "it cannot be taken back, nor asked twice"
    for role in (Role.OPERATOR, Role.VIEWER):
        desk = Desk(tenant, role)
        assert 'data-label="Drain"' not in desk.see()
        assert "owner" in desk.drain(own.pk, 403)["problem"] if role is Role.OPERATOR else desk.drain(own.pk, 403)
    staff = platform()
    assert 'data-label="Drain"' not in Desk(staff, Role.OPERATOR).see()
    Desk(staff, Role.OPERATOR).drain(shared.pk, 403)
    assert audited() == [(tenant.id, "worker.drain", str(own.pk))]
    Desk(staff).drain(shared.pk)
    Desk(staff).drain(theirs.pk)
    assert audited()[1:] == [(None, "worker.drain", str(shared.pk)), (theirs.tenant_id, "worker.drain", str(theirs.pk))]
    assert set(Worker.objects.filter(drain_requested_at=None)) == set()


def test_what_draining_leads_to_is_said_before() -> None:
    tenant = make_tenant()
    worker_row(tenant_id=tenant.id)
    assert "the last one kept for its tenant" in Desk(tenant).see()
    staff = Desk(platform())
    worker_row(labels=["gpu"])
    assert "It is the last shared worker that lives" in staff.see()
    worker_row()
    html = staff.see()
    assert "Nobody else carries gpu: work that requires it will wait." in html
    assert "within 30.0 s" in html


def test_over_the_api_and_by_command() -> None:
    api = make_api(role=Role.OWNER)
    own, shared = worker_row(tenant_id=api.tenant.id, host="own-host"), worker_row()
    answer = api.post(f"/workers/{own.pk}/drain")
    assert answer.status_code == 202
    assert (answer.json()["host"], answer.json()["drain_requested_at"] is not None) == ("own-host", True)
    assert api.post(f"/workers/{own.pk}/drain").status_code == 202
    assert api.post(f"/workers/{shared.pk}/drain").status_code == 403
    assert make_api(api.tenant, role=Role.OPERATOR).post(f"/workers/{own.pk}/drain").status_code == 403
    call_command("drain_worker", str(shared.pk))
    Worker.objects.filter(pk=shared.pk).update(state="stopped", drain_requested_at=None)
    with pytest.raises(CommandError, match="has ended already"):
        call_command("drain_worker", str(shared.pk))
    assert [target for _, _, target in audited()] == [str(own.pk), str(shared.pk)], "each once"


def test_queries_do_not_grow_with_the_fleet() -> None:
    tenant = make_tenant()
    ledger, desk = Ledger(tenant), Desk(tenant)

    def cost() -> int:
        with CaptureQueriesContext(connection) as caught:
            desk.see()
        return len(caught)

    running(ledger, worker_row(class_slots=[2, 1, 1]), "job")
    desk.see()
    few = cost()
    for _ in range(12):
        running(ledger, worker_row(class_slots=[2, 1, 1]), "job")
    assert cost() == few <= 20
    assert desk.see().count('class="work"') == 13


def test_a_worker_says_which_program_it_runs() -> None:
    assert f'version = "{VERSION}"' in (ROOT / "pyproject.toml").read_text()
