"""The console's frame in a real Chromium: palette, keys, themes, one zone for all times, narrow rail, lost server."""

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.definitions import services
from apps.executions.states import Status
from tests.console_dags import SALES
from tests.console_ledger import HOSTILE, make_tenant, now
from tests.test_console_browser import chromium, site
from tests.test_console_dag_browser import DagStage, staged

__all__ = ["chromium", "site"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)
PICTURES = os.environ.get("CONSOLE_PICTURES")
NOOP = {"type": "python", "name": "demo.noop"}


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[DagStage]:
    with staged(chromium, site, asked_for=("net::ERR_FAILED",)) as made:
        yield made


def keep(page: Page, name: str) -> None:
    """In both themes."""
    for scheme in ("light", "dark"):
        if PICTURES:
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=str(Path(PICTURES) / f"{name}-{scheme}.png"))


def ask(page: Page, words: str) -> None:
    page.keyboard.press("Control+k")
    expect(page.locator("#palette input")).to_be_focused()
    page.keyboard.type(words)
    answered(page)


def answered(page: Page) -> None:
    """Until what was typed last has been looked for: its answer draws the options anew."""
    expect(page.locator("#palette-list[aria-busy=false]")).to_have_count(1)


def test_the_palette_finds_and_does(stage: DagStage) -> None:
    row = stage.add(Status.COMPLETED, task="cache-warm")
    stage.add(Status.COMPLETED, task=HOSTILE)
    dag = stage.dags.make("warm-up-night", SALES)
    page = stage.visit("tasks/", live=False)
    field, options = page.locator("#palette input"), page.locator("#palette [role=option]")

    page.keyboard.press("Control+k")
    expect(options.filter(has_text="Dead letters")).to_have_count(1)
    expect(options.filter(has_text="New task")).to_have_count(1)
    keep(page, "palette")
    page.keyboard.type("warm")
    answered(page)
    expect(options.filter(has_text="warm-up-night")).to_have_count(1)
    expect(options.filter(has_text="cache-warm, the last one")).to_have_attribute("data-state", "completed")
    keep(page, "palette-found")
    expect(options.first).to_have_attribute("aria-selected", "true")
    chosen = field.get_attribute("aria-activedescendant")
    page.keyboard.press("ArrowDown")
    assert field.get_attribute("aria-activedescendant") != chosen
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/dags/{dag.id}/")

    ask(page, str(row.id))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/executions/{row.id}/")
    ask(page, "img src")
    expect(options.filter(has_text="<img src=x").first).to_be_visible()
    assert page.locator("#palette img").count() == 0
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()

    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".top [data-palette='']").click()
    expect(field).to_be_focused()
    page.keyboard.type("dead let")
    answered(page)
    expect(options.first).to_be_in_viewport(ratio=1)
    keep(page, "palette-390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    options.first.click()
    page.wait_for_url("**/dead-letters/")


def test_another_tenant_is_switched_to_and_a_foreign_one_is_not_found(stage: DagStage) -> None:
    theirs = make_tenant("foreign-books")
    page = stage.visit("tasks/", live=False)
    ask(page, theirs.slug)
    expect(page.locator("#palette [role=status]")).to_contain_text("Nothing is called so")


def test_themes_keys_and_more_are_remembered_and_listed(stage: DagStage) -> None:
    stage.add(Status.COMPLETED, task="alpha")
    page = stage.visit("tasks/", live=False, scheme="dark")
    theme = "document.documentElement.dataset.theme"
    ask(page, "theme light")
    page.keyboard.press("Enter")
    page.reload()
    assert page.evaluate(theme) == "light"
    toggle = page.locator("[data-theme-toggle]")
    expect(toggle).to_have_text("Theme: light")
    toggle.click()
    assert page.evaluate(theme) == "dark"
    toggle.click()
    page.reload()
    expect(toggle).to_have_text("Theme: system")
    assert page.evaluate(f"{theme} === undefined && getComputedStyle(document.body).colorScheme") == "dark"

    page.keyboard.press("?")
    lines = page.locator("#help dl > div:visible")
    expect(lines.filter(has_text="choose the row")).to_have_count(1)
    expect(lines.filter(has_text="in the graph")).to_have_count(0)
    expect(page.locator("[data-own-keys]")).to_contain_text("New task")
    keep(page, "keys")
    page.keyboard.press("Escape")

    page.set_viewport_size({"width": 390, "height": 844})
    log_out = page.get_by_role("button", name="Log out")
    expect(log_out).to_be_hidden()
    page.locator("[data-more]").click()
    for entry in page.locator(".rail .entry").all():
        expect(entry).to_be_in_viewport(ratio=1)
    keep(page, "more-390")
    page.keyboard.press("Escape")
    expect(log_out).to_be_hidden()
    page.keyboard.press("n")
    page.wait_for_url("**/tasks/new")


def test_one_zone_for_all_times_and_planned_equals_actual(stage: DagStage) -> None:
    """08:00 in Seoul is 23:00 of the day before in UTC; the browser is in UTC."""
    schedule = {"type": "cron", "expression": "0 8 * * *", "timezone": "Asia/Seoul"}
    task = services.create_task(
        principal=stage.dags.who, data={"name": "digest", "schedule": schedule, "handler": NOOP}
    )
    stage.ledger.adopt(task)
    eight = now().replace(hour=23, minute=0, second=0, microsecond=0)
    planned = eight if eight > now() + timedelta(minutes=1) else eight + timedelta(days=1)
    stage.ledger.at = planned
    row = stage.add(Status.SCHEDULED, task="digest", due=timedelta(0))
    stage.ledger.at = None
    assert row.scheduled_at == planned
    run = stage.run()
    page = stage.visit("tasks/", live=False)
    clock = page.locator("[data-clock]")
    shown = page.locator(".c-next time")
    expect(shown).to_have_text(re.compile("23:00:00$"))

    for search, zone, at in (("tokyo", "Asia/Tokyo", "08:00"), ("new york", "America/New_York", "18:00")):
        clock.click()
        page.keyboard.type(search)
        answered(page)
        expect(page.locator("#palette [role=option]").first).to_contain_text(zone.replace("_", " "))
        page.keyboard.press("Enter")
        expect(clock).to_contain_text(zone)
        expect(shown).to_have_text(re.compile(f"{at}:00$"))  # this page at once, and no other is asked again

    base = f"{stage.url}/t/{stage.tenant.slug}"
    page.goto(f"{base}/tasks/{task.id}/")
    expect(page.locator("[data-times] time").first).to_have_text(re.compile("18:00:00$"))
    expect(page.locator("[data-times] .local").first).to_contain_text("08:00:00 KST")
    page.goto(f"{base}/executions/{row.id}/")
    expect(page.locator("time[data-zone='Asia/Seoul']").first).to_have_text(re.compile("(18:00|17:59):"))
    often = {"type": "cron", "expression": "* * * * *", "timezone": "Asia/Seoul"}  # else the next hour may be empty
    services.create_task(principal=stage.dags.who, data={"name": "often", "schedule": often, "handler": NOOP})
    page.goto(f"{base}/")
    expect(page.locator(".hour [data-zone-name]")).to_have_text("America/New_York")
    shown, expected = page.locator(".hour .axis time").first.evaluate(
        "(tick) => [tick.textContent, new Intl.DateTimeFormat('en-GB',"
        " {hour: '2-digit', minute: '2-digit', timeZone: 'America/New_York'}).format(new Date(tick.dateTime))]"
    )
    assert shown == expected
    page.goto(f"{base}/runs/{run}/")
    expect(page.locator("#gantt [data-zone-name]")).to_have_text("America/New_York")

    page.goto(f"{base}/tasks/{task.id}/")
    ask(page, "each task")
    page.keyboard.press("Enter")
    expect(clock).to_contain_text("each task’s zone")
    expect(page.locator("[data-times] time").first).to_have_text(re.compile(r"08:00:00 (GMT\+9|KST)$"))


def test_a_lost_server_is_said_until_it_is_back(stage: DagStage) -> None:
    stage.add(Status.RUNNING)
    page = stage.visit("executions/")
    banner = page.locator("[data-away]")
    page.route("**/state*", lambda route: route.abort())
    page.context.set_offline(True)
    expect(banner).to_contain_text("offline since")
    expect(banner).to_be_in_viewport()
    keep(page, "server-down")
    page.context.set_offline(False)
    expect(banner).to_be_hidden()


def test_a_run_fits_on_one_sheet_of_paper(stage: DagStage) -> None:
    run = stage.run()
    stage.dags.end(run, extract={"shops": [1, 2], "type": "invoice"})
    page = stage.visit(f"runs/{run}/", scheme="light")
    sheets = page.pdf(format="A4", path=f"{PICTURES}/run.pdf" if PICTURES else None)
    assert len(re.findall(rb"/Type\s*/Page\b", sheets)) == 1
    page.emulate_media(media="print")
    for gone in (".rail", ".top .go", "main .acts", "[data-zoom]"):
        assert page.locator(f"{gone} >> visible=true").count() == 0, gone
    keep(page, "run-on-paper")
