"""The live page in a real Chromium, served by a real daphne: what people see, press, and are spared."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from http.client import HTTPConnection
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from playwright.sync_api import Browser, Page, WebSocketRoute, expect, sync_playwright

from apps.console.login_links import mint
from apps.console.sockets import NO_PLACE, NOT_FOUND
from apps.executions import feed
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.models import Tenant
from tests.console_ledger import HOSTILE, Ledger, change, make_person, make_tenant
from tests.waiting import PATIENCE_SECONDS, eventually
from tests.web_process import nobody_reads

pytestmark = pytest.mark.django_db(transaction=True)

# As root, and without a word to the world.
ARGUMENTS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()


def chromium_path() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "chromium is missing: `apt-get install chromium`, or name a Chromium in the variable CHROMIUM"
    return found


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Playwright runs an event loop in this thread, which Django would take for an async context."""
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        expect.set_options(timeout=PATIENCE_SECONDS * 1000)
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site(web_process: str) -> Iterator[str]:
    """The web process; what this process tells it of ends with the module."""
    yield web_process
    feed.close()


class Stage:
    """A tenant with a page open in a browser."""

    def __init__(self, browser: Browser, url: str, tenant: Tenant | None = None) -> None:
        self.url = url
        self.complaints: list[str] = []
        self.ledger = Ledger(tenant or make_tenant())
        self.tenant = self.ledger.tenant
        self._browser = browser
        self.sockets: list[WebSocketRoute] = []

    def add(self, *arguments: Any, **named: Any) -> Execution:
        return self.ledger.add(*arguments, **named)

    def move(self, row: Execution, **fields: Any) -> None:
        change(row, **fields)
        feed.changed(self.tenant.id, [row.id])

    def open(self, *, width: int = 1280, height: int = 800, scheme: Any = "dark") -> Page:
        """Log in by a link, and wait until the page is live."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, timezone_id="Asia/Tokyo"
        )
        page = context.new_page()
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"
        )
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.route_web_socket(re.compile("/ws/"), self._relay)
        page.goto(self.url + mint(make_person(self.tenant)))
        page.goto(f"{self.url}/t/{self.tenant.slug}/executions/")
        self.is_live(page)
        return page

    def _relay(self, route: WebSocketRoute) -> None:
        route.connect_to_server()
        self.sockets.append(route)

    def is_live(self, page: Page) -> None:
        expect(page.locator("[data-live]")).to_have_attribute("data-live", "live")

    def writers_hear(self) -> None:
        """Until this process's feed knows of the viewer, as any daemon does within a second."""

        def heard() -> bool:
            feed.changed(self.tenant.id, [])
            return self.tenant.id.bytes in (feed._feed._watched or ())

        eventually(heard)


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[Stage]:
    """Whatever the browser complains of in the course of a test fails it: errors, warnings, the policy."""
    made = Stage(chromium, site)
    yield made
    for context in chromium.contexts:
        context.close()
    eventually(nobody_reads)
    assert made.complaints == []


def test_a_row_changes_state_live(stage: Stage) -> None:
    row = stage.add(Status.RUNNING, task="sales-merge")
    page = stage.open()
    shown = page.locator(f"#x-{row.id}")
    expect(shown).to_have_attribute("data-state", "running")
    page.evaluate("window.sameDocument = true")
    stage.writers_hear()
    stage.move(row, status=Status.COMPLETED, finished_at=row.started_at + timedelta(seconds=2))  # type: ignore[operator]
    expect(shown).to_have_attribute("data-state", "completed")
    expect(shown.locator(".c-took")).to_have_text("2.0 s")
    new = stage.add(Status.DISPATCHED, task="just-sent", due=timedelta(0))
    feed.changed(stage.tenant.id, [new.id])
    expect(page.locator("tbody tr").first).to_have_attribute("data-id", str(new.id))
    expect(page.locator("#summary a[data-state=completed] b")).to_have_text("1")
    assert page.evaluate("window.sameDocument") is True


def test_a_row_never_goes_backwards(stage: Stage) -> None:
    row = stage.add(Status.RUNNING)
    page = stage.open()
    stage.writers_hear()
    shown = page.locator(f"#x-{row.id}")
    old = shown.evaluate("(e) => e.outerHTML")
    stage.move(row, status=Status.COMPLETED, finished_at=row.started_at)
    expect(shown).to_have_attribute("data-state", "completed")
    page.evaluate(
        """(id) => {
          window.states = [];
          const note = () => window.states.push(document.getElementById(id).dataset.state);
          new MutationObserver(note).observe(document.querySelector("[data-rows]"), { childList: true });
        }""",
        f"x-{row.id}",
    )
    stale = {"id": str(row.id), "version": row.version - 1, "state": "running", "insert": True, "html": old}
    fresh = stage.add(Status.RUNNING)
    stage.sockets[-1].send(json.dumps({"type": "rows", "rows": [stale], "summary": None}))
    feed.changed(stage.tenant.id, [fresh.id])
    expect(page.locator(f"#x-{fresh.id}")).to_be_visible()
    assert set(page.evaluate("window.states")) == {"completed"}


def test_new_rows_wait_for_a_reader_who_has_scrolled(stage: Stage) -> None:
    for n in range(60):
        stage.add(Status.COMPLETED, due=timedelta(seconds=-60 - n))
    page = stage.open()
    stage.writers_hear()
    page.evaluate("window.scrollTo(0, 900)")
    top = page.evaluate("document.elementFromPoint(700, 400).closest('tr').id")
    new = stage.add(Status.RUNNING, task="new-one")
    feed.changed(stage.tenant.id, [new.id])
    button = page.locator("[data-held]")
    expect(button).to_have_text("1 new")
    assert page.locator(f"#x-{new.id}").count() == 0
    assert page.evaluate("document.elementFromPoint(700, 400).closest('tr').id") == top
    button.click()
    expect(page.locator(f"#x-{new.id}")).to_be_in_viewport()
    expect(button).to_be_hidden()


def test_a_lost_socket_is_said_and_made_good(stage: Stage) -> None:
    row = stage.add(Status.RUNNING)
    page = stage.open()
    stage.sockets[-1].close(code=4000)
    expect(page.locator("[data-live]")).to_have_attribute("data-live", "reconnecting")
    change(row, status=Status.COMPLETED, finished_at=row.started_at)
    stage.is_live(page)
    expect(page.locator(f"#x-{row.id}")).to_have_attribute("data-state", "completed")
    banner = page.locator("[data-away]")
    stage.sockets[-1].close(code=NO_PLACE)
    expect(banner).to_contain_text("more pages open live than one person may have")
    stage.is_live(page)
    expect(banner).to_be_hidden()
    Session.objects.all().delete()
    stage.sockets[-1].close(code=NOT_FOUND)
    expect(banner).to_contain_text("not logged in any more")
    stage.complaints.clear()  # of sockets that were refused


def test_a_body_beyond_measure_is_refused_before_it_is_read(site: str) -> None:
    asked = HTTPConnection(site.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    asked.putrequest("POST", "/api/v1/tasks")
    asked.putheader("Content-Length", str(10**11))
    asked.endheaders(b"{")
    assert asked.getresponse().status == 413
    asked = HTTPConnection(site.removeprefix("http://"), timeout=PATIENCE_SECONDS)
    with suppress(ConnectionError):  # it may be gone before all is sent
        asked.request("POST", "/api/v1/tasks", iter([b" " * 2**20] * 17), encode_chunked=True)
    assert asked.getresponse().status == 413


def test_hostile_names_do_nothing(stage: Stage) -> None:
    row = stage.add(Status.DEAD_LETTER, task=HOSTILE, error={"type": HOSTILE, "message": HOSTILE})
    page = stage.open()
    stage.writers_hear()
    stage.move(row, attempt=4)
    expect(page.locator(f"#x-{row.id}")).to_have_attribute("data-version", str(row.version))
    page.locator(f"#x-{row.id} a").click()
    stage.is_live(page)
    assert "owned" not in page.title().split("·")[-1]
    assert page.locator("main img").count() == 0


def test_keys_theme_and_zone(stage: Stage) -> None:
    first = stage.add(Status.RUNNING, task="alpha")
    second = stage.add(Status.COMPLETED, task="beta", due=timedelta(minutes=-5))
    page = stage.open()
    expect(page.locator("[data-clock]")).to_contain_text("Asia/Tokyo")
    page.keyboard.press("j")
    expect(page.locator(f"#x-{first.id} a")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#x-{second.id} a")).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator(f"#x-{first.id} a")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("bet")
    expect(page.locator(f"#x-{first.id}")).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions/?q=bet")
    stage.is_live(page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/executions/{second.id}/")
    page.keyboard.press("u")
    page.wait_for_url(f"**/t/{stage.tenant.slug}/executions/")
    page.locator("[data-theme-toggle]").click()
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_an_execution_page_follows_its_execution(stage: Stage) -> None:
    row = stage.add(Status.RUNNING, task="followed")
    page = stage.open()
    page.locator(f"#x-{row.id} a").click()
    stage.is_live(page)
    stage.writers_hear()
    stage.move(row, status=Status.COMPLETED, finished_at=row.started_at, result={"rows": 1204})
    expect(page.locator("#f-head .word")).to_have_text("completed")
    expect(page.locator("#f-data")).to_contain_text("1204")
    expect(page.get_by_role("button", name="Run again")).to_be_visible()
    expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
    old = {"head": '<div class="title" data-row-version="1" data-standing="">older</div>'}
    stage.sockets[-1].send(json.dumps({"type": "snapshot", "version": 99, "pieces": old}))
    stage.sockets[-1].send(json.dumps({"type": "pieces", "version": 100, "pieces": {"why": "<p>newer</p>"}}))
    expect(page.locator("#f-why")).to_have_text("newer")
    expect(page.locator("#f-head .word")).to_have_text("completed")


def test_a_list_is_narrowed_kept_chosen_from_and_acted_on(stage: Stage) -> None:
    rows = [stage.add(Status.SCHEDULED, task="bulk", due=timedelta(seconds=-60 - n)) for n in range(103)]
    other = stage.add(Status.SCHEDULED, task=HOSTILE)
    page = stage.open()
    page.locator("summary", has_text="Class").click()
    page.get_by_role("link", name="standard").click()
    page.wait_for_url("**/executions/?class=standard")
    page.locator("input[name=q]").first.fill("bulk")
    page.keyboard.press("Enter")
    page.wait_for_url("**/executions/?q=bulk&class=standard")
    stage.is_live(page)
    page.locator("summary", has_text="Saved").click()
    page.locator("[data-saved-form] input").fill(HOSTILE)
    page.keyboard.press("Enter")
    page.goto(f"{stage.url}/t/{stage.tenant.slug}/executions/")
    stage.is_live(page)
    page.locator("summary", has_text="Saved").click()
    page.locator("[data-saved-list] a").click()
    page.wait_for_url("**/executions/?q=bulk&class=standard")
    stage.is_live(page)

    stage.writers_hear()
    stage.move(rows[0], attempt=1)
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator("[data-bulk-words]")).to_have_text("1 chosen")
    stage.move(rows[0], attempt=2)
    shown = page.locator(f"#x-{rows[0].id}")
    expect(shown).to_have_attribute("data-version", str(rows[0].version))
    expect(shown.locator("[data-pick]")).to_be_checked()
    page.get_by_role("button", name="Cancel…").click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("h2")).to_contain_text("Cancel 1 execution")
    dialog.locator("[data-go]").click()
    expect(page.locator("[data-toast]")).to_have_text("1 cancelled")
    expect(shown).to_have_attribute("data-state", "cancelled")

    page.get_by_role("button", name="Cancel…").click()
    expect(dialog.locator("[data-count]")).to_have_text("102")
    expect(dialog.locator("[data-go]")).to_be_disabled()
    change(rows[1], status=Status.COMPLETED)
    dialog.locator("[data-typed] input").fill("cancel 102")
    dialog.locator("[data-go]").click()
    expect(dialog.locator("[data-refused] p")).to_have_text("101 cancelled, 1 had moved on by then")
    page.keyboard.press("Escape")
    assert Execution.objects.filter(tenant=stage.tenant, status=Status.SCHEDULED).get().id == other.id


def test_a_page_of_an_execution_prints_on_one_sheet(stage: Stage) -> None:
    row = stage.add(Status.DEAD_LETTER, error={"type": "E", "message": "m", "traceback": "line\n" * 200})
    for n in range(40):
        stage.ledger.event(row, target=Status.SCHEDULED, reason=f"event {n}")
    page = stage.open()
    page.goto(f"{stage.url}/t/{stage.tenant.slug}/executions/{row.id}/")
    stage.is_live(page)
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", page.pdf(format="A4"))) == 1


@pytest.mark.parametrize(("width", "height"), [(390, 844), (768, 900), (1440, 900)])
def test_nothing_is_cut_off_at_any_width(stage: Stage, width: int, height: int) -> None:
    made = stage.ledger.one_of_each()
    stage.add(Status.COMPLETED, task="a-long-name-" * 15)
    page = stage.open(width=width, height=height, scheme="light")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    expect(page.locator(f"#x-{made[Status.RUNNING].id} a")).to_be_in_viewport()
    page.locator(f"#x-{made[Status.DEAD_LETTER].id} a").click()
    stage.is_live(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_empty_page_fills_by_itself(stage: Stage) -> None:
    page = stage.open()
    expect(page.locator("#first-task")).to_contain_text("/api/v1/tasks")
    row = stage.add(Status.RUNNING)
    expect(page.locator(f"#x-{row.id}")).to_be_visible()


def test_the_admin_works_without_eval_and_inline_script(stage: Stage) -> None:
    """Each of its pages, and what its theme does with scripts; whatever the policy stops is a complaint."""
    stage.add(Status.RUNNING)
    page = stage.open()
    User.objects.filter(memberships__tenant=stage.tenant).update(is_staff=True, is_superuser=True)
    addresses = ["/admin/", "/admin/definitions/task/", "/admin/executions/execution/", "/admin/tenants/apikey/add/"]
    for address in [*addresses, f"/admin/tenants/tenant/{stage.tenant.id}/change/", "/admin/auth/user/add/"]:
        answer = page.goto(stage.url + address)
        assert answer is not None
        assert answer.status == 200
    sidebar = page.locator("#nav-sidebar")
    page.locator("span", has_text="dock_to_right").first.click()
    expect(sidebar).to_be_hidden()
    page.reload()
    expect(sidebar).to_be_hidden()
    page.locator("span", has_text="dock_to_right").first.click()
    expect(sidebar).to_be_visible()
    page.keyboard.press("Control+e")
    expect(page.locator("html")).to_have_class(re.compile("light|dark"))
