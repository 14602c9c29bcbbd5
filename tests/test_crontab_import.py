"""Crontabs become tasks, by command and REST: each line accounted for, nothing twice, what others changed kept."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from apps.definitions import services
from apps.definitions.crontab import importing
from apps.definitions.models import Task
from apps.tenants.models import AuditEntry, Role, Tenant
from chronoweb.runtime.terminal import is_harmless
from tests.factories import Api, make_api, make_task, make_tenant, pointers, problem

pytestmark = pytest.mark.django_db
SYSTEM = """\
# /etc/crontab: system-wide
SHELL=/bin/sh
PATH=/usr/sbin:/usr/bin
MAILTO="ops@example.com"

17 *\t* * *\troot\tcd / && run-parts --report /etc/cron.hourly
47 6\t* * 7\troot\ttest -x /usr/sbin/anacron || ( cd / && run-parts --report /etc/cron.weekly )
CRON_TZ=Europe/Paris
30 2 * * *  backup  mail -s done ops%It is 100\\% done.%
@reboot     root    /usr/local/bin/start
0 0 31 2 *  root    never
"""


@pytest.fixture
def tenant() -> Tenant:
    return make_tenant()


@pytest.fixture
def api() -> Api:
    return make_api()


def run(tenant: Tenant, path: Path, *words: str) -> str:
    out = io.StringIO()
    call_command("import_crontab", str(path), "--tenant", tenant.slug, "--timezone", "UTC", *words, stdout=out)
    return out.getvalue()


def written(folder: Path, text: str, name: str = "crontab") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def tasks_of(tenant: Tenant) -> dict[str, Task]:
    return {task.name: task for task in Task.objects.filter(tenant=tenant, deleted_at=None)}


def test_what_a_crontab_says_is_shown_and_not_obeyed(tenant: Tenant, tmp_path: Path) -> None:
    said = run(tenant, written(tmp_path, "# \x9b2J\n1 2 * * * echo \x1b]0;owned\x07 \u202e x\n"), "--user", "--dry-run")
    assert is_harmless(said)
    assert r"\x1b]0;owned\x07 \u202e" in said


def test_a_system_crontab_line_by_line(tenant: Tenant, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = io.StringIO()
    words = ("import_crontab", str(written(tmp_path, SYSTEM)), "--tenant", tenant.slug, "--timezone", "UTC")
    with pytest.raises(CommandError, match="2 of its lines were refused") as caught:
        call_command(*words, stdout=out)
    assert caught.value.returncode == 3
    said = out.getvalue()
    for expected in (
        "read as a system crontab, because behind the times of every entry stands the name of an account",
        "line 6: 17 *\t* * *\troot",
        "+ created: task 'crontab: run-parts cron.hourly'",
        "runs at minute 17 of every hour (UTC)",
        "no jitter: it starts at these times",
        "runs at 06:47 on Sunday (UTC)",
        "runs at 02:30 every day (Europe/Paris)",
        ":30 CE",
        "02:30 does not come: it runs once, at 03:00",
        "02:30 comes twice: it runs the first time only",
        "ran as root; here commands run as a user of the tenant's own",
        "nothing is mailed to ops@example.com",
        "! refused: @reboot is not a time",
        "never fires: day of month 31 does not come in month 2",
        "lines 11: entries 5, variables 4, comments 1, blank 1",
        "entries 5: created 3, updated 0, unchanged 0, refused 2",
    ):
        assert expected in said, said
    assert said.count("next: ") == 3
    made = tasks_of(tenant)
    assert set(made) == {"crontab: run-parts cron.hourly", "crontab: run-parts cron.weekly", "crontab: mail"}
    mail = made["crontab: mail"]
    assert mail.handler["argv"] == ["/bin/sh", "-c", "mail -s done ops"]
    assert mail.handler["stdin"] == "It is 100% done.\n"
    assert mail.handler["environment"]["PATH"] == "/usr/sbin:/usr/bin"
    assert mail.schedule["timezone"] == "Europe/Paris"
    assert "crontab-user:backup" in mail.tags


def test_a_dry_run_shows_the_same_and_writes_nothing(tenant: Tenant, tmp_path: Path) -> None:
    path = written(tmp_path, "@daily /usr/bin/x\n")
    said = run(tenant, path, "--dry-run")
    assert "+ would be created: task 'crontab: x'" in said
    assert "would be created 1, would be updated 0, unchanged 0, refused 0; nothing was written" in said
    assert tasks_of(tenant) == {}
    assert not AuditEntry.objects.filter(tenant=tenant).exists()


def test_again_adds_nothing_and_changes_what_changed(tenant: Tenant, tmp_path: Path) -> None:
    path = written(tmp_path, "0 3 * * * x\n0 4 * * * y --all\n")
    assert "created 2" in run(tenant, path)
    assert "created 0, updated 0, unchanged 2" in run(tenant, path)
    assert {task.version for task in tasks_of(tenant).values()} == {1}
    path = written(tmp_path, "# moved by a line\nA=1\n0 4 * * * y --all\n30 3 * * * x\n")
    dry = run(tenant, path, "--dry-run")
    assert "~ would be updated: task 'crontab: x'" in dry
    assert "'expression': '0 3 * * *'" in dry
    assert {task.version for task in tasks_of(tenant).values()} == {1}
    assert "created 0, updated 2, unchanged 0" in run(tenant, path)
    made = tasks_of(tenant)
    assert made["crontab: x"].schedule["expression"] == "30 3 * * *"
    assert made["crontab: y"].handler["environment"] == {"A": "1"}
    assert len(made) == 2
    assert "created 0, updated 0, unchanged 2" in run(tenant, path)


def test_what_people_have_changed_stays(tenant: Tenant, tmp_path: Path, api: Api) -> None:
    path = written(tmp_path, "TOKEN=hush\n@daily x\n")
    said = run(api.tenant, path)
    assert "make it a secret and put {{secret:TOKEN}}" in said
    (task,) = tasks_of(api.tenant).values()
    assert api.post("/secrets", {"name": "TOKEN", "value": "hush-hush"}).status_code == 201
    handler = {**task.handler, "environment": {"TOKEN": "{{secret:TOKEN}}"}, "limits": {"cpu_seconds": 60}}
    changes = {"name": "renamed", "tags": [*task.tags, "mine"], "timeout_seconds": 60, "handler": handler}
    services.update_task(principal=api.principal, task_id=task.id, data=changes, partial=True)
    assert "unchanged 1" in run(api.tenant, path)
    assert "updated 1" in run(api.tenant, written(tmp_path, "TOKEN=hush\n@weekly x\n"))
    (task,) = tasks_of(api.tenant).values()
    assert (task.name, task.timeout_seconds) == ("renamed", 60)
    assert "mine" in task.tags
    assert task.handler["environment"] == {"TOKEN": "{{secret:TOKEN}}"}
    assert task.handler["limits"] == {"cpu_seconds": 60}


def test_equal_lines_and_taken_names(tenant: Tenant, tmp_path: Path, api: Api) -> None:
    make_task(api.principal, name="crontab: x")
    path = written(tmp_path, "0 3 * * * x\n0 4 * * * x\n0 5 * * * x -a\n")
    run(api.tenant, path)
    names = {"crontab: x", "crontab: x (line 1)", "crontab: x (line 2)", "crontab: x (line 3)"}
    assert set(tasks_of(api.tenant)) == names
    assert "unchanged 3" in run(api.tenant, path)
    assert "created 3" in run(api.tenant, written(tmp_path, path.read_text(), "other"))


def test_lines_that_are_gone(tenant: Tenant, tmp_path: Path) -> None:
    run(tenant, written(tmp_path, "0 3 * * * x\n0 4 * * * y\n"))
    path = written(tmp_path, "0 3 * * * x\n")
    assert "? 'crontab: y': its line is no longer in the file; the task stays" in run(tenant, path)
    assert len(tasks_of(tenant)) == 2
    assert "would be deleted" in run(tenant, path, "--dry-run", "--prune")
    assert "the task was deleted" in run(tenant, path, "--prune")
    assert set(tasks_of(tenant)) == {"crontab: x"}


def test_strict_timing(tenant: Tenant, tmp_path: Path) -> None:
    path = written(tmp_path, "0 3 * * * x\n")
    said = run(tenant, path, "--no-strict-timing")
    assert "within ±120 s, to spread the load" in said
    said = run(tenant, path)
    assert "strict_timing: False → True" in said
    assert "no jitter: it starts at these times" in said
    (task,) = tasks_of(tenant).values()
    assert task.jitter_ms == 0


def test_a_line_never_starts_before_its_time(api: Api, tenant: Tenant, tmp_path: Path) -> None:
    """A midnight line on the day before would do the wrong day's work."""
    text = "".join(f"0 0 * * * close-the-day {n}\n" for n in range(10))
    run(tenant, written(tmp_path, text))
    assert api.post("/import/crontab", {"text": text}).json()["counts"]["created"] == 10
    found = Task.objects.filter(tenant__in=[tenant, api.tenant])
    assert {task.jitter_ms for task in found} == {0}
    assert len(found) == 20
    loose = api.post("/import/crontab", {"text": text, "strict_timing": False}).json()
    assert loose["counts"]["updated"] == 10


def test_the_example_is_imported_whole(tenant: Tenant) -> None:
    said = run(tenant, settings.BASE_DIR / "examples" / "crontab")
    assert "created 6, updated 0, unchanged 0, refused 0" in said
    assert "runs at 09:00 on Monday (America/New_York)" in said


def test_files_that_cannot_be_read(tenant: Tenant, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be read: No such file"):
        run(tenant, tmp_path / "none")
    path = tmp_path / "latin"
    path.write_bytes(b"# ok\n@daily caf\xe9\n")
    with pytest.raises(CommandError, match="not UTF-8: line 2"):
        run(tenant, path)
    with pytest.raises(CommandError, match="is not a time zone"):
        run(tenant, written(tmp_path, "@daily x\n"), "--timezone", "Mars/Base")


def test_over_rest(api: Api) -> None:
    asked = {"text": SYSTEM, "timezone": "America/New_York", "dry_run": True}
    answer = api.post("/import/crontab", asked)
    assert answer.status_code == 200, answer.content
    body = answer.json()
    assert (body["form"], body["dry_run"]) == ("system", True)
    assert body["counts"] == {"lines": 11, "created": 3, "updated": 0, "unchanged": 0, "refused": 2}
    assert [line["number"] for line in body["lines"]] == list(range(1, 12))
    hourly, refused = body["lines"][5], body["lines"][9]
    entry = hourly["entry"]
    assert (hourly["kind"], entry["outcome"], entry["task_id"]) == ("entry", importing.CREATED, None)
    assert entry["schedule"]["timezone"] == "America/New_York"
    assert len(entry["next_fire_times"]) == 3
    assert "no boot" in refused["entry"]["problem"]
    assert tasks_of(api.tenant) == {}
    made = api.post("/import/crontab", {**asked, "dry_run": False}).json()
    assert str(tasks_of(api.tenant)["crontab: mail"].id) == made["lines"][8]["entry"]["task_id"]
    again = api.post("/import/crontab", {**asked, "dry_run": False}).json()
    assert again["counts"]["unchanged"] == 3


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/text"),
        ({"text": 1}, "/text"),
        ({"text": "\n" * 10_001}, "/text"),
        ({"text": "@daily x\n" * 1001}, "/text"),
        ({"text": "", "timezone": "Mars/Base"}, "/timezone"),
        ({"text": "", "timezone": []}, "/timezone"),
        ({"text": "", "form": "other"}, "/form"),
        ({"text": "", "dry_run": 1}, "/dry_run"),
        ({"text": "", "source": " "}, "/source"),
        ({"text": "", "source": "x" * 51}, "/source"),
        ({"text": "", "what": 1}, "/what"),
    ],
)
def test_bad_input_over_rest(api: Api, body: dict[str, Any], pointer: str) -> None:
    assert pointers(problem(api.post("/import/crontab", body), 422)) == {pointer}


def test_tenants_apart_and_viewers_out(api: Api) -> None:
    other = make_api()
    text = {"text": "@daily x\n"}
    for each in (api, other):
        assert each.post("/import/crontab", text).json()["counts"]["created"] == 1
    problem(make_api(api.tenant, Role.VIEWER).post("/import/crontab", text), 403)
    assert len(tasks_of(api.tenant)) == 1


def test_an_idempotency_key_gives_the_same_answer(api: Api) -> None:
    def send() -> Any:
        return api.post("/import/crontab", {"text": "@daily x\n"}, headers={"Idempotency-Key": "once"})

    first, again = send(), send()
    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"
