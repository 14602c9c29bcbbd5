"""Tasks in a real Chromium: the form that checks as one types, the buttons, many at once, narrow screens."""

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from apps.definitions import services
from apps.definitions.dags import making
from apps.definitions.models import Dag, Task
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.models import Role
from tests.console_ledger import HOSTILE, Ledger
from tests.test_console_browser import chromium, site
from tests.test_console_dag_browser import DagStage, staged
from tests.test_console_task_pages import make, make_many, who
from tests.waiting import eventually

__all__ = ["chromium", "site"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)
PICTURES = os.environ.get("CONSOLE_PICTURES")
"""A folder for pictures of each page; none are made without it."""


@pytest.fixture
def stage(chromium: Browser, site: str) -> Iterator[DagStage]:
    with staged(chromium, site, asked_for=("status of 4",)) as made:
        yield made


def visit(stage: DagStage, path: str, role: Role = Role.OPERATOR, **look: Any) -> Page:
    return stage.visit(path, role=role, live=False, **look)


def field(page: Page, pointer: str) -> Locator:
    """A field of the form."""
    return page.locator(f'[name="{pointer}"]')


def press(page: Page, label: str, *, typed: str = "", note: str = "") -> None:
    page.get_by_role("button", name=label, exact=True).first.click()
    dialog = page.locator("#act")
    if typed:
        expect(dialog.locator("[data-act-go]")).to_be_disabled()
        dialog.locator("[data-act-typed] input").fill(typed)
    if note:
        dialog.locator("textarea").fill(note)
    dialog.locator("[data-act-go]").click()


def test_a_task_is_made_while_the_form_says_what_it_would_do(stage: DagStage) -> None:
    """Row 7.2: zone, plain words and the next times in both zones, while one types; errors at their fields."""
    make_many(
        stage.tenant, 12, "crowd-{}", schedule={"type": "cron", "expression": "0 8 * * *", "timezone": "Asia/Seoul"}
    )
    page = visit(stage, "tasks/new")
    expect(page.locator("[data-errors]")).to_be_hidden()
    page.locator("[data-go]").click()
    expect(page.locator('[data-field="/name"] em')).to_contain_text("is blank")
    expect(page.locator('[data-field="/handler/name"] em')).to_contain_text("is missing")
    expect(field(page, "/name")).to_be_focused()
    page.reload()
    field(page, "/name").fill("morning-report")
    expect(page.locator('[data-field="/handler/name"] em')).to_be_hidden()
    field(page, "/handler/name").fill("demo.noop")
    field(page, "/schedule/expression").fill("0 8 * * 99")
    wrong = page.locator('[data-field="/schedule/expression"] em')
    expect(wrong).to_contain_text("99")
    field(page, "/schedule/expression").fill("0 8 * * *")
    field(page, "/schedule/timezone").fill("Asia/Seoul")
    expect(page.locator(".plain")).to_have_text("At 08:00 every day (Asia/Seoul)")
    expect(page.locator("[data-times] li")).to_have_count(10)
    first = page.locator("[data-times] li").first
    expect(first.locator("time")).to_contain_text("23:00:00")
    expect(first.locator(".local")).to_contain_text("08:00:00 KST")

    def is_counted() -> bool:
        """The server keeps its count for some seconds."""
        with page.expect_response("**/tasks/check"):
            field(page, "/description").press_sequentially("x")
        return first.locator(".chip").all_inner_texts() == ["12 others"]

    eventually(is_counted)
    expect(wrong).to_be_hidden()
    field(page, "/schedule/type").select_option("interval")
    expect(field(page, "/schedule/expression")).to_be_hidden()
    field(page, "/schedule/every_seconds").fill("900")
    expect(page.locator(".plain")).to_have_text("Every 15 minutes")
    page.get_by_role("tab", name="JSON").click()
    text = page.locator("textarea.document")
    expect(text).to_be_visible()
    document = json.loads(text.input_value())
    assert document["schedule"] == {"type": "interval", "every_seconds": 900, "timezone": "Asia/Seoul"}
    text.fill(json.dumps({**document, "priority": 99}))
    expect(page.locator('[data-field=""] em')).to_contain_text("/priority: must be")
    text.fill(json.dumps({**document, "priority": 2}))
    expect(page.locator("[data-difference]")).to_contain_text("/priority: 2")
    page.get_by_role("tab", name="Form").click()
    page.get_by_text("How", exact=True).click()
    expect(field(page, "/priority")).to_have_value("2")
    expect(page.locator("[data-go]")).to_be_enabled()
    page.locator("[data-go]").click()
    expect(page.locator("h2").first).to_have_text("morning-report")
    assert Task.objects.get(name="morning-report").priority == 2


def test_an_edit_shows_the_difference_and_hears_of_another_one(stage: DagStage) -> None:
    task = make(stage.tenant, "job")
    page = visit(stage, f"tasks/{task.id}/edit")
    expect(page.locator("[data-difference]")).to_contain_text("Nothing yet.")
    field(page, "/description").fill("what it is for")
    expect(page.locator("[data-difference]")).to_contain_text("/description")
    expect(page.locator("[data-go]")).to_be_enabled()
    services.update_task(principal=who(stage.tenant), task_id=task.id, data={"timeout_seconds": 9}, partial=True)
    page.locator("[data-go]").click()
    expect(page.locator("[data-problem]")).to_contain_text("user:ada saved version 2 while you edited")
    expect(page.locator("[data-problem] a")).to_have_attribute("href", f"/t/acme/tasks/{task.id}/")
    assert Task.objects.get(id=task.id).description == ""


def test_a_dag_is_written_drawn_while_one_types_and_edited(stage: DagStage) -> None:
    page = visit(stage, "dags/new")
    text = page.locator("textarea.document")
    nodes = page.locator("[data-drawn] svg.node")
    expect(nodes).to_have_count(3)
    text.fill("name: typed\nnodes:\n  - {id: first, handler: demo.noop}\n  - {id: second, depends_on: [frist]}\n")
    page.get_by_role("button", name="line 4").first.click()
    assert text.evaluate("box => box.value.slice(box.selectionStart, box.selectionEnd)").startswith("  - {id: second")
    expect(page.locator("[data-go]")).to_be_disabled()
    expect(nodes, "the last graph stays").to_have_count(3)
    hostile = json.dumps({"type": "command", "argv": [HOSTILE]})
    text.fill(f"name: typed\nnodes:\n  - {{id: first, handler: {hostile}}}\n")
    expect(nodes).to_have_count(1)
    page.locator("[data-go]").click()
    expect(page.locator("h2").first).to_have_text("typed")
    dag = Dag.objects.get(name="typed")
    page.keyboard.press("e")
    expect(page.locator("[data-difference]")).to_contain_text("Nothing yet.")
    making.update_dag(principal=who(stage.tenant), dag_id=dag.id, data={"max_active_runs": 2}, partial=True)
    page.locator("textarea.document").press("End")
    page.locator("textarea.document").fill("name: other\nnodes:\n  - {id: first, handler: demo.noop}\n")
    expect(page.locator("[data-difference]")).to_contain_text("/name")
    page.locator("[data-go]").click()
    expect(page.locator("[data-problem]")).to_contain_text("user:ada saved version 2 while you edited")
    assert Dag.objects.get(id=dag.id).name == "typed"


def test_a_double_click_on_run_now_of_a_paused_task_runs_it_once(stage: DagStage) -> None:
    """Row 7.8."""
    task = make(stage.tenant, "job", parameters={})
    services.pause_task(principal=who(stage.tenant), task_id=task.id)
    page = visit(stage, f"tasks/{task.id}/")
    page.get_by_role("button", name="Run now").first.click()
    expect(page.locator("#run-form")).to_contain_text("It is paused")
    page.locator("#run-form textarea").fill("[1")
    page.locator("#run-form .btn.p").click()
    expect(page.locator('#run-form [data-field="parameters"] em')).to_contain_text("is not JSON")
    page.locator("#run-form textarea").fill("{}")
    page.locator("#run-form .btn.p").dblclick(no_wait_after=True)
    page.wait_for_url("**/executions/*/")
    assert Execution.objects.filter(task_id=task.id).count() == 1


def test_one_task_is_paused_with_a_note_resumed_and_deleted_by_name(stage: DagStage) -> None:
    task = make(stage.tenant, "job")
    page = visit(stage, f"tasks/{task.id}/")
    press(page, "Pause", note="month-end close")
    expect(page.locator(".title .chip")).to_have_text("paused: month-end close")
    press(page, "Resume")
    expect(page.locator(".title .chip")).to_have_count(0)
    press(page, "Delete", typed="job")
    page.wait_for_url("**/t/acme/tasks/")
    assert Task.objects.get(id=task.id).deleted_at is not None


def test_many_are_paused_by_filter_and_chosen_ones_deleted_by_count(stage: DagStage) -> None:
    """Row 7.4: the middle of a name, the count before the act, the filter in the address."""
    make_many(stage.tenant, 60, "eu-{:02}-load")
    make_many(stage.tenant, 3, "us-{}")
    page = visit(stage, "tasks/")
    page.locator("[data-search]").fill("-load")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=-load*")
    expect(page.locator("[data-bulk-words]")).to_have_text("60 tasks found")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#act-title")).to_have_text("Pause all 60 tasks found?")
    page.locator("#act textarea").fill("audit")
    page.locator("#act [data-act-go]").click()
    expect(page.locator("td .chip").first).to_have_text("paused: audit")
    assert Task.objects.exclude(paused_at=None).count() == 60
    page.get_by_role("link", name="“-load” ×").click()
    page.get_by_role("link", name="not paused", exact=True).click()
    page.wait_for_url("**paused=false*")
    expect(page.locator("tr[data-id]")).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.locator("[data-pick]").nth(1).check()
    expect(page.locator("[data-bulk-words]")).to_have_text("2 tasks chosen")
    press(page, "Delete", typed="delete 2")
    expect(page.locator("tr[data-id]")).to_have_count(1)
    assert Task.objects.filter(deleted_at=None).count() == 61


def furnish(stage: DagStage) -> Task:
    """Tasks as a tenant has them: some fail, one is paused, one has a hostile name."""
    ledger = Ledger(stage.tenant)
    fault = {"type": "TimeoutError", "message": "upstream did not answer within 30 s"}
    odd = {"type": "ValueError", "message": 'amount "12,50"'}
    for at in range(100):
        failed = at % 17 == 5
        state = Status.DEAD_LETTER if failed else Status.SKIPPED if at % 29 == 9 else Status.COMPLETED
        due = timedelta(minutes=-7 * at - 2)
        row = ledger.add(state, task="sales-merge", due=due, **({"error": odd if at % 2 else fault} if failed else {}))
        if row.started_at:
            took = timedelta(seconds=4 + (at * 7 % 11) + (30 if failed else 0))
            late = row.started_at + timedelta(milliseconds=at * 13 % 40)
            Execution.objects.filter(id=row.id).update(started_at=late, finished_at=late + took)
    for name in ("cache-warm", "ledger-close", "thumbnail-batch"):
        for at in range(9):
            ledger.add(Status.COMPLETED if at != 3 else Status.DEAD_LETTER, task=name, due=timedelta(hours=-at - 1))
    make(stage.tenant, "mail-digest", tags=["mail", "eu"], schedule={"type": "interval", "every_seconds": 300})
    paused = make(stage.tenant, "invoice-import", tags=["finance"])
    services.pause_task(principal=who(stage.tenant), task_id=paused.id, note="month-end close")
    make(stage.tenant, HOSTILE.replace("\u202e", ""), tags=["<b>"])
    sales = Task.objects.get(name="sales-merge")
    nightly = {"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Paris"}
    made = make(
        stage.tenant, "nightly-sales", tags=["finance"], schedule=nightly, description="Adds up what shops sold."
    )
    changed = {"priority": 2, "timeout_seconds": 900}
    services.update_task(principal=who(stage.tenant), task_id=made.id, data=changed, partial=True)
    Execution.objects.filter(task_id=sales.id).update(task_id=made.id)
    Task.objects.filter(id=sales.id).delete()
    return made


@pytest.mark.drill
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_is_wider_than_its_screen(stage: DagStage, width: int, scheme: str) -> None:
    """In both themes; with CONSOLE_PICTURES naming a folder, the pictures are kept there."""
    empty = visit(stage, "tasks/", width=width, height=1000, scheme=scheme)
    pages = {"empty": empty, "new": visit(stage, "tasks/new", width=width, height=1000, scheme=scheme)}
    keep(pages, f"{width}-{scheme}")
    task = furnish(stage)
    paths = {"list": "tasks/", "task": f"tasks/{task.id}/", "edit": f"tasks/{task.id}/edit"}
    pages = {name: visit(stage, path, width=width, height=1000, scheme=scheme) for name, path in paths.items()}
    edited = pages["edit"]
    field(edited, "/description").fill("Adds up what shops sold, and mails it.")
    field(edited, "/schedule/expression").fill("61 2 * * *")
    expect(edited.locator('[data-field="/schedule/expression"] em')).to_be_visible()
    keep(pages, f"{width}-{scheme}")


def keep(pages: dict[str, Page], name: str) -> None:
    for which, page in pages.items():
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), which
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / f"tasks-{which}-{name}.png"), full_page=True)


def test_a_handler_is_chosen_from_the_list_and_a_crontab_is_pasted(stage: DagStage) -> None:
    page = visit(stage, "tasks/new")
    page.evaluate("""() => {
        document.querySelector('[data-offers]').replaceChildren();
        document.querySelector('[data-handlers]').dataset.version = 'of a file that was saved since';
    }""")
    page.locator('[data-take="playground.picky"]').click()
    expect(field(page, "/handler/name")).to_have_value("playground.picky")
    expect(field(page, "/parameters")).to_have_value('{\n  "amount": 0\n}')
    expect(page.locator("[data-handler]")).to_contain_text("knows when trying again cannot help")
    expect(page.locator("[data-handler] .takes")).to_contain_text("must be given")
    page.goto(page.url.replace("tasks/new", "tasks/crontab"))
    go = page.locator("[data-go]")
    expect(go).to_be_disabled()
    expect(field(page, "timezone")).to_have_value("UTC")
    field(page, "text").fill("30 2 * * * x\n@reboot y\n")
    expect(go).to_have_text("Import 1 line")
    lines = page.locator(".cron > li")
    expect(lines.first).to_contain_text("At 02:30 every day (UTC)")
    expect(lines.nth(1)).to_contain_text("line 2: @reboot is not a time")
    lines.nth(1).locator("[data-line]").click()
    assert page.evaluate("getSelection().toString()") == "@reboot y"
    go.click()
    expect(go).to_have_text("Imported")
    page.get_by_role("link", name="crontab: x").click()
    expect(page.locator("main")).to_contain_text("crontab: x")
