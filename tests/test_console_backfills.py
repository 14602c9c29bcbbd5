"""Backfills in the console: the form and what it would start, what is refused, who may, and bars that move."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.console.backfills import page as pages
from apps.console.backfills.page import BackfillsPage
from apps.console.fragments import PiecesSource
from apps.definitions import backfill_preview, backfills
from apps.definitions.backfill_preview import outlook
from apps.definitions.models import Backfill, Dag, Task
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_dags import SALES, Dags, make_member
from tests.console_ledger import HOSTILE, make_tenant
from tests.factories import make_task

pytestmark = pytest.mark.django_db
HOURLY = {"type": "cron", "expression": "0 * * * *", "timezone": "Asia/Seoul"}
DAY = {"start": "2025-06-01T00:00", "end": "2025-06-02T00:00", "zone": "Asia/Seoul"}


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def dag(tenant: Tenant) -> Dag:
    return Dags(tenant).make("nightly-sales", SALES, schedule=HOURLY)


def send(tenant: Tenant, of: Dag | Task, act: str, **given: str) -> Any:
    client = Client()
    client.force_login(make_member(tenant))
    return client.post(f"/t/{tenant.slug}/{'dags' if isinstance(of, Dag) else 'tasks'}/{of.id}/backfills/{act}", given)


def shown(tenant: Tenant, of: Dag | Task, role: Role = Role.OPERATOR) -> str:
    client = Client()
    client.force_login(make_member(tenant, role))
    where = f"/t/{tenant.slug}/{'dags' if isinstance(of, Dag) else 'tasks'}/{of.id}/"
    assert f"{where}backfills/" in client.get(where).content.decode()
    return client.get(f"{where}backfills/").content.decode()


def begin(tenant: Tenant, of: Dag | Task, hours: int = 24, **fields: Any) -> Backfill:
    start = datetime(2025, 6, 1, tzinfo=UTC)
    data = {"start": start.isoformat(), "end": (start + timedelta(hours=hours)).isoformat(), **fields}
    request = backfills.read_request(of, data)
    return backfills.start_backfill(principal=Dags(tenant).who, of=of, request=request)


def test_what_would_start_is_told_in_the_zone_of_the_form(tenant: Tenant, dag: Dag) -> None:
    body = send(tenant, dag, "check", **DAY, at_once="3").json()
    assert (body["errors"], body["total"], body["typed"]) == ([], 24, "")
    assert body["title"] == "Start 24 runs of nightly-sales?"
    assert (
        "From Sun 1 Jun 2025 00:00 to Sun 1 Jun 2025 23:00, Asia/Seoul; oldest first, at most 3 at once" in body["text"]
    )
    for words in ("Sun 1 Jun 2025 07:00", "2025-05-31 15:00:00 UTC", "and 16 more", "has not run"):
        assert words in body["beside"], words
    # The same range, as the clocks of another zone show it.
    there = send(tenant, dag, "check", start="2025-05-31T17:00", end="2025-06-01T17:00", zone="Europe/Paris").json()
    assert (there["total"], "Sat 31 May 2025 17:00" in there["text"]) == (24, True)
    many = send(tenant, dag, "check", **DAY | {"end": "2025-06-30T00:00"}).json()
    assert (many["total"], many["typed"]) == (696, "backfill 696")
    assert not Backfill.objects.exists()


def test_which_have_run_before_is_told(tenant: Tenant) -> None:
    """Those that the schedule made, with their state, and those that an earlier backfill has come to."""
    who = Dags(tenant).who
    task = make_task(who, schedule=HOURLY)
    earlier = begin(tenant, task, order="newest_first")
    Backfill.objects.filter(id=earlier.id).update(cursor=datetime(2025, 6, 1, 20, tzinfo=UTC), made=4)
    day = {"start": "2025-06-01T00:00", "end": "2025-06-02T00:00", "zone": "UTC"}
    body = send(tenant, task, "check", **day, order="newest_first").json()
    assert body["beside"].count("in an earlier backfill") == 4
    assert "4 of them have run before and will run once more" in body["text"]
    assert "Start 24 executions of" in body["title"]
    request = backfills.read_request(task, {"start": day["start"] + "Z", "end": day["end"] + "Z"})
    with CaptureQueriesContext(
        connection,
    ) as queries:
        found = outlook(who, task, request, show=3)
    assert (len(queries), found.there, [one.is_there for one in found.shown]) == (2, 4, [False] * 3)


def test_a_range_too_long_to_look_up_says_so(tenant: Tenant, dag: Dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backfill_preview, "MOST_COUNTED", 10)
    body = send(tenant, dag, "check", **DAY).json()
    assert ("not counted" in body["beside"], body["total"]) == (True, 24)


@pytest.mark.parametrize(
    ("changes", "field", "says"),
    [
        ({"start": ""}, "start", ("is required", "legal: a date-time")),
        ({"start": "yesterday"}, "start", ("is not a date-time", '"yesterday"', "legal:")),
        ({"end": "2999-01-01T00:00"}, "end", ("is in the future", '"2999-01-01T00:00"', "legal: at the latest now")),
        ({"end": "2025-05-01T00:00"}, "end", ("is not after start", '"2025-05-01T00:00"')),
        ({"end": "2025-06-01T00:00:01", "start": "2025-06-01T00:00:00.5"}, "end", ("has no occurrence",)),
        ({"at_once": "1001"}, "at_once", ("is outside 1 to 1000", "1001")),
        ({"at_once": "many"}, "at_once", ("is not a whole number", '"many"', "legal: 1 to 1000")),
        ({"order": "random"}, "order", ("is not one of", '"random"', "legal: oldest_first, newest_first")),
        ({"zone": "Asia/Soul"}, "zone", ("is not a time zone", "did you mean Asia/Seoul")),
        ({"parameters": "{"}, "parameters", ("is not JSON", "legal: a JSON object")),
        ({"parameters": "[1]"}, "parameters", ("legal",)),
        ({"colour": "red"}, "colour", ("is no field here",)),
    ],
)
def test_what_is_wrong_is_told_at_its_field(
    tenant: Tenant, dag: Dag, changes: dict[str, str], field: str, says: tuple[str, ...]
) -> None:
    body = send(tenant, dag, "check", **DAY | changes).json()
    assert (body["total"], [one["field"] for one in body["errors"]]) == (0, [field]), body
    assert all(words in body["errors"][0]["problem"] for words in says), body["errors"]
    refused = send(tenant, dag, "start", **DAY | changes, expected="24")
    assert (refused.status_code, refused.json()["errors"]) == (422, body["errors"])
    assert not Backfill.objects.exists()


def test_it_starts_as_it_was_seen_or_not_at_all(tenant: Tenant, dag: Dag) -> None:
    refused = send(tenant, dag, "start", **DAY, expected="23")
    assert (refused.status_code, "24 runs now, not as many as you saw" in refused.json()["problem"]) == (409, True)
    assert not Backfill.objects.exists()
    given = {"at_once": "3", "order": "newest_first", "parameters": '{"day": 1}', "expected": "24", "key": "a-click"}
    assert send(tenant, dag, "start", **DAY, **given).json()["reload"] is True
    made = Backfill.objects.get()
    assert (made.dag_id, made.at_once, made.newest_first, made.parameters) == (dag.id, 3, True, {"day": 1})
    assert made.start_at == datetime(2025, 5, 31, 15, tzinfo=UTC)
    entry = AuditEntry.objects.get(action="backfill.start")
    assert (entry.actor, entry.target_id) == (made.created_by, str(made.id))


def test_what_has_no_occurrences_says_why(tenant: Tenant) -> None:
    task = make_task(Dags(tenant).who, schedule={"type": "manual"})
    client = Client()
    client.force_login(make_member(tenant))
    where = f"/t/{tenant.slug}/tasks/{task.id}/"
    assert "backfills/" not in client.get(where).content.decode()
    assert "has no occurrences to fill in" in client.get(f"{where}backfills/").content.decode()
    body = send(tenant, task, "check", **DAY).json()
    assert "type manual" in body["errors"][0]["problem"]


def test_bars_move_and_who_may_not_act_looks_on(tenant: Tenant, dag: Dag) -> None:
    made = begin(tenant, dag, at_once=5)
    html = shown(tenant, dag)
    for words in ("0 of 24", "1 Jun 2025 09:00 – 2 Jun 2025 09:00", "Asia/Seoul", 'data-typed="nightly-sales"'):
        assert words in html, words
    watched = shown(tenant, dag, Role.VIEWER)
    assert "0 of 24" in watched
    assert not any(one in watched for one in ("data-act=", "data-backfill=", '<dialog id="backfill"'))
    source = PiecesSource(BackfillsPage(Dags(tenant).who, dag))
    assert source.update(set(), looking=True)
    assert source.update(set(), looking=True) is None, "nothing has changed"
    run = Dags(tenant).start(dag)
    Backfill.objects.filter(id=made.id).update(made=7, under_way=[run], cursor=datetime(2025, 6, 1, 6, tzinfo=UTC))
    update = source.update(set(), looking=True)
    assert update is not None
    assert set(update.pieces) == {"going"}
    for words in ("7 of 24", "6 ended, 1 under way of 5 at once; has come to 1 Jun 2025 15:00", f"/runs/{run}/"):
        assert words in update.pieces["going"], words
    client = Client()
    client.force_login(make_member(tenant))
    answer = client.post(f"/t/{tenant.slug}/backfills/{made.id}/stop", {"note": ""})
    assert answer.json()["said"] == "stopped after 7 of 24"
    update = source.update(set(), looking=True)
    assert update is not None
    assert (update.pieces["going"], "stopped after 7" in update.pieces["ended"]) == ("", True)
    audit = client.get(f"/t/{tenant.slug}/audit/").content.decode()
    assert audit.count(f"/dags/{dag.id}/backfills/") == 2, "its entries lead there"


def test_questions_are_two_however_many_there_are(tenant: Tenant, dag: Dag, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SHOWN", 2)
    for state in ("running", "finished", "stopped", "finished"):
        Backfill.objects.filter(id=begin(tenant, dag).id).update(state=state)
    with CaptureQueriesContext(connection) as queries:
        pieces = BackfillsPage(Dags(tenant).who, dag).pieces()
    assert len(queries) == 2
    assert "the last 2; all:" in pieces["ended"]


def test_hostile_names_do_nothing(tenant: Tenant) -> None:
    name = HOSTILE.replace("\u202e", "")
    dag = Dags(tenant).make(name, SALES, schedule=HOURLY)
    begin(tenant, dag)
    assert "<script>" not in shown(tenant, dag).replace("<script src", "").replace("<script type", "")
