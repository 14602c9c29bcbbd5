"""The form that makes and changes tasks: what it says while one types, and what it saves."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.console.tasks import form, preview
from apps.definitions import collisions, services
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.executions.models import TaskVersion
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_ledger import make_tenant
from tests.test_console_task_pages import NOOP, client_of, make, make_many, page, post, who

pytestmark = pytest.mark.django_db
SPRING = datetime(2026, 3, 20, tzinfo=UTC)


@pytest.fixture
def tenant() -> Tenant:
    collisions.forget()
    return make_tenant()


def fields_of(document: dict[str, Any], **changes: str) -> dict[str, str]:
    """What a browser sends of a form with this document, some fields changed ("schedule__expression")."""
    sent = {"mode": "form", form.DOCUMENT: json.dumps(document)}
    for pointer, value in form.values_of(document).items():
        if value is True:
            sent[pointer] = "on"
        elif value is not False:
            sent[pointer] = value
    return sent | {f"/{name.replace('__', '/')}": value for name, value in changes.items()}


DOCUMENT: dict[str, Any] = {
    "name": "report",
    "tags": ["a", "b"],
    "schedule": {"type": "cron", "expression": "30 2 * * *", "timezone": "Europe/Paris", "dst_gap": "skip"},
    "handler": NOOP,
    "parameters": {"region": "eu"},
    "retry_policy": {"max_attempts": 7},
    "requires": ["gpu"],
    "notifications": {"on_failure": []},
}


def test_a_form_that_nobody_touched_is_the_document() -> None:
    assert form.document_of(fields_of(DOCUMENT)) == DOCUMENT | {"strict_timing": False, "idempotent": True}


def test_another_type_brings_its_own_fields_and_what_the_form_does_not_hold_stays() -> None:
    sent = fields_of(DOCUMENT, schedule__type="interval", schedule__every_seconds="60", tags="x,, y ", priority="two")
    made = form.document_of(sent | {"/handler/type": "command", "/handler/argv": "echo\r\nhello world\r\n"})
    assert made["schedule"] == {"type": "interval", "every_seconds": 60, "timezone": "Europe/Paris"}
    assert made["handler"] == {"type": "command", "argv": ["echo", "hello world"]}
    assert made["tags"] == ["x", "y"]
    assert made["priority"] == "two"
    assert made["requires"] == ["gpu"]


@pytest.mark.parametrize(
    ("typed", "argv"),
    [
        ('echo "hi  $(date)"', ["/bin/sh", "-c", 'echo "hi  $(date)"']),
        ("/usr/bin/true\n", ["/usr/bin/true"]),
        ("tar\nczf\nmy file.tgz", ["tar", "czf", "my file.tgz"]),
    ],
)
def test_one_line_of_a_command_is_a_shell_line_and_several_are_a_program_with_its_arguments(
    typed: str, argv: list[str]
) -> None:
    sent = fields_of({**DOCUMENT, "handler": {"type": "command"}}, handler__argv=typed)
    made = form.document_of(sent)
    assert made["handler"]["argv"] == argv
    assert form.values_of(made)["/handler/argv"] == typed.strip()


def test_a_command_that_no_line_can_say_stays_as_it_is_while_nobody_types_in_it() -> None:
    argv = ["/opt/my program", "two\nlines"]
    document = {**DOCUMENT, "handler": {"type": "command", "argv": argv}}
    assert form.document_of(fields_of(document))["handler"]["argv"] == argv


@pytest.mark.parametrize("hostile", ["[]", '"x"', "7", "null", '{"schedule": 7, "handler": [], "parameters": 1}'])
def test_the_json_view_may_hold_anything(tenant: Tenant, hostile: str) -> None:
    for mode in ("json", "form"):
        answer = post(tenant, "check", mode=mode, document=hostile)
        assert answer.status_code == 200
        assert answer.json()["errors"]


def test_what_is_no_json_is_told_with_its_place(tenant: Tenant) -> None:
    answer = post(tenant, "check", mode="json", document='{"name":\n oops}').json()
    assert answer["text"] is None
    [error] = answer["errors"]
    assert "at line 2 column 2" in error["problem"]
    sent = fields_of(DOCUMENT, parameters="{region: eu}")
    [error] = post(tenant, "check", **sent).json()["errors"]
    assert error["pointer"] == "/parameters"


def test_errors_name_their_fields_all_at_once(tenant: Tenant) -> None:
    sent = fields_of(DOCUMENT, name="", priority="11", schedule__expression="61 * * * *", schedule__timezone="Pari")
    answer = post(tenant, "check", **sent).json()
    pointers = {error["pointer"] for error in answer["errors"]}
    assert {"/name", "/priority", "/schedule/expression", "/schedule/timezone"} <= pointers
    assert "legal: 1 to 10" in json.dumps(answer["errors"])


def test_while_one_types_the_schedule_is_said_in_words_and_ten_times_in_both_zones(tenant: Tenant) -> None:
    """Row 7.2, in the form."""
    beside = post(tenant, "check", **fields_of(DOCUMENT)).json()["beside"]
    assert "At 02:30 every day (Europe/Paris)" in beside
    assert beside.count('data-zone="Europe/Paris"') == 10
    assert beside.count("02:30:00 CE") == 10
    assert "At 02:00 every day (UTC)" in page(tenant, "tasks/new")


def test_changes_of_the_clock_are_told(tenant: Tenant) -> None:
    schedule = Schedule.parse(DOCUMENT["schedule"])
    notes = preview.of(who(tenant), schedule, now=SPRING).notes
    assert any("2026-03-29" in note and "does not run" in note for note in notes)
    assert any("2026-10-25" in note and "twice" in note for note in notes)


def test_who_else_fires_at_that_minute_is_counted(tenant: Tenant) -> None:
    at_two = {"type": "cron", "expression": "0 2 * * *", "timezone": "UTC"}
    make_many(tenant, 412, schedule=at_two)
    make_many(tenant, 3, "paris-{}", schedule={**at_two, "expression": "0 3 * * *", "timezone": "Europe/Paris"})
    make_many(tenant, 2, "hourly-{}", schedule={"type": "interval", "every_seconds": 3600, "timezone": "UTC"})
    make_many(tenant, 9, "paused-{}", schedule=at_two, paused_at=SPRING)
    make_many(make_tenant(), 9, "foreign-{}", schedule=at_two)
    winter = datetime(2026, 1, 20, tzinfo=UTC)
    found = preview.of(who(tenant), Schedule.parse(at_two), now=winter)
    assert found.times[0].crowd.count == 417
    assert found.crowd is not None
    summer = preview.of(who(tenant), Schedule.parse(at_two), now=winter + timedelta(days=150))
    assert summer.times[0].crowd.count == 414
    own = Task.objects.filter(tenant=tenant, name="task-00000").get()
    assert preview.of(who(tenant), Schedule.parse(at_two), now=winter, own=own).times[0].crowd.count == 416
    beside = post(tenant, "check", **fields_of({**DOCUMENT, "schedule": at_two})).json()["beside"]
    assert "other tasks fire at this minute" in beside


def test_a_task_is_made_once_and_then_changed_with_the_difference_seen(tenant: Tenant) -> None:
    made = post(tenant, "save", **fields_of(DOCUMENT))
    task = Task.objects.get(tenant=tenant)
    assert made.json()["go"] == f"/t/{tenant.slug}/tasks/{task.id}/"
    again = post(tenant, "save", **fields_of(DOCUMENT))
    assert again.status_code == 409
    assert again.json()["errors"][0]["pointer"] == "/name"
    changed = fields_of({**DOCUMENT, "priority": 2})
    answer = post(tenant, f"{task.id}/check", **changed).json()
    assert "<i>+</i>/priority: 2" in answer["beside"]
    assert answer["changed"]
    assert post(tenant, f"{task.id}/check", **fields_of(DOCUMENT)).json()["changed"] is False
    assert TaskVersion.objects.filter(task_id=task.id).count() == 1
    assert post(tenant, f"{task.id}/save", version="1", **changed).status_code == 200
    assert Task.objects.get(id=task.id).version == 2
    assert AuditEntry.objects.filter(tenant_id=tenant.id, action="task.update").count() == 1


def test_an_edit_in_between_is_told_and_not_overwritten(tenant: Tenant) -> None:
    task = make(tenant, "job")
    services.update_task(principal=who(tenant), task_id=task.id, data={"timeout_seconds": 9}, partial=True)
    answer = post(tenant, f"{task.id}/save", version="1", **fields_of({**DOCUMENT, "name": "job", "priority": 2}))
    assert answer.status_code == 409
    assert "user:ada saved version 2 while you edited, and changed timeout_seconds" in answer.json()["problem"]
    assert Task.objects.get(id=task.id).priority == 5
    for version in ("", "x", "٢"):
        assert post(tenant, f"{task.id}/save", version=version, **fields_of(DOCUMENT)).status_code == 422


def test_checks_write_nothing_and_ask_no_name_server(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a name was looked up")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    hook = {**DOCUMENT, "handler": {"type": "webhook", "url": "https://somewhere.example/x"}}
    assert post(tenant, "check", **fields_of(hook)).json()["errors"] == []
    assert not Task.objects.filter(tenant=tenant).exists()
    local = {**DOCUMENT, "handler": {"type": "webhook", "url": "http://127.0.0.1/x"}}
    [error] = post(tenant, "check", **fields_of(local)).json()["errors"]
    assert error["pointer"] == "/handler/url"


@pytest.mark.parametrize("path", ["check", "save", "{}/check", "{}/save"])
def test_viewers_neither_check_nor_save(tenant: Tenant, path: str) -> None:
    task = make(tenant, "job")
    answer = post(tenant, path.format(task.id), Role.VIEWER, version="1", **fields_of(DOCUMENT))
    assert answer.status_code == 403
    assert Task.objects.filter(tenant=tenant).count() == 1


def test_the_edit_page_holds_the_document_in_force(tenant: Tenant) -> None:
    task = make(tenant, "job", parameters={"region": "eu"}, requires=["gpu"])
    html = client_of(tenant).get(f"/t/{tenant.slug}/tasks/{task.id}/edit").content.decode()
    assert 'name="version" value="1"' in html
    assert "&quot;requires&quot;: [" in html
    assert "Nothing yet." in html
