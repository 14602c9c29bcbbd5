"""Dead letters and the overview in a real Chromium: groups that change while one looks, and every button."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from uuid import UUID

import pytest
from playwright.sync_api import Browser, Page, expect

from apps.executions import feed, services
from apps.executions.models import DeadLetter, Execution, Replay
from apps.executions.states import Status
from apps.tenants.models import Role
from tests.console_letters import letter, letters
from tests.test_console_browser import chromium, site
from tests.test_console_dag_browser import DagStage, press, staged

__all__ = ["chromium", "site"]  # fixtures
GROUP = "dead-letters/?fingerprint=ValueError%3A+amount"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[DagStage]:
    with staged(chromium, site) as made:
        yield made


def bulk(page: Page, label: str, count: int, *, typed: str = "", **fields: str) -> None:
    """A button for many: its dialog says how many first."""
    page.get_by_role("button", name=label).click()
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("[data-count]")).to_have_text(str(count))
    go = dialog.locator("[data-go]")
    for name, value in fields.items():
        dialog.locator(f"[name={name}]").fill(value)
    if typed:
        expect(go).to_be_disabled()
        dialog.locator("[data-typed] input").fill(typed)
    go.click()


def left(stage: DagStage) -> int:
    return DeadLetter.objects.filter(tenant=stage.tenant).count()


def test_groups_come_grow_and_go_live(stage: DagStage) -> None:
    page = stage.visit("dead-letters/")
    expect(page.locator("main")).to_contain_text("Nothing waits for a person")
    rows = letters(stage.ledger, 2)
    feed.changed(stage.tenant.id, [row.id for row in rows])
    expect(page.locator("td.c-count")).to_have_text("2")
    page.keyboard.press("j")
    expect(page.locator("a[data-open]")).to_be_focused()
    more = letter(stage.ledger)
    feed.changed(stage.tenant.id, [more.id])
    expect(page.locator("td.c-count")).to_have_text("3")
    expect(page.locator("a[data-open]")).to_be_focused()
    late = {"type": "pieces", "version": 1, "pieces": {"list": "old"}}
    stage.sockets[-1].send(json.dumps(late))
    expect(page.locator("td.c-count")).to_have_text("3")
    page.keyboard.press("Enter")
    page.wait_for_url("**/dead-letters/?task=*")
    expect(page.locator("table.letters tbody tr")).to_have_count(3)


def test_parameters_are_mended_and_replayed(stage: DagStage) -> None:
    row = letter(stage.ledger, payload={"amount": "12,50"})
    page = stage.visit("dead-letters/")
    page.get_by_role("link", name="Edit & replay").click()
    editor = page.locator("textarea[name=parameters]")
    go = page.locator("[data-letter] [data-go]")
    editor.fill('{\n  "amount": 12.50,\n}')
    expect(page.locator("#editor-problem")).to_contain_text("line 3, column 1")
    expect(go).to_be_disabled()
    editor.fill("[]")
    expect(page.locator("#editor-problem")).to_contain_text("a JSON object")
    page.get_by_role("button", name="Undo the edits").click()
    expect(page.locator("#editor-problem")).to_be_hidden()
    editor.fill('{"amount": "\\u0000"}')
    go.click()
    expect(page.locator("#editor-problem")).to_contain_text("/parameters/amount")
    editor.fill('{"amount": "12.50"}')
    expect(go).to_have_text("Replay with these parameters")
    page.route("**/act/replay", lambda route: (route.fetch(), route.abort()), times=1)  # done, and the answer is lost
    go.click()
    expect(page.locator("#editor-problem")).to_contain_text("cannot be reached")
    editor.fill('{"amount": "99"}')
    go.click()
    expect(page.locator("#editor-problem")).to_contain_text("was done already, as the form read")
    editor.fill('{"amount": "12.50"}')
    go.click()
    page.wait_for_url(f"**/executions/{row.id}/")
    expect(page.locator("main")).to_contain_text('"amount": "12.50"')
    known = ("422", "409", "ERR_FAILED")
    stage.complaints = [one for one in stage.complaints if not any(word in one for word in known)]


def test_a_few_go_ahead_and_come_home(stage: DagStage) -> None:
    rows = letters(stage.ledger, 5)
    page = stage.visit(GROUP)
    bulk(page, "Replay a few…", 5, few="2")
    page.wait_for_url("**canary=*")
    watched = page.locator("table.watched tbody tr")
    expect(watched).to_have_count(2)
    stage.is_live(page)
    found = Execution.objects.with_id(rows[0].id).get()
    stage.move(found, status=Status.COMPLETED, wake_at=None, finished_at=found.run_at + timedelta(seconds=1))
    expect(page.locator(f"#x-{found.id}")).to_have_attribute("data-state", "completed")
    expect(page.locator("table.letters tbody tr")).to_have_count(3)


def test_all_go_round_and_are_stopped(stage: DagStage) -> None:
    letters(stage.ledger, 3)
    page = stage.visit(GROUP)
    bulk(page, "Replay all…", 3, typed="replay 3", per_second="1")
    expect(page.locator("[data-toast]")).to_contain_text("3 go round again, 1 a second")
    expect(page.locator("#f-going")).to_contain_text("0 of 3")
    made = Replay.objects.get()
    Replay.objects.update(replayed=2)
    expect(page.locator("#f-going")).to_contain_text("2 of 3")
    press(page, "Stop")
    expect(page.locator("#f-going .word")).to_have_text("stopped")
    made.refresh_from_db()
    assert made.state == "stopped"


def test_one_and_all_are_discarded_with_a_reason(stage: DagStage) -> None:
    rows = letters(stage.ledger, 4)
    page = stage.visit(f"dead-letters/{rows[0].id}/", live=False)
    press(page, "Discard…", note="seen to by hand")
    page.wait_for_url("**/dead-letters/")
    stage.is_live(page)
    expect(page.locator("td.c-count")).to_have_text("3")
    bulk(page, "Discard all…", 3, note="the shop is closed", typed="discard 3")
    expect(page.locator("[data-toast]")).to_have_text("3 discarded")
    expect(page.locator("main")).to_contain_text("Nothing waits for a person")
    assert left(stage) == 0


def test_rows_are_chosen_by_click_stretch_and_key_and_acted_on(stage: DagStage) -> None:
    """What changes live keeps what was chosen; what has left the page is not chosen any more."""
    rows = letters(stage.ledger, 6)
    page = stage.visit("dead-letters/?show=each")
    bar, boxes = page.locator("[data-bulk-bar]"), page.locator("tbody [data-pick]")
    expect(bar).to_be_hidden()
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(bar.locator("[data-bulk-words]")).to_have_text("3 chosen")
    page.locator("tbody a[data-open]").nth(4).focus()
    page.keyboard.press("Shift+X")
    expect(bar.locator("[data-bulk-words]")).to_have_text("5 chosen")
    page.keyboard.press("x")
    expect(bar.locator("[data-bulk-words]")).to_have_text("4 chosen")
    shown = boxes.evaluate_all("all => all.map(one => one.dataset.pick)")
    services.discard(principal=stage.dags.who, execution_id=UUID(shown[0]), reason="elsewhere")
    expect(bar.locator("[data-bulk-words]")).to_have_text("3 chosen")
    assert (
        page.locator("tbody [data-pick]:checked").evaluate_all("all => all.map(one => one.dataset.pick)") == shown[1:4]
    )
    page.keyboard.press("r")
    dialog = page.locator("dialog[open]")
    expect(dialog.locator("[data-count]")).to_have_text("3")
    expect(dialog.get_by_label("as the task is now")).to_be_checked()
    dialog.get_by_label("as it was then").check()
    dialog.locator("[data-go]").click()
    expect(page.locator("[data-toast]")).to_contain_text("3 go round again, 50 a second")
    expect(bar).to_be_hidden()
    made = Replay.objects.get()
    assert (sorted(made.filter["ids"]), made.current_version) == (sorted(shown[1:4]), False)
    page.locator("[data-pick-all]").check()
    services.discard(principal=stage.dags.who, execution_id=rows[5].id, reason="elsewhere")
    expect(bar.locator("[data-bulk-words]")).to_have_text("4 chosen")
    bulk(page, "Discard the chosen…", 4, note="by hand", typed="discard 4")
    expect(page.locator("[data-toast]")).to_have_text("4 discarded")
    assert left(stage) == 0


@pytest.mark.drill
def test_wrong_figures_and_words_do_nothing(stage: DagStage) -> None:
    letters(stage.ledger, 2)
    page = stage.visit(GROUP)
    bulk(page, "Replay a few…", 2, few="99")
    problem = page.locator("dialog[open] [data-problem]")
    expect(problem).to_contain_text("not a whole number in its range")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Discard all…").click()
    dialog = page.locator("dialog[open]")
    dialog.locator("[data-typed] input").fill("discard 2")
    expect(dialog.locator("[data-go]")).to_be_disabled()  # without a reason
    dialog.locator("textarea").fill("why")
    dialog.locator("[data-typed] input").fill("discard 3")
    expect(dialog.locator("[data-go]")).to_be_disabled()
    assert left(stage) == 2
    stage.complaints = [one for one in stage.complaints if "422" not in one]


def test_the_overview_follows_what_happens(stage: DagStage) -> None:
    page = stage.visit("", role=Role.VIEWER)
    expect(page.locator("main")).to_contain_text("Nothing has been due yet")
    row = stage.add(Status.RUNNING, task="sales-merge")
    feed.changed(stage.tenant.id, [row.id])
    shown = page.locator(f"#x-{row.id}")
    expect(shown).to_have_attribute("data-state", "running")
    page.locator("#jitter-off").check(force=True)
    stage.move(row, status=Status.COMPLETED, finished_at=row.run_at + timedelta(seconds=2))
    expect(shown).to_have_attribute("data-state", "completed")
    dead = letter(stage.ledger)
    feed.changed(stage.tenant.id, [dead.id])
    expect(page.locator("#f-letters")).to_contain_text("ValueError")
    expect(page.locator("#jitter-off")).to_be_checked()
    page.locator("#f-letters .mono").click()
    page.wait_for_url("**/dead-letters/?task=*")


@pytest.mark.drill
def test_without_a_socket_the_overview_polls(stage: DagStage) -> None:
    page = stage.visit("")
    page.route_web_socket(re.compile("/ws/"), lambda route: route.close(code=1011))
    page.reload()
    row = stage.add(Status.RUNNING)
    expect(page.locator("[data-live]")).to_have_attribute("data-live", "polling")
    expect(page.locator(f"#x-{row.id}")).to_be_visible()


@pytest.mark.drill
@pytest.mark.parametrize("path", ["", "dead-letters/", GROUP, "dead-letters/{id}/"])
def test_narrow_pages_do_not_scroll_sideways(stage: DagStage, path: str) -> None:
    identity: UUID = letters(stage.ledger, 3)[0].id
    stage.ledger.one_of_each()
    page = stage.visit(path.format(id=identity), width=390, live=False)
    expect(page.locator("main")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
