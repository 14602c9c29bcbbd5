"""Workers and the scheduler in a real Chromium: both change while one looks; what cannot be undone is typed first."""

import uuid
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect

from apps.executions.models import Finding, Lease, Outstanding, Worker
from apps.executions.states import Status
from apps.tenants.models import AuditEntry, Role, Tenant, Tier
from tests.console_ledger import now
from tests.test_api_workers import worker_row
from tests.test_console_browser import chromium, site
from tests.test_console_dag_browser import DagStage, press, stage

__all__ = ["chromium", "site", "stage"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)
TOO_WIDE = """[...document.querySelectorAll("main *")].filter((one) => one.getBoundingClientRect().right > innerWidth)
              .map((one) => one.outerHTML.slice(0, 80))"""


def see(stage: DagStage, path: str) -> Page:
    """As an owner of the platform."""
    Tenant.objects.filter(id=stage.tenant.id).update(tier=Tier.SYSTEM)
    return stage.visit(path, role=Role.OWNER)


def fits_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate(TOO_WIDE) == []


def test_a_worker_works_is_drained_and_leaves(stage: DagStage) -> None:
    worker = worker_row(host="eu-1", class_slots=[10, 4, 2], class_used=[2, 5, 0], labels=["gpu", "region=eu"])
    page = see(stage, "workers/")
    row = page.locator(f'tr[data-id="worker-{worker.pk}"]')
    expect(row).to_have_attribute("data-state", "live")
    expect(row.locator("svg .lent")).to_have_count(1)
    work = stage.ledger.add(Status.RUNNING, task="sales-merge", worker_id=worker.pk)
    Outstanding.objects.filter(execution_id=work.id).update(worker_id=worker.pk)
    expect(row.locator("a.work bdi")).to_have_text("sales-merge")
    page.locator("[data-search]").fill("no such label")
    expect(row).to_be_hidden()
    page.locator("[data-search]").fill("region=eu")
    expect(row).to_be_visible()
    fits_a_phone(page)
    press(page, "Drain", typed=f"worker-{worker.pk}")
    expect(page.locator("[data-toast]")).to_contain_text("drains, and leaves")
    expect(row).to_have_attribute("data-state", "draining")
    expect(row.locator("[data-act]")).to_have_count(0)
    Worker.objects.filter(pk=worker.pk).update(state="stopped", heartbeat_at=now())
    expect(row).to_have_attribute("data-state", "stopped")
    expect(page.locator("#f-fleet")).to_contain_text("1 stopped")
    assert AuditEntry.objects.get().action == "worker.drain"


def test_the_scheduler_is_frozen_thawed_and_failed_over(stage: DagStage) -> None:
    holder, at = uuid.uuid4(), now()
    for role in ("preloader", "watchdog", "dispatcher-member/1", *(f"dispatcher/{shard}" for shard in range(16))):
        until = at + timedelta(minutes=5)
        Lease.objects.create(role=role, holder=holder, epoch=7, expires_at=until, acquired_at=at)
    page = see(stage, "scheduler/")
    roles, shards = page.locator("#f-roles .role"), page.locator(".shards li")
    expect(page.locator('#f-roles [data-state="live"]')).to_have_count(3)
    expect(shards).to_have_class(["m1"] * 16)
    fits_a_phone(page)
    press(page, "Freeze", typed="freeze", note="month-end close")
    expect(page.locator("#f-standing")).to_contain_text("month-end close")
    press(page, "Thaw")
    expect(page.locator("#f-standing")).to_contain_text("the scheduler dispatches")
    press(page, "Fail over", typed="preloader")
    expect(roles.first).to_have_attribute("data-state", "lost")
    expect(roles.first).to_contain_text("nobody leads")
    Lease.objects.filter(role="dispatcher/3").update(expires_at=at)
    expect(shards.nth(3)).to_have_class("m0")
    Finding.objects.create(kind="restored", detail="not in the hot tier", count=12, first_at=at, last_at=at)
    expect(page.locator(".findings")).to_contain_text("12 put into the hot tier again")
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "scheduler.freeze",
        "scheduler.thaw",
        "failover",
    ]
