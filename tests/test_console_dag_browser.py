"""DAGs in a real Chromium: runs that change while one looks, every button, large graphs, narrow screens."""

import json
import re
import statistics
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Locator, Page, WebSocketRoute, expect

from apps.definitions.models import Backfill
from apps.executions import feed
from apps.executions.states import Status
from apps.tenants.identity import new_uuid
from apps.tenants.models import Role, Tenant
from tests.console_dags import SALES, Dags, layered, make_member
from tests.console_ledger import now
from tests.test_console_browser import Stage, chromium, site
from tests.waiting import PATIENCE_SECONDS, eventually
from tests.web_process import nobody_reads

__all__ = ["chromium", "site"]  # fixtures
TENANT = new_uuid()
pytestmark = pytest.mark.django_db(transaction=True)


class DagStage(Stage):
    """A tenant with DAGs, and pages that remember what their sockets said."""

    def __init__(self, browser: Browser, url: str) -> None:
        # The same id in each test: writers go on hearing that somebody watches.
        super().__init__(browser, url, Tenant.objects.create(id=TENANT, slug="acme", name="acme"))
        self.dags = Dags(self.tenant)
        self.frames: list[dict[str, Any]] = []

    def visit(self, path: str, *, role: Role = Role.OPERATOR, live: bool = True, **look: Any) -> Page:
        """A page of the tenant, in a browser of its own."""
        look = {"width": 1280, "height": 800, "scheme": "dark", **look}
        context = self._browser.new_context(
            viewport={"width": look["width"], "height": look["height"]}, color_scheme=look["scheme"], timezone_id="UTC"
        )
        page = context.new_page()
        page.add_init_script(
            "document.addEventListener('securitypolicyviolation',"
            " (e) => console.error('CSP', e.violatedDirective, e.blockedURI))"
        )
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.route_web_socket(re.compile("/ws/"), self._relay)
        client = Client()
        client.force_login(make_member(self.tenant, role))
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": self.url}])
        page.goto(f"{self.url}/t/{self.tenant.slug}/{path}")
        if live:
            self.is_live(page)
            self.writers_hear()
        return page

    def _relay(self, route: WebSocketRoute) -> None:
        server = route.connect_to_server()

        def told(message: str | bytes) -> None:
            self.frames.append(json.loads(zlib.decompress(message) if isinstance(message, bytes) else message))
            route.send(message)

        server.on_message(told)
        self.sockets.append(route)

    def run(self, nodes: list[dict[str, Any]] = SALES, name: str = "nightly-sales", **fields: Any) -> UUID:
        return self.dags.start(self.dags.make(name, nodes, **fields))


@contextmanager
def staged(chromium: Browser, site: str, *, asked_for: tuple[str, ...] = ()) -> Iterator[DagStage]:
    """Whatever the browser complains of in the course of a test fails it: errors, warnings, the policy.

    asked_for: parts of the complaints about what tests bring about on purpose, such as refusals.
    """
    made = DagStage(chromium, site)
    yield made
    for context in chromium.contexts:
        context.close()
    eventually(nobody_reads)
    assert [one for one in made.complaints if not any(part in one for part in asked_for)] == []


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[DagStage]:
    with staged(chromium, site) as made:
        yield made


def box(page: Page, node: str) -> Locator:
    return page.locator(f'svg.node[data-node="{node}"]')


def has(page: Page, node: str, state: str) -> None:
    expect(box(page, node)).to_have_attribute("data-state", state)


def chosen(page: Page, node: str) -> Locator:
    """The panel of a node."""
    box(page, node).click()
    panel = page.locator("[data-panel]")
    expect(panel.locator("dl")).to_be_visible()
    expect(panel.locator("h3")).to_contain_text(node)
    return panel


def press(page: Page, label: str, *, typed: str = "", note: str = "") -> None:
    """A button, and what its dialog asks for."""
    page.get_by_role("button", name=label, exact=True).first.click()
    dialog = page.locator("#act")
    expect(dialog).to_be_visible()
    go = dialog.locator("[data-act-go]")
    if typed:
        expect(go).to_be_disabled()
        dialog.locator("[data-act-typed] input").fill(typed)
    if note:
        dialog.locator("textarea").fill(note)
    go.click()


WATCH = """() => {
  window.seen = [];
  const note = (records) => {
    for (const { target } of records) {
      window.seen.push([target.dataset.node, target.dataset.state, target.dataset.version, Date.now()]);
    }
  };
  const options = { subtree: true, attributeFilter: ["data-state"] };
  new MutationObserver(note).observe(document.querySelector("[data-world]"), options);
}"""
THIRTY: list[dict[str, Any]] = [
    {"id": "extract"},
    *({"id": f"load-{n}", "depends_on": ["extract"]} for n in range(8)),
    *({"id": f"clean-{n}", "depends_on": [f"load-{n}", f"load-{(n + 1) % 8}"]} for n in range(8)),
    {"id": "receipts", "depends_on": ["extract"], "condition": {"field": "extract.result", "equals": "receipt"}},
    {"id": "archive", "depends_on": ["receipts"]},
    *({"id": f"sum-{n}", "depends_on": [f"clean-{2 * n}", f"clean-{2 * n + 1}"]} for n in range(4)),
    *({"id": f"check-{n}", "depends_on": [f"sum-{n}"]} for n in range(4)),
    {"id": "merge", "depends_on": [f"check-{n}" for n in range(4)], "trigger_rule": "all_done"},
    {"id": "report", "depends_on": ["merge"]},
    {"id": "publish", "depends_on": ["report", "archive"], "trigger_rule": "none_failed"},
]


def test_thirty_nodes_change_live_within_a_second_of_each_commit(stage: DagStage) -> None:
    """Without polling. Each state that a commit brings comes as a frame with the node's version, and is on screen
    within 1 s, in a version above the one before.
    """
    run = stage.run(THIRTY)
    page = stage.visit(f"runs/{run}/")
    polled: list[str] = []
    page.on("request", lambda request: polled.append(request.url) if request.url.endswith("/state") else None)
    page.route(re.compile("/state"), lambda route: route.abort())
    page.evaluate(WATCH)
    committed: dict[tuple[str, str], datetime] = {}
    names = {row.node: name for name, row in stage.dags.nodes(run).items()}
    finals = {"succeeded": "succeeded", "failed": "failed", "skipped": "skipped", "upstream_failed": "upstream_failed"}

    def shows(before: dict[str, str], word: str = "") -> dict[str, str]:
        """What the last commit has changed is noted, and waited for."""
        at = now()
        states = stage.dags.states(run)
        fresh = {n: finals.get(s, "scheduled") for n, s in states.items() if s != before[n]} if not word else {}
        fresh |= {names[row.dag_node or 0]: word for row in begun} if word else {}
        for name, state in fresh.items():
            committed[name, state] = at
        page.wait_for_function(
            "(want) => Object.entries(want).every(([n, s]) =>"
            " document.querySelector(`svg.node[data-node='${n}']`).dataset.state === s)",
            arg=fresh,
            timeout=PATIENCE_SECONDS * 1000,
        )
        return states

    states = stage.dags.states(run)
    assert len(states) == 30
    while begun := stage.dags.waiting(run):
        stage.dags.begin(begun)
        states = shows(states, "running")
        ends = {row: Status.DEAD_LETTER if names[row.dag_node or 0] == "check-2" else "invoice" for row in begun}
        stage.dags.finish(ends)
        states = shows(states)
    assert set(states.values()) == {"succeeded", "failed", "skipped"}
    seen = page.evaluate("window.seen")
    late = []
    for (name, state), at in committed.items():
        if (name, state) == ("extract", "scheduled"):
            continue
        [shown] = [when for node, word, _, when in seen if (node, word) == (name, state)]
        late.append(shown - at.timestamp() * 1000)
    assert {name for name, _ in committed} == set(states)
    print(
        f"{len(late)} changes of 30 nodes: on screen after p50 {statistics.median(late):.0f} ms,"
        f" worst {max(late):.0f} ms; {len(stage.frames)} frames"
    )
    frames = [box for frame in stage.frames if frame["type"] == "boxes" for box in frame["boxes"]]
    told = {(names[box["at"]], box["state"], ".".join(map(str, box["version"]))) for box in frames}
    assert {(name, state, version) for name, state, version, _ in seen} <= told
    for node in states:
        versions = [tuple(map(int, version.split("."))) for name, _, version, _ in seen if name == node]
        assert versions == sorted(versions)
        assert len(set(versions)) == len(versions)
    assert polled == []


def test_a_lost_socket_is_made_good_and_without_one_the_page_polls(stage: DagStage) -> None:
    run = stage.run()
    page = stage.visit(f"runs/{run}/")
    stage.sockets[-1].close(code=4000)
    expect(page.locator("[data-live]")).to_have_attribute("data-live", "reconnecting")
    stage.dags.end(run, extract={"shops": [1], "type": "receipt"})
    stage.is_live(page)
    has(page, "extract", "succeeded")
    page.route_web_socket(re.compile("/ws/"), lambda route: route.close(code=1011))
    page.reload()
    stage.dags.end(run, clean=1)
    expect(page.locator("[data-live]")).to_have_attribute("data-live", "polling")
    expect(box(page, "clean")).to_have_attribute("data-state", "succeeded")


def test_what_is_seen_of_a_run(stage: DagStage) -> None:
    """Edges, fills, the head, the timeline and the buttons follow; what comes late does not turn them back."""
    run = stage.run()
    page = stage.visit(f"runs/{run}/")
    stage.dags.end(run, extract={"shops": [1, 2, 3, 4], "type": "invoice"})
    has(page, "receipts", "skipped")
    old = next(one for one in stage.frames[0]["boxes"] if one["at"] == 0)
    stage.sockets[-1].send(json.dumps({"type": "boxes", "version": 1, "head": None, "boxes": [old]}))
    expect(page.locator('path[data-edge="untaken"]')).to_have_count(3)
    expect(page.locator('path[data-edge="taken"]')).to_have_count(2)
    rows = stage.dags.waiting(run, "score")
    stage.dags.begin(rows)
    stage.dags.finish({row: 1 for row in rows[:3]})
    score = box(page, "score")
    expect(score.locator("text").first).to_have_text("score × 4")
    expect(score.locator(".sub")).to_contain_text("3 of 4 ·")
    assert float(score.locator(".foot").get_attribute("width") or 0) == pytest.approx(81)
    expect(page.locator("#head .legend")).to_contain_text("skipped 2")
    expect(page.locator("#gantt g.row")).to_have_count(3)
    stage.dags.finish({rows[3]: Status.DEAD_LETTER})
    expect(page.get_by_role("button", name="Re-run from failed")).to_be_visible()
    has(page, "extract", "succeeded")
    assert page.get_by_role("button", name="Resume", exact=True).is_hidden()


def test_a_person_decides_from_the_panel(stage: DagStage) -> None:
    nodes: list[dict[str, Any]] = [
        {"id": "ask", "approval": {"message": "Numbers look right?"}},
        {"id": "publish", "depends_on": ["ask"]},
    ]
    run = stage.run(nodes)
    page = stage.visit(f"runs/{run}/")
    box(page, "ask").click()
    panel = page.locator("[data-panel]")
    expect(panel).to_contain_text("Numbers look right?")
    assert page.url.endswith("#node=ask")
    press(page, "Approve", note="checked by hand")
    has(page, "ask", "succeeded")
    has(page, "publish", "scheduled")
    expect(panel.get_by_role("button", name="Approve")).to_have_count(0)
    expect(panel).to_contain_text("checked by hand")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(box(page, "ask")).to_be_focused()


def test_nodes_and_runs_are_acted_on(stage: DagStage) -> None:
    """Every button of a run and of a node; those that undo work want the name typed."""
    run = stage.run()
    page = stage.visit(f"runs/{run}/")
    stage.dags.end(run, extract={"shops": [1], "type": "invoice"})
    stage.dags.end(run, clean=Status.DEAD_LETTER)
    has(page, "merge", "pending")
    box(page, "clean").click()
    expect(page.locator("[data-panel]")).to_contain_text('ValueError: amount "12,50"')
    press(page, "Mark success")
    has(page, "clean", "succeeded")
    press(page, "Mark failed", typed="clean")
    has(page, "clean", "failed")
    press(page, "Clear")
    has(page, "clean", "scheduled")
    press(page, "Skip")
    has(page, "clean", "skipped")
    press(page, "Pause")
    expect(page.locator("#head .chip")).to_contain_text("paused")
    press(page, "Resume")
    expect(page.locator("#head .chip")).to_have_count(0)
    chosen(page, "extract")
    press(page, "Clear and downstream", typed="extract")
    has(page, "extract", "scheduled")
    has(page, "clean", "pending")
    press(page, "Cancel run", typed="nightly-sales", note="wrong day")
    has(page, "publish", "cancelled")
    expect(page.locator("#head .title .word")).to_have_text("cancelled")
    press(page, "Re-run from failed")
    expect(page.locator("#head .title .word")).to_have_text("running")
    page.get_by_role("button", name="Cancel run").click()
    stage.dags.end(run, extract=Status.DEAD_LETTER)
    dialog = page.locator("#act")
    dialog.locator("[data-act-typed] input").fill("nightly-sales")
    dialog.locator("[data-act-go]").click()
    expect(dialog.get_by_role("alert")).to_contain_text("only a running one can be cancelled")
    stage.complaints = [one for one in stage.complaints if "409" not in one]  # the browser names the answer


def test_a_viewer_has_nothing_to_press(stage: DagStage) -> None:
    run = stage.run()
    page = stage.visit(f"runs/{run}/", role=Role.VIEWER)
    box(page, "extract").click()
    expect(page.locator("[data-panel] h3")).to_have_text("extract")
    assert page.locator("[data-act]").count() == 0
    stage.dags.end(run, extract=Status.DEAD_LETTER)
    has(page, "extract", "failed")


SCHEMA = {
    "type": "object",
    "required": ["day"],
    "properties": {
        "day": {"type": "string", "title": "Business day", "pattern": "^\\d{4}-\\d\\d-\\d\\d$"},
        "shops": {"type": "integer", "maximum": 9},
        "mode": {"enum": ["full", "delta"]},
    },
}


def test_a_dag_is_run_with_parameters(stage: DagStage) -> None:
    dag = stage.dags.make("nightly-sales", SALES, parameters={"mode": "delta"}, parameters_schema=SCHEMA)
    page = stage.visit(f"dags/{dag.id}/")
    expect(page.locator("[data-grid-empty]")).to_be_visible()
    page.get_by_role("button", name="Run now", exact=True).first.click()
    form = page.locator("#run-form")
    form.get_by_label("Business day").fill("soon")
    form.get_by_label("shops").fill("12")
    form.locator("button.p").click()
    expect(form.locator('[data-field="day"] em')).to_contain_text("does not match")
    expect(form.locator('[data-field="shops"] em')).to_contain_text("greater than the maximum")
    form.get_by_label("Business day").fill("2026-11-30")
    form.get_by_label("shops").fill("3")
    form.locator("button.p").click()
    page.wait_for_url("**/runs/*/")
    stage.is_live(page)
    expect(page.locator("main")).to_contain_text('"mode": "delta"')
    stage.complaints = [one for one in stage.complaints if "422" not in one]


def test_a_dag_page_follows_its_runs(stage: DagStage) -> None:
    dag = stage.dags.make("nightly-sales", SALES)
    first = stage.dags.start(dag)
    page = stage.visit(f"dags/{dag.id}/")
    expect(page.locator(f"#m-{first}")).to_have_attribute("data-state", "running")
    rows = page.locator(".grid .log-row")
    expect(rows).to_have_count(len(SALES))
    stage.dags.end(first, extract=Status.DEAD_LETTER)
    expect(page.locator(f"#m-{first}")).to_have_attribute("data-state", "failed")
    second = stage.dags.start(dag)
    expect(page.locator(".strip .mark").last).to_have_attribute("data-run", str(second))
    expect(rows.first.locator("a")).to_have_count(2)
    expect(rows.first.locator("a").first).to_have_attribute("data-state", "failed")
    press(page, "Pause", note="auditors are in")
    expect(page.locator(".title .chip").first).to_have_text("paused: auditors are in")
    press(page, "Resume")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    page.locator(".grid .log-row a").first.click()
    page.wait_for_url("**/runs/*/#node=extract")
    expect(page.locator("[data-panel] h3")).to_have_text("extract")


def test_the_list_teaches_fills_searches_and_follows(stage: DagStage) -> None:
    page = stage.visit("dags/")
    expect(page.locator(".teach")).to_contain_text("/api/v1/dags")
    expect(page.get_by_role("link", name="New DAG")).to_be_visible()
    stage.dags.make("warehouse", layered(2, 2))
    dag = stage.dags.make("nightly-sales", SALES)
    page.reload()
    stage.is_live(page)
    run = stage.dags.start(dag)
    feed.changed(stage.tenant.id, [run])
    expect(page.locator(f"#m-{run}")).to_have_attribute("data-state", "running")
    page.keyboard.press("j")
    page.keyboard.press("/")
    page.keyboard.type("ware")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dags/?q=ware")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dags/*-*/")


def test_keys_walk_the_graph(stage: DagStage) -> None:
    run = stage.run()
    page = stage.visit(f"runs/{run}/")
    box(page, "extract").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(box(page, "merge")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(box(page, "archive")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("[data-panel] h3")).to_have_text("archive")
    view = page.locator("[data-world]")
    before = view.get_attribute("style") or ""
    box(page, "archive").focus()
    page.keyboard.press("+")
    expect(view).not_to_have_attribute("style", before)


FRAMES = """() => new Promise((done) => {
  const times = [];
  let last = performance.now();
  let left = 60;
  const svg = document.querySelector("[data-drawing]");
  const { left: x, top: y } = svg.getBoundingClientRect();
  const move = (type, at) => svg.dispatchEvent(new PointerEvent(type, {
    bubbles: true, button: 0, buttons: 1, pointerId: 1, pointerType: "mouse", clientX: x + at, clientY: y + at / 3 }));
  svg.setPointerCapture = () => {};
  move("pointerdown", 600);
  const frame = (now) => {
    times.push(now - last);
    last = now;
    left -= 1;
    move("pointermove", 600 - 5 * (60 - left));
    if (left) requestAnimationFrame(frame); else { move("pointerup", 300); done(times.slice(2)); }
  };
  requestAnimationFrame(frame);
})"""


def test_five_hundred_nodes_stay_smooth(stage: DagStage) -> None:
    run = stage.run(layered(50, 10, before=3), name="five-hundred")
    page = stage.visit(f"runs/{run}/?fold=off", width=1440, height=1000)
    expect(page.locator("svg.node")).to_have_count(500)
    expect(page.locator("[data-minimap]")).to_be_visible()
    began = page.locator("[data-world]").get_attribute("style")
    times = page.evaluate(FRAMES)
    assert page.locator("[data-world]").get_attribute("style") != began
    print(f"500 nodes, dragged: a frame every {statistics.median(times):.0f} ms, worst {max(times):.0f} ms")
    rows = stage.dags.waiting(run)
    stage.dags.begin(rows)
    has(page, "n0_49", "running")
    page.get_by_role("link", name="Fold alike nodes").click()
    stage.is_live(page)
    assert page.locator("svg.node").count() < 500


def test_folded_nodes_are_opened_and_follow(stage: DagStage) -> None:
    wide: list[dict[str, Any]] = [{"id": "a"}, *({"id": f"r{n}", "depends_on": ["a"]} for n in range(70))]
    run = stage.run(wide, name="wide")
    stage.dags.end(run, a=1)
    page = stage.visit(f"runs/{run}/")
    group = page.locator("svg.node.many")
    expect(group.locator(".sub")).to_have_text("0 of 70")
    rows = stage.dags.waiting(run)
    stage.dags.begin(rows[:7])
    stage.dags.finish({row: 1 for row in rows[:7]})
    expect(group.locator(".sub")).to_have_text("7 of 70")
    group.click()
    page.wait_for_url("**?open=1")
    expect(page.locator("svg.node")).to_have_count(71)


def test_nothing_is_cut_off(stage: DagStage) -> None:
    dag = stage.dags.make("a-long-name-" * 12, SALES, description="word " * 80, tags=["finance", "nightly"])
    run = stage.dags.start(dag)
    stage.dags.end(run, extract={"shops": [1], "type": "invoice"})
    page = stage.visit("dags/")
    for path in ("dags/", f"dags/{dag.id}/", f"runs/{run}/#node=score"):
        page.goto(f"{stage.url}/t/{stage.tenant.slug}/{path}")
        for width, height in ((390, 844), (768, 900), (1440, 900)):
            page.set_viewport_size({"width": width, "height": height})
            for scheme in ("dark", "light"):
                page.emulate_media(color_scheme=scheme)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
            expect(page.get_by_role("link", name="DAGs").first).to_be_in_viewport()


def test_a_range_is_backfilled_as_it_was_seen_and_stopped(stage: DagStage) -> None:
    """By the key `b`, on a narrow screen; the bar moves by itself."""
    hourly = {"type": "cron", "expression": "0 * * * *", "timezone": "UTC"}
    dag = stage.dags.make("sales", SALES[:1], schedule=hourly)
    page = stage.visit(f"dags/{dag.id}/", width=390)
    page.keyboard.press("b")
    ahead, form, ask = page.locator("[data-ahead]"), page.locator("[data-backfill]"), page.locator("#backfill")
    expect(ahead.locator(".much").first).to_have_text("24")  # yesterday
    form.locator("[name=start]").fill("2025-06-01T00:00")
    form.locator("[name=end]").fill("2025-06-10T00:00")
    form.locator("[name=at_once]").fill("2000")
    expect(form.locator("[data-field=at_once] em")).to_contain_text("2000; legal: 1 to 1000")
    expect(form.locator("[data-go]")).to_be_disabled()
    form.locator("[name=at_once]").fill("3")
    expect(ahead.locator(".much").first).to_have_text("216")
    expect(ahead).to_contain_text("Sun 1 Jun 2025 00:00")
    form.locator("[data-go]").click()
    expect(ask).to_contain_text("Start 216 runs of sales?")
    expect(ask.locator("[data-go]")).to_be_disabled()
    ask.locator("[data-typed] input").fill("backfill 216")
    ask.locator("[data-go]").click()
    going = page.locator("#f-going")
    expect(going).to_contain_text("0 of 216")
    made = Backfill.objects.get()
    assert (made.total, made.at_once, made.created_by.startswith("user:")) == (216, 3, True)
    stage.is_live(page)
    run = stage.dags.start(dag)
    Backfill.objects.update(made=20, under_way=[run])
    expect(going).to_contain_text("19 ended, 1 under way of 3 at once")
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    press(page, "Stop", typed="sales")
    expect(page.locator("#f-ended")).to_contain_text("stopped after 20")
    expect(going).to_be_empty()
    assert stage.dags.states(run) == {"extract": "cancelled"}
