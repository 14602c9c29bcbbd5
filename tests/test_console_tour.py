"""Every page of the console, looked at: by axe in light and dark, and by people in pictures.

`CONSOLE_PICTURES` names a folder for the pictures; without it none are kept. `make pictures` takes them all.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser, Page

from apps.executions import feed
from apps.tenants.models import Role, Tenant
from tests.admin_tour import admin_pages, furnish
from tests.console_dags import make_member
from tests.console_tour import Stop, pages_of
from tests.console_world import World, make_hostile, make_large, make_lone, make_world
from tests.test_console_browser import chromium, site
from tests.waiting import eventually
from tests.web_process import nobody_reads

__all__ = ["chromium", "site"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
PICTURES = Path(os.environ["CONSOLE_PICTURES"]) if os.environ.get("CONSOLE_PICTURES") else None
WIDE, NARROW = (1440, 1000), (390, 844)
ALL = "{resultTypes: ['violations']}"
COLOURS = "{resultTypes: ['violations'], runOnly: ['color-contrast']}"
"""What a theme changes; the rest of a page is the same in both."""


class Tourist:
    """A browser of one person, which visits pages in both themes."""

    def __init__(self, browser: Browser, url: str, tenant: Tenant, person: User | None = None) -> None:
        self.browser, self.url, self.tenant = browser, url, tenant
        self.client = Client()
        self.client.force_login(person or make_member(tenant, Role.OPERATOR))

    def _cookie(self) -> Any:
        name = settings.SESSION_COOKIE_NAME
        return {"name": name, "value": self.client.cookies[name].value, "url": self.url}

    def page(self, width: int = WIDE[0], height: int = WIDE[1]) -> Page:
        """Of somebody who is logged in."""
        context = self.browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="light", timezone_id="Europe/Paris",
            reduced_motion="reduce", bypass_csp=True,
        )  # fmt: skip
        context.add_cookies([self._cookie()])
        return context.new_page()

    def go(self, page: Page, stop: Stop) -> None:
        """Until what the page fetches has come."""
        if "#" in stop.path:
            page.goto("about:blank")  # else only the hash would change
        if stop.name == "login":
            page.context.clear_cookies()  # who is known is sent on
        page.goto(self.url + stop.path)
        if stop.name == "login":
            page.context.add_cookies([self._cookie()])
        page.wait_for_function("!document.querySelector('[aria-busy=true]')")


@pytest.fixture
def world() -> World:
    return make_world()


@pytest.fixture
def tourist(chromium: Browser, site: str, world: World) -> Iterator[Tourist]:
    yield Tourist(chromium, site, world.tenant)
    for context in chromium.contexts:
        context.close()
    eventually(nobody_reads)
    feed.close()


def findings(page: Page, options: str) -> list[str]:
    """What axe says that keeps people out, each with where."""
    found: dict[str, Any] = page.evaluate(f"axe.run(document, {options})")
    return [
        f"{one['id']} ({one['impact']}): {node['target']} {node['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def keep(page: Page, name: str) -> None:
    if PICTURES:
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(PICTURES / f"{name}.png"), full_page=True)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.drill)])
def test_no_page_keeps_people_out(tourist: Tourist, world: World, more: bool) -> None:
    """Each page of the resolver, in light and dark; more: those that differ from their route's first one, too.

    Where pictures are kept, at two widths; then nothing may stick out of a page, either.
    """
    stops = pages_of(world, tourist.client, more=more)
    assert len(stops) > 12
    root = Tourist(tourist.browser, tourist.url, world.tenant, furnish(world))
    of_admin = admin_pages(root.client, more=more)
    problems = looked_at(tourist, stops) + looked_at(root, of_admin)
    if PICTURES and not more:
        problems += take(tourist, stops) + take(root, of_admin)
    assert not problems, "\n".join(problems)


def looked_at(tourist: Tourist, stops: list[Stop]) -> list[str]:
    """What axe says of these pages."""
    page, problems = tourist.page(), []
    for stop in stops:
        tourist.go(page, stop)
        page.evaluate(AXE)
        page.emulate_media(color_scheme="light")
        problems += [f"{stop.name}: {one}" for one in findings(page, ALL)]
        page.emulate_media(color_scheme="dark")
        problems += [f"{stop.name}, dark: {one}" for one in findings(page, COLOURS)]
    return problems


@pytest.mark.parametrize(("key", "opened"), [("Control+k", "#palette[open]"), ("?", "#help[open]")])
def test_what_opens_over_a_page_keeps_nobody_out(tourist: Tourist, world: World, key: str, opened: str) -> None:
    page, problems = tourist.page(), []
    tourist.go(page, Stop("tasks", f"/t/{world.tenant.slug}/tasks/"))
    page.evaluate(AXE)
    page.keyboard.press(key)
    page.wait_for_selector(opened)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        problems += [f"{scheme}: {one}" for one in findings(page, ALL)]
    assert not problems, "\n".join(problems)


@pytest.mark.drill
@pytest.mark.timeout(1800)
def test_pictures(tourist: Tourist, world: World, chromium: Browser, site: str) -> None:
    """Every page and state at two widths in both themes, for people to look at; nothing sticks out of a page."""
    slug = world.tenant.slug
    shots = pages_of(world, tourist.client)
    wide = take(tourist, shots)
    large = f"/t/{slug}/runs/{make_large(world)}/"
    wide += take(tourist, [Stop("run-500-folded", large), Stop("run-500", f"{large}?fold=off")])
    empty = Tourist(chromium, site, Tenant.objects.create(slug="empty", name="empty"))
    wide += take(empty, lists(slug, shots, "empty"))
    lone = Tourist(chromium, site, Tenant.objects.create(slug="one", name="one"))
    make_lone(lone.tenant)
    wide += take(lone, lists(slug, shots, "one"))
    hostile = make_hostile()
    other = Tourist(chromium, site, hostile.tenant)
    wide += take(other, [Stop(f"hostile-{s.name}", s.path) for s in pages_of(hostile, other.client, more=False)])
    root = Tourist(chromium, site, world.tenant, furnish(world))
    wide += take(root, admin_pages(root.client))
    assert not wide


def lists(slug: str, stops: list[Stop], instead: str) -> list[Stop]:
    """The pages that need nothing but a tenant, of another one."""
    plain = [stop for stop in stops if re.fullmatch(f"/t/{slug}/([\\w-]+/)?", stop.path)]
    return [Stop(f"{instead}-{stop.name}", stop.path.replace(f"/t/{slug}/", f"/t/{instead}/")) for stop in plain]


def take(tourist: Tourist, stops: list[Stop]) -> list[str]:
    """Pictures of these pages; returns those that are wider than their window."""
    found = []
    for width, height in (WIDE, NARROW):
        page = tourist.page(width, height)
        for stop in stops:
            tourist.go(page, stop)
            page.wait_for_function("!document.querySelector('[data-live=connecting]')")
            is_wide = page.evaluate("document.documentElement.scrollWidth") > width
            found += [f"{stop.name} at {width}"] if is_wide else []
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)
                keep(page, f"{stop.name}-{scheme}-{width}")
    return found
