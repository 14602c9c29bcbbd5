"""The audit log's page: what it shows of whom to whom, what it costs, and what a file of it holds."""

import csv
import io
import json
import re
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.audit import download
from apps.console.audit.asked import Asked
from apps.definitions import services
from apps.tenants import audit, audit_reading
from apps.tenants.audit_reading import AuditFilter
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_dags import make_member
from tests.console_ledger import HOSTILE, make_tenant, now
from tests.factories import make_principal, make_task

pytestmark = pytest.mark.django_db


class Reader:
    """A tenant's audit log, and somebody who looks at it."""

    def __init__(self, role: Role = Role.OPERATOR, tenant: Tenant | None = None) -> None:
        self.tenant = tenant or make_tenant()
        self.client = Client()
        self.client.force_login(make_member(self.tenant, role))

    def ask(self, query: str = "", path: str = "", status: int = 200) -> Any:
        answer = self.client.get(f"/t/{self.tenant.slug}/audit/{path}{query}")
        assert answer.status_code == status
        return answer

    def see(self, query: str = "") -> str:
        return self.ask(query).content.decode()

    def file(self, query: str) -> str:
        """What is sent, read in this thread; tests/test_console_settings_browser.py gets one from the web process."""
        given = dict(parse_qsl(query.removeprefix("?")))
        asked = Asked.of(given)
        return "".join(download.texts(make_principal(self.tenant), asked, given["format"], now=now()))

    def note(self, action: str = "task.pause", **fields: Any) -> None:
        given = {"actor": "user:ada", "target_type": "task", "target_id": "1", **fields}
        audit.record(tenant_id=self.tenant.id, action=action, **given)


@pytest.fixture
def reader() -> Reader:
    return Reader()


def rows(html: str) -> int:
    return html.count("<tr data-id")


def test_filters_stand_in_the_address_and_hold_together(reader: Reader) -> None:
    reader.note("task.pause", actor="user:ada", target_id="1")
    reader.note("task.resume", actor="user:ada", target_id="1")
    reader.note("secret.create", actor="key:cw_12345678", target_type="secret", target_id="TOKEN")
    AuditEntry.objects.filter(action="task.pause").update(at=now() - timedelta(days=3))
    assert rows(reader.see()) == 3
    for query, count in {
        "?actor=user:ada": 2,
        "?action=task.pause": 1,
        "?actor=user:ada&target_type=secret": 0,
        "?target_type=secret&target_id=TOKEN": 1,
        "?span=24h": 2,
        "?span=7d&actor=user:ada": 2,
        f"?until={(now() - timedelta(days=1)):%Y-%m-%dT%H:%M}": 1,
        f"?since={(now() - timedelta(days=1)):%Y-%m-%dT%H:%M}&action=task.resume": 1,
    }.items():
        assert rows(reader.see(query)) == count, query
    html = reader.see("?actor=user:ada&span=24h")
    assert 'href="?actor=user%3Aada&amp;span=7d"' in html
    assert 'href="?span=24h" title="no longer only these"' in html


def test_a_filter_that_means_nothing_shows_nothing_and_says_what_is_legal(reader: Reader) -> None:
    reader.note()
    for query, words in {
        "?span=1y": "“1y” is no span of time; legal: 1h, 24h, 7d, 30d",
        "?since=<b>": "“&lt;b&gt;” is no time",
        "?before=x": "“x” is no entry",
        "?actor=%00": "is none that there can be",
    }.items():
        html = reader.ask(query, status=400).content.decode()
        assert words in html
        assert rows(html) == 0


def test_pages_go_on_behind_the_last_entry(reader: Reader) -> None:
    for number in range(53):
        reader.note(target_id=str(number))
    first = reader.see("?actor=user:ada")
    older = re.search(r'href="(\?[^"]*before=\d+)">Older', first)
    assert older
    reader.note(target_id="new")
    rest = reader.see(older[1].replace("&amp;", "&"))
    assert (rows(first), rows(rest)) == (50, 3)
    assert "The latest" in rest


def test_what_an_edit_changed_is_told_from_the_versions(reader: Reader) -> None:
    who = make_principal(reader.tenant)
    task = make_task(who, name="invoices", priority=5)
    services.update_task(principal=who, task_id=task.id, data={"priority": 2}, partial=True)
    html = reader.see("?action=task.update")
    assert re.search(r'data-sign="\+"><i>\+</i>/priority: 2|data-sign="~"><i>~</i>/priority: 5 → 2', html)
    assert f'href="/t/{reader.tenant.slug}/tasks/{task.id}/"' in html
    assert "invoices" in html
    reader.note(
        "membership.change", target_type="member", target_id="bob", detail={"before": "viewer", "role": "owner"}
    )
    reader.note("tenant.change", target_type="tenant", detail={"before": {"weight": 1}, "after": {"weight": 3}})
    html = reader.see()
    assert "role: viewer → owner" in html
    assert "/weight: 1 → 3" in html


def test_where_an_act_came_from_is_noted(reader: Reader) -> None:
    task = make_task(make_principal(reader.tenant))
    owner = Reader(Role.OPERATOR, reader.tenant)
    path = f"/t/{reader.tenant.slug}/tasks/{task.id}/act/pause"
    owner.client.post(path, {"note": ""}, REMOTE_ADDR="198.51.100.7")
    entry = AuditEntry.objects.get(tenant=reader.tenant, action="task.pause")
    assert (entry.via, entry.address) == ("console", "198.51.100.7")
    assert "console · 198.51.100.7" in reader.see()
    reader.note()
    assert AuditEntry.objects.latest("id").via == ""


def test_viewers_and_strangers_see_none_of_it(reader: Reader) -> None:
    reader.note(actor="user:of-the-tenant")
    viewer = Reader(Role.VIEWER, reader.tenant)
    for path in ("", "download"):
        assert "of-the-tenant" not in viewer.ask(path=path, status=403).content.decode()
    stranger = Reader()
    assert stranger.client.get(f"/t/{reader.tenant.slug}/audit/").status_code == 404
    assert "of-the-tenant" not in stranger.see()
    assert "of-the-tenant" not in stranger.file("?format=csv")


def test_files_hold_what_the_filter_finds_and_no_formula(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.console.audit.download._AT_ONCE", 2)
    reader.note("secret.create", target_type="secret")
    for number in range(5):
        reader.note(actor="=cmd|' /C calc'!A0", target_id=str(number), detail={"note": 'a "b", ü'})
    found = list(csv.DictReader(io.StringIO(reader.file("?format=csv&action=task.pause"))))
    assert [row["target_id"] for row in found] == ["4", "3", "2", "1", "0"]
    assert found[0]["actor"] == "'=cmd|' /C calc'!A0"
    assert json.loads(found[0]["detail"]) == {"note": 'a "b", ü'}
    told = json.loads(reader.file("?format=json&target_type=task"))
    assert [row["target_id"] for row in told] == ["4", "3", "2", "1", "0"]
    assert told[0]["actor"] == "=cmd|' /C calc'!A0"
    assert json.loads(reader.file("?format=json&actor=nobody")) == []
    monkeypatch.setattr("apps.console.audit.download.MOST", 3)
    assert len(json.loads(reader.file("?format=json"))) == 3
    assert reader.ask("?format=xml", "download", 400)


@pytest.mark.parametrize(
    "text", ["=1", "+1", "-1", "@a", "\t=1", "\r=1", "\n=1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff20a"]
)
def test_no_cell_begins_as_a_formula_does(text: str) -> None:
    assert download._cell(text) == f"'{text}"


def test_hostile_text_is_text(reader: Reader) -> None:
    reader.note(
        actor=HOSTILE, action="<b>", target_type="<i>", target_id="<u>", detail={HOSTILE: HOSTILE, "name": HOSTILE}
    )
    html = reader.see()
    assert "&lt;img" in html
    assert "<img" not in html
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=", html)


def test_a_page_costs_the_same_however_much_is_on_it(reader: Reader) -> None:
    who = make_principal(reader.tenant)

    def edited(count: int) -> None:
        for _ in range(count):
            task = make_task(who)
            services.update_task(principal=who, task_id=task.id, data={"priority": 2}, partial=True)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            reader.see("?span=24h")
        assert not [q for q in queries if "COUNT(" in q["sql"].upper() and "audit_log" in q["sql"]]
        return len(queries)

    edited(1)
    first = cost()
    edited(4)
    assert cost() == first


def test_a_time_far_back_reads_only_its_rows(reader: Reader) -> None:
    """Ids bound what is read: without them a page of old entries walks over all newer ones."""
    for number in range(3):
        reader.note(target_id=str(number))
    AuditEntry.objects.filter(target_id="0").update(at=now() - timedelta(days=9))
    who = make_principal(reader.tenant)
    found = audit_reading.entries(who, AuditFilter(until=now() - timedelta(days=5)))
    assert [row.target_id for row in found] == ["0"]
    assert re.search(r'"id" < \d+', str(found.query))
    assert not audit_reading.entries(who, AuditFilter(since=now() + timedelta(days=1))).exists()
    assert isinstance(who.tenant_id, UUID)


@pytest.mark.parametrize("query", ["since=0001-01-01T00:00", "until=9999-12-31T23:59:59.999999"])
def test_the_calendars_ends_are_times_too(reader: Reader, query: str) -> None:
    reader.note()
    assert rows(reader.see(f"?{query}")) == 1
