"""The page where a crontab is pasted: each line's fate while one types, and an import that is harmless to repeat."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.console.crontab import lines
from apps.definitions import collisions
from apps.definitions.crontab import importing, reading
from apps.definitions.models import Task
from apps.tenants.models import AuditEntry, Role, Tenant
from tests.console_ledger import HOSTILE, make_tenant
from tests.test_console_task_pages import client_of, make_many, page, post, who

pytestmark = pytest.mark.django_db
PASTED = """\
# nightly
PATH=/usr/bin
30 2 * * * x --secret
@reboot y
0 0 31 2 * z
"""


@pytest.fixture
def tenant() -> Tenant:
    collisions.forget()
    return make_tenant()


def ask(tenant: Tenant, text: str = PASTED, act: str = "check", role: Role = Role.OPERATOR, **fields: Any) -> Any:
    given = {"text": text, "timezone": "Europe/Paris", "form": "user", "source": "shop", "strict_timing": "on"}
    return post(tenant, f"crontab/{act}", role, **given | fields)


def test_each_line_is_said_in_words_or_why_it_is_refused(tenant: Tenant) -> None:
    body = ask(tenant).json()
    assert body["writes"] == 1
    html = body["html"]
    for expected in (
        ">At 02:30 every day (Europe/Paris)</p>",
        "02:30:00 CE",
        'data-zone="Europe/Paris"',
        "02:30 does not come",
        "02:30 comes twice",
        "No jitter: it starts at these times.",
        "<bdi>shop: x</bdi>",
        'sets <b class="mono">PATH</b> for what follows',
        "line 4: @reboot is not a time",
        "line 5: never fires: day of month 31 does not come in month 2",
        "Entries 3: would be created 1, would be updated 0, unchanged 0, refused 2; nothing was written.",
    ):
        assert expected in html, expected
    assert html.count("data-zone=") == 3
    assert Task.objects.filter(tenant=tenant).count() == AuditEntry.objects.filter(tenant=tenant).count() == 0
    assert "within ±120 s" in post(tenant, "crontab/check", text="0 3 * * * x", timezone="UTC").json()["html"]


def test_what_is_imported_is_linked_and_a_second_import_changes_nothing(tenant: Tenant) -> None:
    first = ask(tenant, act="import").json()
    task = Task.objects.get(tenant=tenant)
    assert f'href="/t/{tenant.slug}/tasks/{task.id}/"' in first["html"]
    assert (first["said"], task.name, task.schedule["timezone"]) == ("1 created, 0 changed", "shop: x", "Europe/Paris")
    assert AuditEntry.objects.filter(tenant=tenant, action="task.create").count() == 1
    again = ask(tenant, act="import").json()
    assert (again["said"], again["writes"]) == ("nothing to change", 0)
    assert "already there" in ask(tenant).json()["html"]
    moved = ask(tenant, "45 2 * * * x --secret\n").json()
    assert "schedule: 30 2 * * * → 45 2 * * *" in moved["html"]
    gone = ask(tenant, "1 1 * * * other\n").json()
    assert "its line is gone. It stays, and runs." in gone["html"]
    task.refresh_from_db()
    assert (task.version, Task.objects.filter(tenant=tenant).count()) == (1, 1)


def test_others_at_the_same_minute_are_counted_those_of_the_file_too(tenant: Tenant) -> None:
    make_many(tenant, 9, schedule={"type": "cron", "expression": "0 3 * * *", "timezone": "UTC"})
    text = "0 3 * * * a\n0 3 * * * b\n*/30 * * * * c\n5 5 * * * d\n"
    html = ask(tenant, text, timezone="UTC").json()["html"]
    assert html.count("11 others</span>") >= 6
    assert "11 others start at" in html
    ask(tenant, text, "import", timezone="UTC")
    collisions.forget()
    assert "11 others start at" in ask(tenant, text, timezone="UTC").json()["html"]


def test_what_cannot_be_read_is_said(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_BYTES", 20)
    cases: dict[str, dict[str, Any]] = {
        "text": {"text": "x" * 21},
        "timezone": {"timezone": "Mars/Base", "text": ""},
        "form": {"form": "other"},
    }
    for field, given in cases.items():
        answer = ask(tenant, **{"text": "", **given})
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_viewers_are_told_the_role_and_others_nothing(tenant: Tenant) -> None:
    for act in ("check", "import"):
        assert ask(tenant, act=act, role=Role.VIEWER).status_code == 403
    answer = client_of(tenant, Role.VIEWER).get(f"/t/{tenant.slug}/tasks/crontab")
    assert answer.status_code == 403
    assert "needs the role operator" in answer.content.decode()
    stranger = client_of(make_tenant())
    assert stranger.post(f"/t/{tenant.slug}/tasks/crontab/import", {"text": PASTED}).status_code == 404
    assert f"/t/{tenant.slug}/tasks/crontab" in page(tenant, "tasks/")
    assert f"/t/{tenant.slug}/tasks/crontab" not in page(tenant, "tasks/", Role.VIEWER)
    assert "data-crontab" in page(tenant, "tasks/crontab")


def test_what_a_line_says_is_shown_and_not_obeyed(tenant: Tenant) -> None:
    html = ask(tenant, f"1 2 * * * {HOSTILE}\n@reboot {HOSTILE}\n").json()["html"]
    assert "<img" not in html


def test_a_check_asks_the_database_no_more_for_more_lines(tenant: Tenant) -> None:
    def queries(text: str) -> int:
        collisions.forget()
        crontab = reading.read_crontab(text, form="user")
        with CaptureQueriesContext(connection) as seen:
            done = importing.import_crontab(
                principal=who(tenant), crontab=crontab, source="shop", timezone="UTC", dry_run=True
            )
            assert len(lines.shown(who(tenant), done)["lines"]) == len(crontab.lines)
        return len(seen)

    made: Callable[[int], str] = lambda count: "".join(f"{n} 3 * * * same {n}\n" for n in range(count))  # noqa: E731
    assert queries(made(1)) == queries(made(50)) <= 7
