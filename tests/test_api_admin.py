"""What the platform's staff do over REST: freezing, tenants, figures; and which region serves whom."""

from dataclasses import replace
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from apps.executions import usage
from apps.executions.models import StandingHold
from apps.executions.quotas import UNITS, Use
from apps.executions.states import Hold, Status
from apps.tenants.models import AuditEntry, Role, Tenant, Tier
from chronoweb.runtime import config, postgres
from tests import factories
from tests.factories import Api, make_api, make_task, make_tenant, pointers, problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def staff() -> Api:
    tenant = make_tenant()
    Tenant.objects.filter(id=tenant.id).update(tier=Tier.SYSTEM)
    return make_api(Tenant.objects.get(id=tenant.id), role=Role.OWNER)


# ---- freezing -------------------------------------------------------------------------------------------------------


def test_the_scheduler_is_frozen_with_a_reason_and_thawed(staff: Api) -> None:
    assert staff.get("/admin/scheduler").json()["frozen"] is None
    frozen = staff.post("/admin/scheduler/freeze", {"reason": "the vault is sealed"}).json()["frozen"]
    assert (frozen["reason"], frozen["by"]) == (
        "the vault is sealed",
        staff.get("/admin/scheduler").json()["frozen"]["by"],
    )
    hold = StandingHold.objects.get(reason=Hold.FROZEN)
    assert hold.target_id.int == 0
    assert staff.post("/admin/scheduler/thaw").json() == {"frozen": None}
    assert not StandingHold.objects.exists()
    assert problem(staff.post("/admin/scheduler/thaw"), 409)["detail"] == "the scheduler is not frozen"
    acts = AuditEntry.objects.filter(target_type="scheduler").order_by("id").values_list("action", "detail__reason")
    assert list(acts) == [("scheduler.freeze", "the vault is sealed"), ("scheduler.thaw", "the vault is sealed")]


@pytest.mark.parametrize("reason", [None, "", "  ", 7, "x" * 1001, "a\0b"])
def test_freezing_needs_a_reason(staff: Api, reason: Any) -> None:
    assert staff.post("/admin/scheduler/freeze", {"reason": reason}).status_code == 422
    assert not StandingHold.objects.exists()


def test_freezing_by_command() -> None:
    tenant = make_tenant()
    out = StringIO()
    call_command("scheduler", "freeze", "--reason", "moving house", "--tenant", tenant.slug, stdout=out)
    assert "by command:scheduler: moving house" in out.getvalue()
    call_command("scheduler", "status", stdout=out)
    assert "the scheduler is not frozen" in out.getvalue()
    call_command("scheduler", "thaw", "--tenant", tenant.slug, stdout=out)
    with pytest.raises(CommandError, match="is not frozen"):
        call_command("scheduler", "thaw", "--tenant", tenant.slug)
    with pytest.raises(CommandError, match="--reason"):
        call_command("scheduler", "freeze")
    with pytest.raises(CommandError, match="no tenant"):
        call_command("scheduler", "thaw", "--tenant", "nobody")


# ---- tenants --------------------------------------------------------------------------------------------------------


def test_tenants_are_made_changed_found_and_frozen(staff: Api) -> None:
    slug = f"acme-{uuid4().hex[:8]}"
    made = staff.post("/admin/tenants", {"slug": slug, "tier": "ENTERPRISE", "executions_per_hour": None})
    assert made.status_code == 201, made.content
    body = made.json()
    assert (body["name"], body["tier"], body["limits"]["executions_per_hour"]) == (slug, "ENTERPRISE", None)
    assert body["limits"]["log_storage_gb"] == 100, "what is not said is the default"
    path = f"/admin/tenants/{body['id']}"
    assert made["Location"] == f"/api/v1{path}"
    changed = staff.call("patch", path, {"weight": 3, "home_region": "eu-west"}).json()
    assert (changed["weight"], changed["home_region"]) == (3, "eu-west")
    assert staff.get(path).json() == changed
    found = staff.get(f"/admin/tenants?search={slug[:9]}&tier=ENTERPRISE").json()["items"]
    assert [item["slug"] for item in found] == [slug]
    assert staff.post(f"{path}/freeze", {"reason": "unpaid"}).json()["frozen"]["reason"] == "unpaid"
    assert staff.get(path).json()["frozen"]["reason"] == "unpaid"
    assert staff.post(f"{path}/thaw").status_code == 200
    assert problem(staff.post("/admin/tenants", {"slug": slug}), 409)
    acts = AuditEntry.objects.filter(target_id=body["id"]).order_by("id").values_list("action", flat=True)
    assert list(acts) == ["tenant.create", "tenant.change", "tenant.freeze", "tenant.thaw"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slug", "Not A Slug"),
        ("slug", None),
        ("name", " "),
        ("tier", "GOLD"),
        ("home_region", "EU WEST"),
        ("weight", 0),
        ("weight", True),
        ("log_storage_gb", -1),
        ("executions_per_hour", "many"),
        ("api_requests_per_minute", 2**31),
        ("color", "red"),
    ],
)
def test_what_no_tenant_can_have_is_refused(staff: Api, field: str, value: Any) -> None:
    answer = staff.post("/admin/tenants", {"slug": "fine", field: value})
    assert f"/{field}" in pointers(problem(answer, 422))
    assert not Tenant.objects.filter(slug="fine").exists()


def test_an_operator_of_the_platform_only_looks(staff: Api) -> None:
    operator = make_api(staff.tenant, role=Role.OPERATOR)
    assert operator.get("/admin/tenants").status_code == 200
    for path in ("/admin/tenants", "/admin/scheduler/freeze", f"/admin/tenants/{staff.tenant.id}/freeze"):
        assert (
            operator.post(path, {"slug": "x", "reason": "x"} if path.endswith("s") else {"reason": "x"}).status_code
            == 403
        )
    assert staff.get(f"/admin/tenants/{uuid4()}").status_code == 404


# ---- figures --------------------------------------------------------------------------------------------------------


def test_the_installation_in_figures(staff: Api) -> None:
    task = make_task(make_api().principal)
    begun = factories.now()
    factories.execution(task, Status.COMPLETED, attempt=1, started_at=begun, finished_at=begun + timedelta(seconds=2))
    factories.execution(task, Status.RUNNING)
    factories.execution(task, Status.DEAD_LETTER)
    usage.add(postgres.raw(connection), {(task.tenant_id.bytes, int(Use.EXECUTIONS)): 41})
    body = staff.get("/admin/metrics").json()
    assert body["running"] == {"all": 1, "critical": 0, "standard": 1, "bulk": 0}
    assert body["dead_letters"] == {"count": 1, "at_least": False}
    assert body["rates"]["dispatched_this_hour"] == 41
    assert body["latencies"]["of_the_last"] >= 1
    assert body["latencies"]["run_ms"]["p99"] > 0
    assert set(body["queues"]) == {"critical", "standard", "bulk"}


def test_a_tenant_sees_what_it_has_used_and_what_is_used_up() -> None:
    api = make_api()
    Tenant.objects.filter(id=api.tenant.id).update(executions_per_hour=10, compute_minutes_per_month=100)
    raw = postgres.raw(connection)
    usage.add(raw, {(api.tenant.id.bytes, int(Use.EXECUTIONS)): 10})
    usage.add(raw, {(api.tenant.id.bytes, int(Use.COMPUTE)): 3 * UNITS[Use.COMPUTE] // 2})
    body = api.get("/tenants/me").json()
    assert body["use"]["executions_per_hour"] == 10
    assert body["use"]["compute_minutes_per_month"] == 1.5
    assert body["use"]["log_storage_gb"] == 0
    [used_up] = body["used_up"]
    assert used_up["quota"] == "executions_per_hour"
    assert used_up["told_at"] is not None
    [entry] = api.get("/audit-log?action=quota.reached").json()["items"]
    assert (entry["actor"], entry["detail"]["limit"]) == ("chronoweb", 10)


# ---- regions --------------------------------------------------------------------------------------------------------


def test_a_request_at_the_wrong_region_is_told_the_right_one(settings: Settings, staff: Api) -> None:
    here, away, lost = make_api(), make_api(), make_api()
    for api, region in ((here, "eu-west"), (away, "us-east"), (lost, "mars")):
        Tenant.objects.filter(id=api.tenant.id).update(home_region=region)
    urls = ("us-east=https://us.example.com/", "eu-west=https://eu.example.com")
    settings.CHRONOWEB = replace(settings.CHRONOWEB, region="eu-west", region_urls=urls)
    assert here.get("/tasks").status_code == 200
    body = problem(away.get("/tasks"), 421)
    assert body["type"] == "urn:chronoweb:problem:wrong-region"
    assert (body["region"], body["base_url"]) == ("us-east", "https://us.example.com")
    assert problem(lost.post("/tasks", {}), 421)["base_url"] is None
    assert staff.get("/admin/tenants").status_code == 200, "the platform's own are served everywhere"


def test_without_a_region_every_tenant_is_served() -> None:
    api = make_api()
    Tenant.objects.filter(id=api.tenant.id).update(home_region="mars")
    assert api.get("/tasks").status_code == 200


def test_urls_of_regions_are_checked_at_start() -> None:
    wrong = config.Config(region_urls=("eu-west", "us=ftp://x"))
    told = [line for line in config.problems(wrong) if "REGION_URLS" in line]
    assert len(told) == 2
    assert not config.problems(config.Config(region_urls=("eu-west=https://eu.example.com/base",)))
