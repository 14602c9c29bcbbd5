"""The log on an execution's page, in a real Chromium: big, live, coloured, and still where the reader left it."""

import json
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connection
from playwright.sync_api import Page, expect

from apps.executions.models import Attempt, Execution
from apps.executions.states import Outcome, Status
from apps.logs.daemon import LogShipper
from apps.logs.records import Batch
from apps.logs.transport import Taken, make_publisher
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import config
from tests.console_dags import TOKEN as NODE_TOKEN
from tests.console_dags import Dags
from tests.console_ledger import TOKEN, now
from tests.test_console_browser import Stage, chromium, stage
from tests.waiting import eventually
from tests.web_process import serving

__all__ = ["chromium", "stage"]  # fixtures

pytestmark = pytest.mark.django_db(transaction=True)
BATCH = 2000


@pytest.fixture(scope="module")
def site(django_db_setup: None) -> Iterator[str]:
    """The web process, with Redis as the transport."""
    with serving(KAFKA_BOOTSTRAP_SERVERS="") as url:
        yield url


class Writer:
    """Writes an execution's lines into the transport and has them shipped, as worker and shipper do."""

    def __init__(self, row: Execution, token: int = TOKEN) -> None:
        url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
        addresses = Addresses(url, url, os.environ["REDIS_URL"], "")
        self.row = row
        self.token = token
        self.attempt = 1
        self.written = b""
        self.last = 0
        self._publisher = make_publisher(addresses, config())
        self._shipper = LogShipper(config(), addresses)

    def write(self, *texts: str, stream: str = "stdout", ended: bool = False, **more: Any) -> None:
        rows = [
            json.dumps({"attempt": self.attempt, "seq": self.last + n, "time": "2026-01-01T00:00:00.000000Z",
                        "stream": stream, "text": text, **more}, ensure_ascii=False)
            for n, text in enumerate(texts, 1)
        ]  # fmt: skip
        lines = "".join(f"{row}\n" for row in rows).encode()
        first, self.last = self.last + 1, self.last + len(rows)
        batch = Batch(self.row.id.bytes, self.token, self.attempt, first, self.last, 1, 1, lines, ended)

        def taken() -> bool:
            if self._publisher.publish([batch]) == [Taken.YES]:
                return True
            self._shipper.run_once()
            return False

        eventually(taken)
        self.written += lines

    def again(self) -> None:
        """Its next attempt writes from here on."""
        self.attempt, self.token, self.last = self.attempt + 1, self.token + 1, 0

    def close(self) -> None:
        self._publisher.close()
        self._shipper.close()


@pytest.fixture
def writer(stage: Stage) -> Iterator[Writer]:
    made = Writer(stage.add(Status.RUNNING, task="chatty"))
    yield made
    made.close()


def open_log(stage: Stage, writer: Writer) -> Page:
    page = stage.open()
    page.goto(f"{stage.url}/t/{stage.tenant.slug}/executions/{writer.row.id}/")
    expect(page.locator("[data-log-state]")).to_have_text("live")
    return page


def rows(page: Page) -> list[str]:
    """The texts of the rows in sight, in order."""
    return page.evaluate(
        "() => { const box = document.querySelector('[data-log-lines]').getBoundingClientRect();"
        " return [...document.querySelectorAll('.log-row')].map((row) => [row.getBoundingClientRect().top, row])"
        " .filter(([top]) => top >= box.top - 1 && top < box.bottom - 17).sort((a, b) => a[0] - b[0])"
        " .map(([, row]) => row.querySelector('span').textContent); }"
    )


def scroll(page: Page, line: int) -> None:
    page.evaluate("(line) => { document.querySelector('[data-log-lines]').scrollTop = line * 18; }", line)
    page.wait_for_function("(line) => document.querySelector('[data-log-lines]').scrollTop === line * 18", arg=line)


def test_200_000_lines_stay_smooth_and_the_reader_keeps_the_place(stage: Stage, writer: Writer) -> None:
    page = open_log(stage, writer)
    counted = page.locator("[data-log-count]")
    page.evaluate(
        "() => { window.slowest = 0; let last = performance.now(); const frame = (t) => {"
        " window.slowest = Math.max(window.slowest, t - last); last = t; requestAnimationFrame(frame); };"
        " requestAnimationFrame(frame); }"
    )
    for start in range(0, 200_000, BATCH):
        writer.write(*(f"line {n} of many" for n in range(start, start + BATCH)))
    expect(counted).to_have_text("200,000 lines")
    # Follows the end, and holds no more rows than are in sight.
    eventually(lambda: rows(page)[-1:] == ["line 199999 of many"])
    assert page.locator(".log-row").count() < 100
    print(f"the slowest frame took {page.evaluate('() => window.slowest'):.0f} ms")
    # Who scrolls up stays where they are, whatever comes.
    scroll(page, 100_000)
    eventually(lambda: rows(page)[:1] == ["line 100000 of many"])
    expect(page.locator("[data-log-follow]")).not_to_be_checked()
    writer.write(*(f"line {n} of many" for n in range(200_000, 200_100)))
    stage.move(writer.row, finished_at=None)  # the page above is drawn anew
    expect(counted).to_have_text("200,100 lines")
    assert rows(page)[0] == "line 100000 of many"
    # A search shows what contains the words.
    page.locator("[data-log-search]").fill("LINE 1999")
    expect(page.locator("[data-log-found]")).to_have_text("111 found")
    scroll(page, 0)
    eventually(lambda: rows(page)[:1] == ["line 1999 of many"])
    assert page.locator(".log-row mark").first.text_content() == "line 1999"
    page.locator("[data-log-search]").fill("")
    expect(page.locator("[data-log-found]")).to_have_text("")
    eventually(lambda: rows(page)[:1] == ["line 100000 of many"])
    page.locator("[data-log-follow]").check()
    eventually(lambda: rows(page)[-1:] == ["line 200099 of many"])
    # The download is what was written.
    answer = page.request.get(f"{stage.url}/t/{stage.tenant.slug}/executions/{writer.row.id}/logs/download")
    assert answer.body() == writer.written


def test_colours_long_lines_and_hostile_ones(stage: Stage, writer: Writer) -> None:
    page = open_log(stage, writer)
    writer.write("\x1b[1;31mred\x1b[0m plain \x1b[2K", "1 %\r\u202e100 %", "<img src=x onerror=document.title='owned'>")
    writer.write("y" * 1_000_000)
    writer.write("bad", stream="log", level="error", fields={"rows": 3})
    expect(page.locator("[data-log-count]")).to_have_text("5 lines")
    eventually(lambda: rows(page)[:3] == ["red plain ", "100 %", "<img src=x onerror=document.title='owned'>"])
    assert page.locator(".log-row .a31.a1").text_content() == "red"
    eventually(lambda: [len(row) for row in rows(page)[3:4]] == [2000])
    page.get_by_role("button", name="all 1,000,000 characters").click()
    assert page.locator("dialog.log-line-whole pre").text_content() == "y" * 1_000_000
    page.locator("dialog.log-line-whole").get_by_role("button", name="Close").click()
    last = page.locator(".log-row[data-stream=log]")
    assert last.text_content() == f'5{last.locator("time").text_content()}errorbad {{"rows":3}}'
    assert "owned" not in page.title()


def test_the_end_is_told_and_a_reload_shows_all_again(stage: Stage, writer: Writer) -> None:
    page = open_log(stage, writer)
    writer.write("first", "second")
    expect(page.locator("[data-log-count]")).to_have_text("2 lines")
    writer.write("third", ended=True)
    moment = now()
    Attempt.objects.create(
        scheduled_at=writer.row.scheduled_at, execution_id=writer.row.id, attempt=1, token=TOKEN, tenant=stage.tenant,
        worker_id=7, outcome=Outcome.SUCCEEDED, due_at=moment, started_at=moment, finished_at=moment,
    )  # fmt: skip
    stage.move(writer.row, status=Status.COMPLETED, finished_at=moment)
    expect(page.locator("[data-log-state]")).to_have_text("ended")
    assert rows(page) == ["first", "second", "third"]
    page.reload()
    expect(page.locator("[data-log-state]")).to_have_text("ended")
    assert rows(page) == ["first", "second", "third"]


def test_a_silent_execution_says_so(stage: Stage) -> None:
    done = stage.add(Status.COMPLETED, task="silent")
    page = stage.open()
    page.goto(f"{stage.url}/t/{stage.tenant.slug}/executions/{done.id}/")
    expect(page.locator("[data-log-state]")).to_have_text("nothing was printed")


OPEN_TAILS = "() => window.tails.filter((tail) => tail.readyState !== EventSource.CLOSED).map((tail) => tail.url)"


def test_the_panel_of_a_node_follows_the_log_of_the_item_that_is_chosen(stage: Stage) -> None:
    dags = Dags(stage.tenant)
    score = {"id": "score", "depends_on": ["list"], "map_over": "list.result.shops"}
    run = dags.start(dags.make("sales", [{"id": "list"}, score, {"id": "after", "depends_on": ["score"]}]))
    dags.end(run, list={"shops": ["a", "b"]})
    items = dags.waiting(run, "score")
    dags.begin(items)
    first, second = (Writer(row, NODE_TOKEN) for row in items)
    page = stage.open(width=390)
    page.add_init_script(
        "window.tails = []; window.EventSource = class extends EventSource {"
        " constructor(url) { super(url); window.tails.push(this); } };"
    )
    page.clock.install()
    page.goto(f"{stage.url}/t/{stage.tenant.slug}/runs/{run}/#node=score")
    panel = page.locator("[data-panel]")
    state, counted, which = (panel.locator(f"[data-log-{name}]") for name in ("state", "count", "of"))
    expect(state).to_have_text("live")
    expect(which.locator("option")).to_have_text(["item 0 · running", "item 1 · running"])
    first.write("\x1b[32mgreen\x1b[0m", "<img src=x onerror=document.title='owned'>")
    second.write("of the other")
    expect(counted).to_have_text("2 lines")
    eventually(lambda: rows(page) == ["green", "<img src=x onerror=document.title='owned'>"])
    assert panel.locator(".log-row .a32").text_content() == "green"
    # Another attempt comes behind it, and may be looked at alone.
    first.again()
    first.write("once more")
    expect(counted).to_have_text("4 lines")
    panel.locator("[data-log-attempt]").select_option("attempt 2")
    eventually(lambda: rows(page) == ["attempt 2", "once more"])
    # What is said of the node anew leaves the log and the place in it alone.
    search = panel.locator("[data-log-search]")
    search.focus()
    dags.finish({items[0]: 1})
    expect(which.locator("option")).to_have_text(["item 0 · completed", "item 1 · running"])
    eventually(lambda: rows(page) == ["attempt 2", "once more"])
    expect(search).to_be_focused()
    which.select_option("item 1 · running")
    eventually(lambda: rows(page) == ["of the other"])
    assert page.evaluate(OPEN_TAILS) == [
        f"{stage.url}/t/{stage.tenant.slug}/executions/{items[1].id}/logs?grouped=true"
    ]
    expect(panel.locator("[data-log-full]")).to_have_attribute("href", re.compile(f"/executions/{items[1].id}/#log"))
    # A tab that nobody looks at asks for nothing; looked at again, it goes on behind the last line.
    away = "(away) => { Object.defineProperty(document, 'hidden', { value: away, configurable: true });"
    page.evaluate(f"{away} document.dispatchEvent(new Event('visibilitychange')); }}", True)
    page.clock.fast_forward(16_000)
    expect(state).to_have_text("paused")
    assert page.evaluate(OPEN_TAILS) == []
    second.write("meanwhile")
    page.evaluate(f"{away} document.dispatchEvent(new Event('visibilitychange')); }}", False)
    expect(counted).to_have_text("2 lines")
    eventually(lambda: rows(page) == ["of the other", "meanwhile"])
    # Closing the panel ends it; a node without an execution has no log.
    panel.get_by_role("button", name="close").click()
    assert page.evaluate(OPEN_TAILS) == []
    page.locator('svg.node[data-node="after"]').click()
    expect(panel.locator("h3")).to_have_text("after")
    expect(panel.locator("[data-log]")).to_be_hidden()
    assert page.evaluate(OPEN_TAILS) == []
    assert "owned" not in page.title()
    for one in (first, second):
        one.close()
