"""One document defines a whole task, and names who is told; channels are the tenant's, their secret parts nobody's."""

import json
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import call_command
from django.test import Client
from pytest_django import Settings

from apps.definitions.dags import files
from apps.executions.models import TaskVersion
from apps.tenants import channels
from apps.tenants.models import AuditEntry, NotificationChannel, Role
from chronoweb.runtime.encryption import Unreadable
from tests.factories import Api, document, make_api, pointers, problem

pytestmark = pytest.mark.django_db

EXAMPLE = json.loads((Path(__file__).resolve().parent.parent / "examples" / "tasks" / "data-pipeline.json").read_text())
HOOK = "https://8.8.8.8/services/T000/B000/the-hidden-part"
ROUTING = "0123456789abcdef0123456789abcdef"
CHANNELS: tuple[dict[str, Any], ...] = (
    {"kind": "slack", "name": "data-engineering", "config": {"url": HOOK}},
    {"kind": "email", "name": "data-team", "config": {"to": ["data@example.com"]}},
    {"kind": "pagerduty", "name": "critical", "config": {"routing_key": ROUTING, "severity": "critical"}},
)


def with_channels() -> Api:
    api = make_api()
    for one in CHANNELS:
        made = api.post("/notification-channels", one)
        assert made.status_code == 201, made.content
    return api


# ---- channels -----------------------------------------------------------------------------------------------------


def test_a_channel_is_kept_and_its_secret_part_never_shown(admin_client: Client) -> None:
    api = with_channels()
    listed = api.get("/notification-channels")
    assert [item["uri"] for item in listed.json()["items"]] == [
        "email://data-team",
        "pagerduty://critical",
        "slack://data-engineering",
    ]
    mail, page, slack = listed.json()["items"]
    assert (mail["config"], mail["secret_fields"]) == ({"to": ["data@example.com"]}, [])
    assert (page["config"], page["secret_fields"]) == ({"severity": "critical"}, ["routing_key"])
    one = api.get(f"/notification-channels/{slack['id']}")
    assert one.json() == slack
    row = NotificationChannel.objects.get(id=slack["id"])
    assert channels.opened(row) == {"url": HOOK}
    pages = [admin_client.get(f"/admin/tenants/notificationchannel/{at}") for at in ("", f"{row.id}/change/")]
    entries = str(list(AuditEntry.objects.filter(tenant=api.tenant).values()))
    seen = [listed, one, *pages]
    assert [answer.status_code for answer in seen] == [200] * 4
    for text in (*(answer.content.decode() for answer in seen), entries, row.sealed, json.dumps(row.config)):
        assert "the-hidden-part" not in text


def test_a_channel_changes_and_what_is_not_given_stays() -> None:
    api = with_channels()
    row = NotificationChannel.objects.get(tenant=api.tenant, kind="pagerduty")
    path = f"/notification-channels/{row.id}"
    assert api.call("put", path, {"config": {"severity": "error"}}).json()["config"] == {"severity": "error"}
    row.refresh_from_db()
    assert channels.opened(row) == {"routing_key": ROUTING}
    other = ROUTING[::-1]
    assert api.call("put", path, {"config": {"routing_key": other}}).json()["config"] == {}
    row.refresh_from_db()
    assert channels.opened(row) == {"routing_key": other}
    problem(api.post("/notification-channels", CHANNELS[2]), 409)
    assert api.call("delete", path).status_code == 204
    problem(api.get(path), 404)
    viewer = make_api(api.tenant, role=Role.VIEWER)
    assert viewer.get("/notification-channels").status_code == 200
    problem(viewer.post("/notification-channels", CHANNELS[2]), 403)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, {"/kind", "/name"}),
        ({"kind": "pigeon", "name": "a", "config": {}}, {"/kind"}),
        ({"kind": "slack", "name": "Big Name", "config": {}}, {"/name"}),
        ({"kind": "slack", "name": "a"}, {"/config"}),
        ({"kind": "slack", "name": "a", "config": {}}, {"/config/url"}),
        ({"kind": "slack", "name": "a", "config": {"url": "http://8.8.8.8/hidden"}}, {"/config/url"}),
        ({"kind": "slack", "name": "a", "config": {"url": "https://169.254.169.254/hidden"}}, {"/config/url"}),
        ({"kind": "webhook", "name": "a", "config": {"url": "https://[::1]/hidden"}}, {"/config/url"}),
        ({"kind": "slack", "name": "a", "config": {"url": HOOK, "token": "hidden"}}, {"/config/token"}),
        ({"kind": "email", "name": "a", "config": {"to": "a@example.com"}}, {"/config/to"}),
        ({"kind": "email", "name": "a", "config": {"to": ["a@example.com\nBcc: b@example.com"]}}, {"/config/to"}),
        ({"kind": "pagerduty", "name": "a", "config": {"routing_key": "hidden key"}}, {"/config/routing_key"}),
        (
            {"kind": "pagerduty", "name": "a", "config": {"routing_key": ROUTING, "severity": "x"}},
            {"/config/severity"},
        ),
        ({"kind": "email", "name": "a", "config": {"to": ["a@example.com"]}, "note": "x"}, {"/note"}),
    ],
)
def test_channels_that_are_none(body: dict[str, Any], expected: set[str]) -> None:
    refused = make_api().post("/notification-channels", body)
    assert pointers(problem(refused, 422)) == expected
    assert "hidden" not in refused.content.decode()


def test_keys_change_for_channels_too(settings: Settings) -> None:
    api = with_channels()
    row = NotificationChannel.objects.get(tenant=api.tenant, kind="slack")
    old, new = list(settings.SECRET_ENCRYPTION_KEYS), [Fernet.generate_key().decode()]
    settings.SECRET_ENCRYPTION_KEYS = new + old
    call_command("reseal_secrets", stdout=StringIO())
    row.refresh_from_db()
    settings.SECRET_ENCRYPTION_KEYS = new
    assert channels.opened(row) == {"url": HOOK}
    settings.SECRET_ENCRYPTION_KEYS = old
    with pytest.raises(Unreadable):
        channels.opened(row)


# ---- definitions --------------------------------------------------------------------------------------------------


def test_one_document_defines_a_whole_task() -> None:
    api = with_channels()
    unknown = problem(api.post("/tasks", EXAMPLE), 422)
    assert pointers(unknown) == {"/handler/environment/WAREHOUSE_URL", "/handler/environment/API_TOKEN"}
    for name in ("WAREHOUSE_PASSWORD", "ORDERS_API_TOKEN"):
        api.post("/secrets", {"name": name, "value": "v"})
    made = api.post("/tasks", EXAMPLE)
    assert made.status_code == 201, made.content
    shown = api.get(f"/tasks/{made.json()['id']}").json()
    for name, value in EXAMPLE.items():
        if name not in ("schedule", "retry_policy"):
            assert shown[name] == value, name
        else:
            assert value.items() <= shown[name].items()
    version = TaskVersion.objects.get(task_id=made.json()["id"])
    assert version.definition["notifications"] == EXAMPLE["notifications"]
    again = {name: shown[name] for name in EXAMPLE}
    assert api.call("put", f"/tasks/{made.json()['id']}", again).json()["version"] == 1, "it may be sent as it is shown"


def test_an_unknown_channel_is_told_with_its_place_and_those_that_there_are() -> None:
    api, other = with_channels(), make_api()
    asked = {"on_failure": ["slack://nobody", "slack://data-engineering"], "on_dlq": ["email://data-team"]}
    wrong = problem(api.post("/tasks", document(notifications=asked)), 422)
    [error] = wrong["errors"]
    assert error["pointer"] == "/notifications/on_failure/0"
    assert error["legal"] == ["email://data-team", "pagerduty://critical", "slack://data-engineering"]
    foreign = problem(other.post("/tasks", document(notifications={"on_dlq": ["email://data-team"]})), 422)
    assert pointers(foreign) == {"/notifications/on_dlq/0"}
    assert "none yet" in foreign["errors"][0]["legal"]


@pytest.mark.parametrize(
    ("notifications", "expected"),
    [
        ([], {"/notifications"}),
        ({"on_error": []}, {"/notifications/on_error"}),
        ({"on_failure": "slack://a"}, {"/notifications/on_failure"}),
        (
            {"on_failure": ["slack:a", "slack://A b", "pigeon://a", 1]},
            {f"/notifications/on_failure/{n}" for n in range(4)},
        ),
        ({"on_dlq": ["slack://a"] * 21}, {"/notifications/on_dlq"}),
    ],
)
def test_notifications_that_are_none(notifications: Any, expected: set[str]) -> None:
    api = make_api()
    assert pointers(problem(api.post("/tasks", document(notifications=notifications)), 422)) == expected
    dag = {"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}], "notifications": notifications}
    assert pointers(problem(api.post("/dags", dag), 422)) == expected


def test_notifications_are_versioned_and_hold_their_channel() -> None:
    api = with_channels()
    made = api.post("/tasks", document(notifications={"on_failure": ["slack://data-engineering"] * 2, "on_dlq": []}))
    path = f"/tasks/{made.json()['id']}"
    assert made.json()["notifications"] == {"on_failure": ["slack://data-engineering"]}
    slack = NotificationChannel.objects.get(tenant=api.tenant, kind="slack")
    refused = problem(api.call("delete", f"/notification-channels/{slack.id}"), 409)
    assert [user["name"] for user in refused["used_by"]] == [made.json()["name"]]
    edited = api.call("patch", path, {"notifications": {"on_success": ["email://data-team"]}}).json()
    assert (edited["version"], edited["notifications"]) == (2, {"on_success": ["email://data-team"]})
    assert api.call("delete", f"/notification-channels/{slack.id}").status_code == 204
    assert api.call("patch", path, {"description": "the rest stays as it was"}).status_code == 200


def test_dags_name_channels_and_files_keep_them() -> None:
    api = with_channels()
    told = {"on_failure": ["pagerduty://critical"]}
    data = {"name": "d", "nodes": [{"id": "a", "handler": "demo.noop"}], "notifications": told}
    made = api.post("/dags", data)
    assert made.status_code == 201, made.content
    shown = api.get(f"/dags/{made.json()['id']}").json()
    assert shown["notifications"] == told
    assert files.read(files.write(shown))["notifications"] == told
    page = NotificationChannel.objects.get(tenant=api.tenant, kind="pagerduty")
    refused = problem(api.call("delete", f"/notification-channels/{page.id}"), 409)
    assert [(user["type"], user["name"]) for user in refused["used_by"]] == [("dag", "d")]
    wrong = problem(api.post("/dags", {**data, "name": "e", "notifications": {"on_dlq": ["slack://x"]}}), 422)
    assert pointers(wrong) == {"/notifications/on_dlq/0"}


# ---- limits that contradict ---------------------------------------------------------------------------------------

_CONTAINER = EXAMPLE["handler"]
_WEBHOOK = {"type": "webhook", "url": "https://8.8.8.8/"}


@pytest.mark.parametrize(
    ("changes", "other"),
    [
        ({"timeout_seconds": 60, "timeouts": {"total_seconds": 59}}, "/timeouts/total_seconds"),
        ({"timeout_seconds": 60, "timeouts": {"heartbeat_seconds": 61}}, "/timeouts/heartbeat_seconds"),
        (
            {
                "timeout_seconds": 60,
                "handler": {"type": "container", "image": "a", "resource_requirements": {"timeout_seconds": 61}},
            },
            "/handler/resource_requirements/timeout_seconds",
        ),
        ({"timeout_seconds": 60, "handler": {**_WEBHOOK, "read_timeout_seconds": 61}}, "/handler/read_timeout_seconds"),
    ],
)
def test_two_limits_that_contradict_are_refused_with_both_named(changes: dict[str, Any], other: str) -> None:
    api = make_api()
    refused = problem(api.post("/tasks", document(**changes)), 400)
    assert refused["type"] == "urn:chronoweb:problem:contradiction"
    assert [error["pointer"] for error in refused["errors"]] == ["/timeout_seconds", other]
    assert other[1:].replace("/", ".") in refused["detail"]
    fits = deepcopy(changes)
    fits["timeout_seconds"] = 61 if "total" not in other else 59
    made = api.post("/tasks", document(**fits))
    assert made.status_code == 201, made.content
    edit = problem(api.call("patch", f"/tasks/{made.json()['id']}", {"timeout_seconds": 60}), 400)
    assert [error["pointer"] for error in edit["errors"]] == ["/timeout_seconds", other]
    untouched = api.call("patch", f"/tasks/{made.json()['id']}", {"description": "x"})
    assert untouched.status_code == 200


def test_a_default_gives_way_and_other_faults_come_first() -> None:
    api = make_api()
    made = api.post("/tasks", document(timeouts={"total_seconds": 5}))
    assert made.status_code == 201, made.content
    edited = api.call("patch", f"/tasks/{made.json()['id']}", {"timeouts": {"total_seconds": 4}})
    assert edited.status_code == 200, edited.content
    wrong = document(timeout_seconds=60, timeouts={"total_seconds": 5}, priority=11)
    assert pointers(problem(api.post("/tasks", wrong), 422)) == {"/priority"}
    node = {"id": "a", "handler": "demo.noop", "timeout_seconds": 60, "timeouts": {"total_seconds": 5}}
    refused = problem(api.post("/dags", {"name": "d", "nodes": [node]}), 422)
    assert pointers(refused) == {"/nodes/0/timeout_seconds", "/nodes/0/timeouts/total_seconds"}
