"""Settings and the audit log in a real Chromium: forms that say what is wrong in place, a key shown once, a file."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from apps.tenants import keys
from apps.tenants.models import ApiKey, AuditEntry, Membership, NotificationChannel, Role, Secret
from tests.console_dags import make_member
from tests.console_ledger import now
from tests.test_console_browser import chromium, site
from tests.test_console_dag_browser import DagStage, staged

__all__ = ["chromium", "site"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[DagStage]:
    with staged(chromium, site, asked_for=("422", "409")) as made:
        yield made


def test_an_owner_sets_up_a_tenant(stage: DagStage, tmp_path: Path) -> None:
    """One page, one tab after the other."""
    other = make_member(stage.tenant, Role.VIEWER)
    page = stage.visit("settings/", role=Role.OWNER, live=False)
    tab = page.get_by_label("settings", exact=True)
    dialog = page.locator("dialog[open]")

    tab.get_by_role("link", name="API keys").click()
    page.get_by_role("button", name="Make a key").click()
    dialog.get_by_role("button", name="Make the key").click()
    expect(dialog.locator("[data-field='/name'] em")).to_contain_text("is no name; legal: 1 to 100")
    dialog.locator("[name=name]").fill("deploy")
    dialog.locator("[name=life]").select_option("on")
    dialog.locator("[name=expires_at]").fill("2020-01-01")
    dialog.get_by_role("button", name="Make the key").click()
    expect(dialog.locator("[data-field='/expires_at'] em")).to_contain_text("“2020-01-01” is in the past")
    dialog.locator("[name=life]").select_option("30")
    dialog.get_by_label("tasks").check()
    dialog.get_by_role("button", name="Make the key").click()
    expect(page.locator("#new-key")).to_contain_text("cw_")
    text = page.locator("#new-key").text_content() or ""
    assert keys.principal_of(text, now=now()) is not None
    page.get_by_role("button", name="I have kept it").click()
    expect(page.locator("tr[data-id]")).to_have_count(1)
    assert text not in page.content()
    page.get_by_role("button", name="Revoke…").click()
    expect(dialog.locator("[data-act-go]")).to_be_disabled()
    dialog.locator("[data-act-typed] input").fill("deploy")
    dialog.locator("[data-act-go]").click()
    expect(page.locator("tr.over")).to_be_visible()
    assert ApiKey.objects.get(tenant=stage.tenant).revoked_at is not None

    tab.get_by_role("link", name="Members").click()
    row = page.locator(f"tr[data-id='{other.username}']")
    row.locator("select").select_option("operator")
    with page.expect_navigation():
        row.get_by_role("button", name="Save").click()
    expect(row.locator("select")).to_have_value("operator")
    assert Membership.objects.get(user=other).role == Role.OPERATOR

    tab.get_by_role("link", name="Secrets").click()
    page.get_by_role("button", name="Keep a secret").click()
    dialog.locator("[name=name]").fill("TOKEN")
    dialog.locator("[name=value]").fill("v")
    dialog.get_by_role("button", name="Keep it").click()
    expect(page.locator("tr[data-id=TOKEN]")).to_be_visible()
    page.get_by_role("button", name="Replace…").click()
    expect(dialog.locator("h2")).to_have_text("Replace TOKEN")
    dialog.locator("[name=store]").select_option("vault")
    expect(dialog.locator("[name=value]")).to_be_hidden()
    dialog.get_by_role("button", name="Replace it").click()
    expect(dialog.locator("[data-field='/store'] em")).to_contain_text("has no Vault")
    page.keyboard.press("Escape")

    tab.get_by_role("link", name="Channels").click()
    page.get_by_role("button", name="Make a channel").click()
    dialog.locator("[name=kind]").select_option("email")
    dialog.locator("[name=name]").fill("us")
    dialog.locator("[name=to]").fill("nobody")
    dialog.get_by_role("button", name="Make it").click()
    expect(dialog.locator("[data-field='/config/to'] em")).to_contain_text("no address")
    dialog.locator("[name=to]").fill("a@example.com")
    dialog.get_by_role("button", name="Make it").click()
    expect(page.locator("tr[data-id]")).to_have_count(1)
    assert NotificationChannel.objects.get(tenant=stage.tenant).config == {"to": ["a@example.com"]}
    assert Secret.objects.get(tenant=stage.tenant).store == "database"

    page.get_by_role("link", name="Audit log").click()
    expect(page.locator("tr[data-id]")).to_have_count(5)
    page.get_by_text("Filter", exact=True).click()
    page.get_by_label("Act").fill("membership.change")
    page.get_by_role("button", name="Show these").click()
    expect(page.locator("tr[data-id]")).to_have_count(1)
    expect(page.locator(".diff")).to_contain_text("role: viewer → operator")
    page.get_by_text("Download", exact=True).click()
    with page.expect_download() as found:
        page.get_by_role("link", name="as JSON").click()
    found.value.save_as(tmp_path / "audit.json")
    [entry] = json.loads((tmp_path / "audit.json").read_text())
    assert (entry["action"], entry["via"], entry["address"]) == ("membership.change", "console", "127.0.0.1")
    assert AuditEntry.objects.filter(tenant=stage.tenant).count() == 5
    page.set_viewport_size({"width": 390, "height": 800})
    for path in ("audit/", "settings/", *(f"settings/{name}" for name in ("members", "keys", "secrets", "limits"))):
        page.goto(f"{stage.url}/t/{stage.tenant.slug}/{path}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
