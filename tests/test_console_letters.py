"""The page of dead letters: what it groups, whose it is, who may do what, what bad input gets, what it costs."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.definitions import services
from apps.executions import dead_letter_groups
from apps.executions.models import DeadLetter, Execution, ExecutionEvent, Replay
from apps.executions.states import Status
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_dags import Dags, make_member
from tests.console_ledger import FAULT, HOSTILE, Ledger, make_tenant, now
from tests.console_letters import letter, letters
from tests.factories import execution, make_api, make_task

pytestmark = pytest.mark.django_db


class Desk:
    """A tenant's dead letters, and somebody who looks at them."""

    def __init__(self, role: Role = Role.OPERATOR, tenant: Tenant | None = None) -> None:
        self.tenant = tenant or make_tenant()
        self.ledger = Ledger(self.tenant)
        self.client = Client()
        self.person = make_member(self.tenant, role)
        self.client.force_login(self.person)

    def url(self, path: str = "") -> str:
        return f"/t/{self.tenant.slug}/dead-letters/{path}"

    def see(self, path: str = "") -> str:
        answer = self.client.get(self.url(path))
        assert answer.status_code == 200
        return answer.content.decode()

    def act(self, path: str, status: int = 200, **given: Any) -> Any:
        answer = self.client.post(self.url(path), given)
        assert answer.status_code == status, answer.content
        return answer.json() if status != 404 else None

    def audited(self) -> list[str]:
        return list(AuditEntry.objects.filter(tenant=self.tenant).order_by("id").values_list("action", flat=True))

    def left(self) -> int:
        return DeadLetter.objects.filter(tenant=self.tenant).count()


@pytest.fixture
def desk() -> Desk:
    return Desk()


def state(row: Execution) -> Status:
    return Execution.objects.with_id(row.id).get().state


def test_what_failed_alike_is_one_line(desk: Desk) -> None:
    letters(desk.ledger, 3)
    letter(desk.ledger, task="charge", kind="HTTP 401", error={"type": "HTTPError", "message": "401 from the bank"})
    letter(desk.ledger, task="refund", kind="HTTP 401", died=timedelta(days=2))
    Ledger(make_tenant()).add(Status.DEAD_LETTER, task="theirs")
    html = desk.see()
    assert html.count("<tr data-id") == 3
    assert html.index("ValueError") < html.index("401 from the bank")
    assert re.search(r'c-count">3<', html)
    assert "theirs" not in html
    recent = desk.see("?died=24h")
    assert "charge" in recent
    assert "refund" not in recent


def test_the_largest_are_shown_and_what_is_beyond_is_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_groups, "MOST_GROUPED", 2)
    letters(desk.ledger, 4)
    assert "more than <b>2</b>" in desk.see()


def test_a_group_lists_its_letters_page_by_page(desk: Desk) -> None:
    rows = letters(desk.ledger, 53)
    letter(desk.ledger, kind="other")
    first = desk.see("?fingerprint=ValueError%3A+amount")
    assert first.count("<tr data-id") == 50
    older = re.search(r'href="(\?[^"]*before=[^"]+)"', first)
    assert older is not None
    rest = desk.see(older.group(1).replace("&amp;", "&"))
    assert rest.count("<tr data-id") == 3
    assert str(rows[-1].id) in rest


def test_looking_inside(desk: Desk) -> None:
    row = letter(desk.ledger, payload={"amount": "12,50"})
    html = desk.see(f"{row.id}/")
    for words in ("Traceback (most recent call last)", "attempt 4: failed", "&quot;12,50&quot;", "4 of 4"):
        assert words in html
    desk.act(f"{row.id}/act/discard", note="a test")
    gone = desk.client.get(desk.url(f"{row.id}/"))
    assert gone["Location"] == f"/t/{desk.tenant.slug}/executions/{row.id}/"


def test_an_empty_page_teaches(desk: Desk) -> None:
    assert "Nothing waits for a person" in desk.see()
    letter(desk.ledger)
    assert "None of" in desk.see("?died=1h&fingerprint=none") or "None is left here" in desk.see("?fingerprint=none")


def test_hostile_text_is_text(desk: Desk) -> None:
    error = {"type": HOSTILE, "message": HOSTILE, "traceback": HOSTILE}
    row = letter(desk.ledger, task=HOSTILE, kind=HOSTILE, error=error, payload={HOSTILE: HOSTILE})
    group = re.search(r'href="[^"]*(\?task=[^"]*fingerprint=[^"]*)"', desk.see())
    assert group is not None
    for path in ("", f"{row.id}/", group.group(1).replace("&amp;", "&")):
        html = desk.see(path)
        assert "&lt;img" in html
        assert "<img" not in html
        assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=", html)


def test_what_a_command_printed_is_said_as_it_stands_there_and_its_last_line_at_the_head(desk: Desk) -> None:
    error: dict[str, Any] = {
        "type": "CommandFailed",
        "class": "transient",
        "message": "the command ended with exit code 1",
    }
    error |= {"exit_code": 1, "stderr": "reading\nno such column: price\n", "stdout": "", "traceback": ""}
    html = desk.see(f"{letter(desk.ledger, error=error).id}/")
    assert "CommandFailed: the command ended with exit code 1: no such column: price" in html
    assert "stderr:\nreading\nno such column: price\n" in html


def test_one_is_replayed_with_mended_parameters(desk: Desk) -> None:
    row = letter(desk.ledger, payload={"amount": "12,50"})
    told = desk.act(f"{row.id}/act/replay", parameters='{"amount": "12.50"}')
    assert told["go"] == f"/t/{desk.tenant.slug}/executions/{row.id}/"
    found = Execution.objects.with_id(row.id).get()
    assert (found.state, found.payload, found.max_attempts) == (Status.SCHEDULED, {"amount": "12.50"}, 8)
    event = ExecutionEvent.objects.get(execution_id=row.id)
    assert event.reason == "replayed from the dead letters, with edited parameters"
    [entry] = AuditEntry.objects.filter(tenant=desk.tenant)
    assert (entry.action, entry.detail) == ("execution.replay", {"parameters": "edited"})
    desk.act(f"{row.id}/act/replay", 409, parameters="{}")


def test_one_is_replayed_under_its_task_as_it_was_mended(desk: Desk) -> None:
    """By its own page, where that is a choice, and by the button of its execution; a plain replay keeps its version."""
    who = Dags(desk.tenant).who
    task = make_task(who, parameters={"a": 1})
    rows = [execution(task, Status.DEAD_LETTER, attempt=3) for _ in range(3)]
    mended = {"retry_policy": {"max_attempts": 2}, "priority": 1}
    services.update_task(principal=who, task_id=task.id, data=mended, partial=True)
    html = desk.see(f"{rows[0].id}/")
    assert "under version 2, which its task has now; it failed under version 1" in html
    assert "those that the task has now" not in html, "they are the same"
    assert f"/tasks/{task.id}/edit" in html
    desk.act(f"{rows[0].id}/act/replay", parameters='{"a": 2}', renewed="on")
    desk.client.post(f"/t/{desk.tenant.slug}/executions/{rows[1].id}/act/retry")
    desk.act(f"{rows[2].id}/act/replay", parameters="{}")
    found = [Execution.objects.with_id(row.id).select_related("task_version").get() for row in rows]
    assert [one.task_version.number for one in found] == [2, 2, 1]
    assert [(one.state, one.max_attempts, one.priority) for one in found[:2]] == [(Status.SCHEDULED, 5, 1)] * 2
    assert found[0].payload == {"a": 2}
    reasons = ExecutionEvent.objects.filter(execution_id=rows[1].id).values_list("reason", flat=True)
    assert "goes on under version 2 of its task" in reasons


def test_parameters_that_follow_the_task_are_said_to(desk: Desk) -> None:
    """An execution without parameters of its own has those of its version, and its concurrency key is of them."""
    who = Dags(desk.tenant).who
    task = make_task(who, parameters={"customer": 1})
    row = execution(task, Status.DEAD_LETTER)
    key = {"key": "c-{{ parameters.customer }}", "limit": 1}
    mended = {"parameters": {"customer": 2}, "concurrency": key}
    services.update_task(principal=who, task_id=task.id, data=mended, partial=True)
    assert "those that the task has now" in desk.see(f"{row.id}/")
    desk.act(f"{row.id}/act/replay", parameters='{"customer": 1}', renewed="on")
    found = Execution.objects.with_id(row.id).select_related("task_version").get()
    assert (found.parameters, str(found.concurrency_key)[-3:]) == ({"customer": 2}, "c-2")


def test_parameters_that_are_left_as_they_are_are_no_edit(desk: Desk) -> None:
    row = letter(desk.ledger, payload=None)
    desk.act(f"{row.id}/act/replay", parameters='{"region": "eu"}')
    assert Execution.objects.with_id(row.id).get().payload is None


def test_mended_parameters_come_to_another_concurrency_key(desk: Desk) -> None:
    row = letter(desk.ledger)
    version = row.task_version
    key = {"key": "c-{{ parameters.customer }}", "limit": 1, "when_full": "queue"}
    type(version).objects.filter(pk=version.pk).update(definition={**version.definition, "concurrency": key})
    wrong = desk.act(f"{row.id}/act/replay", 422, parameters='{"other": 1}')
    assert "/parameters" in wrong["errors"][0]["problem"]
    desk.act(f"{row.id}/act/replay", parameters='{"customer": 7}')
    assert "c-7" in (Execution.objects.with_id(row.id).get().concurrency_key or "")


def test_the_api_replays_with_other_parameters_too() -> None:
    api = make_api()
    row = letter(Ledger(api.tenant))
    wrong = api.post(f"/admin/dlq/{row.id}/replay", {"parameters": [1]})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/parameters")
    told = {"parameters": {"amount": 1}, "current_version": True}
    assert api.post(f"/admin/dlq/{row.id}/replay", told | {"current_version": "yes"}).status_code == 422
    assert api.post(f"/admin/dlq/{row.id}/replay", told).status_code == 202
    assert Execution.objects.with_id(row.id).get().payload == {"amount": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"amount": }', "line 1, column 12"),
        ("[1]", "must be a JSON object"),
        ('{"a": "' + "x" * 2_000_000 + '"}', "too many"),
        ("[" * 100_000, "is not JSON"),
        ('{"a": "\\u0000"}', "/parameters/a"),
        ('{"a": NaN}', "/parameters/a"),
        ("", "is not JSON"),
    ],
)
def test_parameters_that_are_none_are_refused_in_place(desk: Desk, text: str, words: str) -> None:
    row = letter(desk.ledger)
    told = desk.act(f"{row.id}/act/replay", 422, parameters=text)
    assert words in told["errors"][0]["problem"]
    assert (state(row), desk.audited()) == (Status.DEAD_LETTER, [])


def test_a_few_go_ahead(desk: Desk) -> None:
    rows = letters(desk.ledger, 5)
    told = desk.act("act/canary", few="2", fingerprint="ValueError: amount")
    assert [state(row) for row in rows] == [Status.SCHEDULED] * 2 + [Status.DEAD_LETTER] * 3
    path = told["go"].removeprefix(desk.url())
    html = desk.see(path)
    assert "Sent round again" in html
    assert html.count('data-state="scheduled"') == 2
    assert desk.audited() == ["execution.replay"] * 2


def test_all_of_a_filter_go_round_at_a_pace_and_are_stopped(desk: Desk) -> None:
    letters(desk.ledger, 4)
    letter(desk.ledger, kind="other")
    chosen = "?fingerprint=ValueError%3A+amount"
    counted = desk.client.get(desk.url("count" + chosen)).json()
    assert counted["count"] == 4
    desk.act("act/replay", fingerprint="ValueError: amount", per_second="2", counted_at=counted["counted_at"])
    made = Replay.objects.get(tenant=desk.tenant)
    assert (made.total, made.per_second, made.filter["fingerprint"]) == (4, 2, "ValueError: amount")
    assert "0 of 4" in desk.see()
    desk.act(f"replays/{made.id}/stop")
    made.refresh_from_db()
    assert made.state == "stopped"
    assert desk.audited() == ["replay.start", "replay.stop"]


def test_many_are_discarded_with_a_reason(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = letters(desk.ledger, 5)
    counted_at = desk.client.get(desk.url("count")).json()["counted_at"]
    later = letter(desk.ledger, died=timedelta(0))
    DeadLetter.objects.filter(execution_id=later.id).update(since=now() + timedelta(minutes=1))
    told = desk.act("act/discard", note="the shop is closed", counted_at=counted_at)
    assert (told["done"], told["left"], told["again"]) == (5, 0, False)
    assert [state(row) for row in rows] == [Status.CANCELLED] * 5
    assert state(later) is Status.DEAD_LETTER
    assert ExecutionEvent.objects.filter(reason="discarded: the shop is closed").count() == 5


@pytest.mark.parametrize(
    ("path", "given"),
    [
        ("act/canary", {"few": "0"}),
        ("act/canary", {"few": "21"}),
        ("act/canary", {"few": "two"}),
        ("act/replay", {"per_second": "1001"}),
        ("act/replay", {"counted_at": "soon"}),
        ("act/discard", {"note": "without when"}),
        ("act/discard", {"counted_at": "2026-11-30T00:00:00"}),
        ("act/discard", {"counted_at": "9999-12-31T23:59:59.999999+00:00"}),
        ("act/replay", {"counted_at": "0001-01-01T00:00:00+00:00", "died": "7d"}),
        ("act/discard", {"counted_at": "2026-11-30T00:00:00+00:00", "note": "nul \0"}),
        ("act/replay", {"died": "yesterday"}),
        ("act/replay", {"task": "invoice"}),
        ("act/replay", {"fingerprint": "x" * 501}),
    ],
)
def test_nothing_is_done_on_a_form_that_is_wrong(desk: Desk, path: str, given: dict[str, str]) -> None:
    letters(desk.ledger, 2)
    assert desk.act(path, 422, **given)["errors"]
    assert (desk.left(), desk.audited(), Replay.objects.count()) == (2, [], 0)


def test_addresses_that_say_no_filter_show_all(desk: Desk) -> None:
    for query in ("?died=yesterday", "?task=1", "?fingerprint=%00"):
        assert desk.client.get(desk.url(query))["Location"] == desk.url()
        assert desk.client.get(desk.url("count" + query)).status_code == 400
        assert desk.client.get(desk.url("state" + query)).status_code == 404


def test_chosen_ones_are_acted_on_alone_and_foreign_ones_are_not_found(desk: Desk) -> None:
    """A click's key holds of chosen ones, too; chosen ones never become all."""
    rows = letters(desk.ledger, 4)
    foreign = letter(Ledger(make_tenant()))
    meant = [str(row.id) for row in rows[:2]] + [str(foreign.id)]
    counted = desk.client.get(desk.url("count"), {"chosen": "", "id": meant}).json()
    assert counted["count"] == 2
    at = counted["counted_at"]
    told = desk.act("act/replay", chosen="on", id=meant, counted_at=at, renewed="on", key="a")
    assert (told["done"], [one["id"] for one in told["refused"]]) == (2, [str(foreign.id)])
    made = Replay.objects.get(tenant=desk.tenant)
    assert (made.total, made.left_out, made.current_version) == (3, 1, True)
    for _ in range(2):
        told = desk.act("act/discard", chosen="on", id=meant[1:], counted_at=at, note="by hand", key="b")
        assert (told["done"], told["refused"][0]["task"], told["again"]) == (1, "", False)
    assert [state(row) for row in rows] == [Status.DEAD_LETTER, Status.CANCELLED] + [Status.DEAD_LETTER] * 2
    assert desk.audited() == ["replay.start", "execution.discard"]
    assert state(foreign) is Status.DEAD_LETTER
    for wrong in ([], ["x"], [meant[0], "y"]):
        assert desk.act("act/discard", 422, chosen="on", id=wrong, counted_at=at, note="x")["errors"]
    html = desk.see("?show=each")
    assert html.count("data-pick=") == 3
    assert "…" + str(foreign.id)[-8:] in html


def test_a_few_go_round_as_their_task_is_now_or_as_they_were(desk: Desk) -> None:
    who = Dags(desk.tenant).who
    task = make_task(who)
    rows = [execution(task, Status.DEAD_LETTER) for _ in range(2)]
    services.update_task(principal=who, task_id=task.id, data={"priority": 1}, partial=True)
    desk.act("act/canary", few="1", renewed="on")
    desk.act("act/canary", few="1")
    found = [Execution.objects.with_id(row.id).select_related("task_version").get() for row in rows]
    assert sorted(one.task_version.number for one in found) == [1, 2]
    assert {one.state for one in found} == {Status.SCHEDULED}
    desk.act("act/canary", 422, few="1", renewed="maybe")


ACTS = ("act/canary", "act/replay", "act/discard", "{id}/act/replay", "{id}/act/discard", "replays/{replay}/stop")


@pytest.mark.parametrize("path", ACTS)
def test_viewers_look_and_do_nothing(path: str) -> None:
    desk = Desk(Role.VIEWER)
    row = letter(desk.ledger)
    replay = Replay.objects.create(
        id=row.id, tenant=desk.tenant, filter={}, per_second=1, total=1, created_at=now(), created_by="user:x"
    )
    where = path.format(id=row.id, replay=replay.id)
    told = desk.act(where, 403, few="1", note="x", counted_at=now().isoformat())
    assert "needs the role operator" in told["problem"]
    replay.refresh_from_db()
    assert (state(row), desk.audited(), replay.state) == (Status.DEAD_LETTER, [], "running")
    for html in (desk.see(), desk.see("?fingerprint=ValueError%3A+amount"), desk.see(f"{row.id}/")):
        assert "data-act=" not in html
        assert "data-opens" not in html
        assert "<textarea" not in html


def test_what_is_anothers_or_unknown_is_not_found(desk: Desk) -> None:
    foreign = letter(Ledger(make_tenant()))
    own = letter(desk.ledger)
    for path in (f"{foreign.id}/act/replay", f"{foreign.id}/act/discard", f"{own.id}/act/fly", "act/fly"):
        desk.act(path, 404, parameters="{}")
    desk.act(f"replays/{foreign.id}/stop", 404)
    assert desk.client.get(desk.url(f"{foreign.id}/")).status_code == 404
    assert desk.client.get(desk.url("act/replay")).status_code == 404


def test_a_page_costs_the_same_however_many_there_are(desk: Desk) -> None:
    def cost(path: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            desk.see(path)
        return len(queries)

    row = letter(desk.ledger)
    paths = (
        "",
        "?fingerprint=ValueError%3A+amount",
        f"{row.id}/",
        f"?fingerprint=ValueError%3A+amount&canary={row.id}",
    )
    before = [cost(path) for path in paths]
    letters(desk.ledger, 12)
    for n in range(12):
        letter(desk.ledger, task=f"t{n}", kind=f"kind {n}")
    assert [cost(path) for path in paths] == before
    assert max(before) <= 14


def test_what_the_page_polls_is_what_it_shows(desk: Desk) -> None:
    letters(desk.ledger, 2, error=FAULT)
    told = json.loads(desk.see("state"))
    assert set(told["pieces"]) == {"bar", "going", "list"}
    assert told["pieces"]["list"].strip() in desk.see()
