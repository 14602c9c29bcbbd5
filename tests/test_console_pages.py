"""The console's pages: whose rows they show, why rows wait, what hostile names can do (nothing), what they cost."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console import listing
from apps.executions.models import Progress
from apps.executions.states import Hold, Status
from apps.tenants.models import Tenant
from tests.console_ledger import HOSTILE, PASSWORD, Ledger, make_person, make_tenant

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def ledger(tenant: Tenant) -> Ledger:
    return Ledger(tenant)


@pytest.fixture
def browser(tenant: Tenant) -> Client:
    client = Client()
    client.force_login(make_person(tenant))
    return client


def page(browser: Client, tenant: Tenant, query: str = "") -> str:
    answer = browser.get(f"/t/{tenant.slug}/executions/{query}")
    assert answer.status_code == 200
    return answer.content.decode()


def states(html: str) -> list[str]:
    return re.findall(r'<tr id="x-[^>]* data-state="(\w+)"', html)


def test_nobody_sees_anything_without_logging_in(tenant: Tenant) -> None:
    for path in ("/", "/console/executions/", f"/t/{tenant.slug}/executions/"):
        answer = Client().get(path)
        assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={path}")


def test_the_login_page_leads_to_the_live_page(tenant: Tenant) -> None:
    person = make_person(tenant)
    client = Client()
    wrong = client.post("/login/", {"username": person.username, "password": "no"})
    assert "do not belong together" in wrong.content.decode()
    answer = client.post("/login/", {"username": person.username, "password": PASSWORD, "next": "/"}, follow=True)
    assert answer.redirect_chain[-1][0] == f"/t/{tenant.slug}/"
    assert client.post("/logout/").status_code == 302
    assert client.get(f"/t/{tenant.slug}/executions/").status_code == 302


def test_a_foreign_tenant_is_the_same_as_an_unknown_one(browser: Client) -> None:
    foreign = make_tenant()
    row = Ledger(foreign).add(Status.RUNNING)
    for path in (
        f"/t/{foreign.slug}/executions/",
        f"/t/{foreign.slug}/executions/{row.id}/",
        "/t/no-such-tenant/executions/",
    ):
        assert browser.get(path).status_code == 404


def test_a_foreign_id_in_the_own_tenant_is_not_found(browser: Client, tenant: Tenant) -> None:
    row = Ledger(make_tenant()).add(Status.RUNNING)
    for identity in (row.id, "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"):
        assert browser.get(f"/t/{tenant.slug}/executions/{identity}/").status_code == 404


def test_only_the_own_rows_are_listed(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    ledger.add(Status.COMPLETED, task="mine")
    Ledger(make_tenant()).add(Status.COMPLETED, task="theirs")
    html = page(browser, tenant)
    assert "mine" in html
    assert "theirs" not in html


def test_a_superuser_sees_every_tenant_and_a_member_their_own() -> None:
    one, other = make_tenant(), make_tenant()
    root = Client()
    root.force_login(make_person(None, is_superuser=True))
    assert root.get(f"/t/{one.slug}/executions/").status_code == 200
    assert f"/t/{other.slug}/" in page(root, one)
    nobody = Client()
    nobody.force_login(make_person(None))
    assert "member of no tenant" in nobody.get("/").content.decode()


def test_every_state_says_why_it_is_not_running(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    ledger.one_of_each()
    ledger.add(Status.SCHEDULED, task="month-close", hold=Hold.PAUSED)
    ledger.pause("month-close", "month-end close")
    ledger.add(Status.SCHEDULED, task="one-at-a-time", hold=Hold.OVERLAP)
    html = page(browser, tenant)
    for words in (
        r"due in (4[01]|3\d|2\d) s",
        r"due in (1[0-2]|\d) s",
        "sent, not begun yet",
        r"attempt 2 of 4 in (3[01]|2\d|1\d) s",
        "waits for an answer",
        "overlap: an earlier execution still runs",
        "superseded by version 2",
        "ValueError: amount &quot;12,50&quot;",
        "paused: month-end close",
        "waits for the task&#x27;s earlier execution",
    ):
        assert re.search(words, html), words
    assert "second line" not in html


def test_names_are_escaped_everywhere(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    error = {"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    row = ledger.add(Status.DEAD_LETTER, task=HOSTILE, error=error, payload={HOSTILE: HOSTILE}, result=HOSTILE)
    ledger.event(row, target=Status.SCHEDULED, reason=HOSTILE)
    for html in (page(browser, tenant), page(browser, tenant, f"{row.id}/")):
        assert "&lt;img" in html
        assert "<img" not in html
        assert "<bdi>" in html


def test_the_policy_allows_no_inline_script(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    row = ledger.add(Status.COMPLETED)
    for path in ("", f"{row.id}/"):
        answer = browser.get(f"/t/{tenant.slug}/executions/{path}")
        policy = answer["Content-Security-Policy"]
        assert "default-src 'self'" in policy
        assert "unsafe" not in policy
        html = answer.content.decode()
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=", html)
        assert not re.search(r'(?:src|href)="(?:https?:)?//', html)


def test_filters_show_their_state_alone(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    ledger.one_of_each()
    assert len(states(page(browser, tenant))) == 10
    for state in Status:
        assert states(page(browser, tenant, f"?state={state.word}")) == [state.word]
    wrong = browser.get(f"/t/{tenant.slug}/executions/?state=no_such_state")
    assert (wrong.status_code, wrong["Location"]) == (302, f"/t/{tenant.slug}/executions/")


def test_an_old_dead_letter_is_found_by_its_filter(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    """Its list is an index of its own, not the newest thousand."""
    ledger.add(Status.DEAD_LETTER, task="old", due=timedelta(days=-6))
    assert states(page(browser, tenant, "?state=dead_letter")) == ["dead_letter"]


def test_latest_first_and_older_on_request(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    for n in range(listing.SHOWN + 5):
        ledger.add(Status.COMPLETED, due=timedelta(seconds=-n))
    html = page(browser, tenant)
    ids = re.findall(r'data-id="([0-9a-f-]+)"', html)
    assert len(ids) == listing.SHOWN
    assert ids == sorted(ids, reverse=True)
    older = re.search(r'href="(\?[^"]*before=[^"]+)"', html)
    assert older is not None
    assert len(states(page(browser, tenant, older.group(1).replace("&amp;", "&")))) == 5


def test_the_far_future_does_not_hide_the_present(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    for n in range(30):
        ledger.add(Status.SCHEDULED, due=timedelta(minutes=1 + n))
    ledger.add(Status.RUNNING)
    found = states(page(browser, tenant))
    assert found.count("scheduled") == listing.UPCOMING
    assert found[-1] == "running"


def test_the_number_of_queries_does_not_grow(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    def count(path: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert browser.get(path).status_code == 200
        return len(queries)

    url = f"/t/{tenant.slug}/executions/"
    row = next(iter(ledger.one_of_each().values()))
    few, few_detail = count(url), count(f"{url}{row.id}/")
    for n in range(12):
        ledger.add(Status.COMPLETED, task=f"task-{n}")
        ledger.add(Status.SCHEDULED, task=f"held-{n}", hold=Hold.PAUSED)
        ledger.event(ledger.add(Status.SKIPPED, task=f"skipped-{n}"), target=Status.SKIPPED, reason="overlap")
    assert count(url) == few <= 11
    assert count(f"{url}{row.id}/") == few_detail <= 13


def test_an_empty_page_teaches_the_next_step(browser: Client, tenant: Tenant) -> None:
    html = page(browser, tenant)
    assert "curl -X POST http://testserver/api/v1/tasks" in html
    assert "<table" not in html


def test_one_execution_tells_its_story(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    made = ledger.one_of_each()
    dead = page(browser, tenant, f"{made[Status.DEAD_LETTER].id}/")
    for words in (
        "Traceback (most recent call last)",
        "attempt 4 of 4: failed",
        "worker-7",
        "&quot;region&quot;: &quot;eu&quot;",
    ):
        assert words in dead
    done = page(browser, tenant, f"{made[Status.COMPLETED].id}/")
    assert "1204" in done
    assert "日本" in done


def test_the_execution_page_tells_how_far_it_is(browser: Client, tenant: Tenant, ledger: Ledger) -> None:
    row = ledger.add(Status.RUNNING)
    path = f"/t/{tenant.slug}/executions/{row.id}/"
    assert "data-progress" not in browser.get(path).content.decode()
    Progress.objects.create(
        execution_id=row.id, scheduled_at=row.scheduled_at, tenant_id=tenant.id, token=1, done=64, total=100
    )
    assert "<dd data-progress>64 of 100</dd>" in browser.get(path).content.decode()
