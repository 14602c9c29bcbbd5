"""The scheduler's own endpoints: seen and moved by the platform's owners alone."""

import pytest
from django.core.management import call_command
from django.db import connection
from rest_framework.test import APIClient

from apps.executions.models import Lease
from apps.executions.store import named_sql
from apps.tenants import keys
from apps.tenants.models import AuditEntry, Role, Tenant, Tier

pytestmark = pytest.mark.django_db
URL = "/api/v1/admin/scheduler"


def client(tier: str, role: Role = Role.OWNER) -> APIClient:
    tenant = Tenant.objects.create(slug=f"t-{tier.lower()}-{role}", name="t", tier=tier)
    made = APIClient()
    made.credentials(HTTP_AUTHORIZATION=f"Bearer {keys.issue(tenant=tenant, name='k', role=role)}")
    return made


def hold(role: str) -> None:
    holder = "11111111-1111-7111-8111-111111111111"
    parameters: dict[str, str | int | bool] = {"role": role, "holder": holder, "ttl": 15, "locked": True}
    with connection.cursor() as cursor:
        cursor.execute(named_sql("lease_take"), parameters)


def test_leases_are_shown_with_their_epochs() -> None:
    hold("preloader")
    answer = client(Tier.SYSTEM, Role.VIEWER).get(URL)
    assert [(lease["role"], lease["epoch"]) for lease in answer.json()["leases"]] == [("preloader", 1)]


def test_failover_raises_the_epoch_and_is_written_down() -> None:
    hold("dispatcher/3")
    answer = client(Tier.SYSTEM).post(f"{URL}/failover", {"role": "dispatcher"}, format="json")
    assert (answer.status_code, answer.json()) == (202, {"leases": {"dispatcher/3": 2}})
    assert Lease.objects.get(role="dispatcher/3").epoch == 2
    assert AuditEntry.objects.get(action="failover").target_id == "dispatcher"


@pytest.mark.parametrize(("tier", "role"), [(Tier.STANDARD, Role.OWNER), (Tier.SYSTEM, Role.OPERATOR)])
def test_nobody_else_may(tier: str, role: Role) -> None:
    hold("preloader")
    answer = client(tier, role).post(f"{URL}/failover", {"role": "preloader"}, format="json")
    assert answer.status_code == 403
    assert Lease.objects.get(role="preloader").epoch == 1


def test_another_tenants_owner_sees_nothing() -> None:
    assert client(Tier.ENTERPRISE).get(URL).status_code == 403


@pytest.mark.parametrize("role", ["janitor", None, 7])
def test_an_unknown_role_is_refused_with_the_legal_ones(role: object) -> None:
    answer = client(Tier.SYSTEM).post(f"{URL}/failover", {"role": role}, format="json")
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/role"
    assert "preloader" in str(answer.json()["errors"][0]["legal"])


def test_the_command_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    hold("watchdog")
    call_command("failover", "watchdog")
    assert "watchdog: epoch is 2 now" in capsys.readouterr().out
