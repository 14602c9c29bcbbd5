"""`manage.py ctl`: every verb against the real API, what it prints, how it ends, and that it needs no database."""

import io
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from django.conf import settings
from django.test import Client

from apps.ctl import client, follow
from apps.ctl.arguments import KEY_VARIABLE, URL_VARIABLE
from apps.ctl.errors import CtlError, Exit
from apps.ctl.main import main
from apps.ctl.output import Output
from apps.definitions.models import Dag, Task
from apps.executions.models import DeadLetter, Execution
from apps.executions.states import Status
from apps.tenants.models import Role
from chronoweb.runtime.clock import SystemClock
from chronoweb.runtime.terminal import is_harmless, visible
from tests.factories import MANUAL, Api, document, execution, make_api, make_task, reread
from tests.test_api_workers import worker_row
from tests.test_dag_document import SHORT

KEY = "cw_0123456789abcdef"


class HandClock(SystemClock):
    """Time passes by waiting alone."""

    passed = 0.0

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds


class Application(httpx.BaseTransport):
    """The application in this process, on the test's own connection to the database."""

    def __init__(self) -> None:
        self._client = Client()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        kept = {name: value for name, value in request.headers.items() if name in ("authorization", "accept")}
        for name in ("Idempotency-Key", "If-Match", "Last-Event-ID"):
            if name in request.headers:
                kept[name] = request.headers[name]
        path = request.url.raw_path.decode()
        answer = self._client.generic(
            request.method, path, request.read(), content_type="application/json", headers=kept
        )
        return httpx.Response(answer.status_code, headers=dict(answer.items()), content=answer.content)


class Ctl:
    """Runs `ctl` as its key's holder, against the application in this process."""

    def __init__(self, api: Api, transport: httpx.BaseTransport | None = None) -> None:
        self.api = api
        self.transport = transport or Application()
        self.out = self.err = ""

    def __call__(self, *words: str, ends: Exit = Exit.DONE) -> str:
        out, err = io.StringIO(), io.StringIO()
        environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: self.api.key}
        code = main(words, environment=environment, out=out, err=err, transport=self.transport)
        self.out, self.err = out.getvalue(), err.getvalue()
        assert code == ends, (code, self.out, self.err)
        return self.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))


@pytest.fixture
def api(db: None) -> Api:
    return make_api()


@pytest.fixture
def ctl(api: Api) -> Ctl:
    return Ctl(api)


def written(folder: Path, content: Any, name: str = "d.yaml") -> str:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return str(path)


# ---- tasks --------------------------------------------------------------------------------------------------------


def test_tasks_from_file_to_deletion(ctl: Ctl, tmp_path: Path) -> None:
    nightly = document(name="nightly", schedule={"type": "cron", "expression": "0 2 * * *", "timezone": "Europe/Paris"})
    file = written(tmp_path, [nightly, document(name="other")])
    assert "nightly: created, version 1, id " in ctl("tasks", "create", "-f", file)
    listed = ctl("tasks", "list")
    assert listed.splitlines()[0].split() == ["NAME", "SCHEDULE", "HANDLER", "PRIORITY", "NEXT", "PAUSED", "ID"]
    assert "0 2 * * * (Europe/Paris)" in listed
    assert [task["name"] for task in ctl.json("tasks", "list", "--search", "night")] == ["nightly"]
    shown = yaml.safe_load(ctl("-o", "yaml", "tasks", "show", "nightly"))
    assert shown["schedule"]["timezone"] == "Europe/Paris"
    assert ctl.json("tasks", "show", shown["id"])["id"] == shown["id"]
    assert "nightly: paused" in ctl("tasks", "pause", "nightly", "--note", "until Monday")
    assert [task["paused_note"] for task in ctl.json("tasks", "list", "--paused")] == ["until Monday"]
    assert len(ctl.json("tasks", "list", "--no-paused")) == 1
    assert "nightly: goes on, next at " in ctl("tasks", "resume", "nightly")
    assert "nightly: deleted" in ctl("tasks", "delete", "nightly")
    ctl("tasks", "show", "nightly", ends=Exit.UNKNOWN)
    assert "ctl: there is none of tasks with the name 'nightly'" in ctl.err


def test_apply_makes_tasks_what_the_file_says(ctl: Ctl, tmp_path: Path) -> None:
    wanted = {"name": "a", "schedule": {"type": "manual"}, "handler": {"type": "python", "name": "demo.noop"}}
    file = written(tmp_path, wanted)
    assert "a: would be created; nothing was written" in ctl("tasks", "apply", "-f", file, "--dry-run")
    assert not Task.objects.filter(tenant=ctl.api.tenant).exists()
    assert "a: created, version 1" in ctl("tasks", "apply", "-f", file)
    assert "a: unchanged, version 1" in ctl("tasks", "apply", "-f", file)
    file = written(tmp_path, {**wanted, "priority": 2})
    assert "priority: 5 → 2" in ctl("tasks", "apply", "-f", file, "--dry-run")
    assert "a: edited, version 2" in ctl("tasks", "apply", "-f", file)
    assert ctl.json("tasks", "apply", "-f", file)["version"] == 2


def test_trigger_with_parameters(ctl: Ctl) -> None:
    make_task(ctl.api.principal, name="a")
    said = ctl("tasks", "trigger", "a", "--parameters", '{"x": 1}', "-p", "y=2", "-p", "day=2026-03-01", "-p", "z=")
    assert ": scheduled, due at " in said
    (made,) = Execution.objects.filter(tenant=ctl.api.tenant)
    assert made.payload == {"x": 1, "y": 2, "day": "2026-03-01", "z": ""}
    first = ctl.json("tasks", "trigger", "a", "--idempotency-key", "k")["id"]
    assert ctl.json("tasks", "trigger", "a", "--idempotency-key", "k")["id"] == first
    assert ctl.json("tasks", "trigger", "a", "--run-at", "2027-01-01T00:00:00Z")["run_at"].startswith("2027")


def test_waiting_ends_as_the_execution_does(ctl: Ctl) -> None:
    task = make_task(ctl.api.principal, name="a")
    whole = Application()
    ctl("tasks", "trigger", "a", "--wait", "0", ends=Exit.FAILED)
    assert "is still scheduled after 0 s" in ctl.err
    for status, ends in ((Status.COMPLETED, Exit.DONE), (Status.DEAD_LETTER, Exit.FAILED)):
        row = execution(task, status, idempotency_key=f"{task.id}#{status.name}")
        ctl("runs", "show", str(row.id))

        def answer(request: httpx.Request, row: Execution = row) -> httpx.Response:
            if request.method == "POST":
                return httpx.Response(202, json={"id": str(row.id)})
            return whole.handle_request(request)

        Ctl(ctl.api, _Answers(answer))("tasks", "trigger", str(task.id), "--wait", "5", ends=ends)


# ---- executions ---------------------------------------------------------------------------------------------------


def test_executions(ctl: Ctl) -> None:
    task = make_task(ctl.api.principal, name="a")
    done, waiting = execution(task, Status.COMPLETED), execution(task)
    assert len(ctl.json("runs", "list", "--task", "a")) == 2
    (found,) = ctl.json("executions", "list", "--status", "completed,dead_letter")
    assert found["id"] == str(done.id)
    assert ctl.json("runs", "list", "--until", "2020-01-01T00:00:00Z") == []
    assert "scheduled" in ctl("runs", "show", str(waiting.id))
    assert "cancelled" in ctl("runs", "cancel", str(waiting.id))
    assert reread(waiting).state is Status.CANCELLED
    ctl("runs", "cancel", str(done.id), ends=Exit.CONFLICT)
    assert ctl.json("runs", "retry", str(done.id))["rerun_of"] == str(done.id)
    assert ctl("runs", "logs", str(done.id)) == ""


def test_lists_go_on_over_pages(ctl: Ctl) -> None:
    task = make_task(ctl.api.principal, name="a")
    for _ in range(5):
        execution(task)
    pages: list[str] = []
    whole = Application()

    def count(request: httpx.Request) -> httpx.Response:
        pages.append(request.url.query.decode())
        smaller = request.url.copy_merge_params({"limit": "2"})
        inner = httpx.Request("GET", smaller, headers=request.headers)
        return whole.handle_request(inner)

    found = Ctl(ctl.api, _Answers(count)).json("runs", "list", "--limit", "100")
    assert len({row["id"] for row in found}) == 5
    assert len(pages) == 3


# ---- DAGs ---------------------------------------------------------------------------------------------------------


def test_dags(ctl: Ctl, tmp_path: Path) -> None:
    file = written(tmp_path, SHORT)
    dry = ctl("dags", "apply", "-f", file, "--dry-run")
    assert "  + /nodes/invoice: " in dry
    assert "would become version 1; nothing was written" in dry
    assert not Dag.objects.filter(tenant=ctl.api.tenant).exists()
    name = str(SHORT.get("name") or SHORT["dag"])
    assert f"{name}: version 1 is in force, id " in ctl("dags", "apply", "-f", file)
    assert "no difference, version 1 stays" in ctl("dags", "apply", "-f", file)
    smaller = written(tmp_path, {**SHORT, "tasks": [SHORT["tasks"][0]]})
    assert "  - /nodes/invoice: " in ctl("dags", "apply", "-f", smaller)
    assert [dag["version"] for dag in ctl.json("dags", "list")] == [2]
    assert name in ctl("dags", "list")
    run = ctl.json("dags", "trigger", name)["id"]
    assert [each["id"] for each in ctl.json("dags", "runs", name)] == [run]
    shown = ctl("dags", "run", run)
    assert "NODE" in shown
    assert ctl.json("dags", "run", run)["nodes"]


# ---- dead letters, workers, who -----------------------------------------------------------------------------------


def test_dead_letters(ctl: Ctl) -> None:
    task = make_task(ctl.api.principal, name="a")
    first, second = execution(task, Status.DEAD_LETTER), execution(task, Status.DEAD_LETTER)
    listed = ctl("dlq", "list", "--task", "a")
    assert "ValueError" in listed
    assert len(ctl.json("dlq", "list")) == 2
    assert "no" in ctl("dlq", "show", str(first.id))
    assert "again" in ctl("dlq", "retry", str(first.id), "--from-start")
    assert "discarded" in ctl("dlq", "discard", str(second.id), "--reason", "old")
    assert not DeadLetter.objects.filter(tenant=ctl.api.tenant).exists()


def test_many_dead_letters_at_once() -> None:
    """What is sent; the server's side of it is tested with the server."""
    sent: list[tuple[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"items": [{"id": ID}], "next_cursor": None})
        sent.append((request.url.path, json.loads(request.read())))
        told = {"matching": 3, "id": ID, "total": 3, "per_second": 5, "counted_at": "2026-01-01T00:00:00Z"}
        told |= {"done": 3, "refused": [], "remaining": 0}
        return httpx.Response(202, json=told)

    def run(*words: str, ends: Exit = Exit.DONE) -> str:
        out, err = io.StringIO(), io.StringIO()
        environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
        assert main(words, environment=environment, out=out, err=err, transport=_Answers(answer)) == ends
        return out.getvalue() + err.getvalue()

    assert "say --all" in run("dlq", "retry-all", ends=Exit.USAGE)
    assert "3 would run again" in run("dlq", "retry-all", "--dry-run")
    run("dlq", "retry-all", "--task", "a", "--since", "2026-01-01T00:00:00Z", "--rate", "5", "--from-start")
    assert "3 run again, 5 a second" in run("dlq", "retry-all", "--all")
    run("dlq", "stop", ID)
    assert "say --all" in run("dlq", "discard-all", ends=Exit.USAGE)
    assert "3 discarded" in run("dlq", "discard-all", "--id", ID, "--reason", "old")
    run("dlq", "retry-all", "--id", ID, "--current-version")
    run("runs", "retry", ID, "--current-version")
    assert sent == [
        ("/api/v1/admin/dlq/retry-all", {"dry_run": True}),
        (
            "/api/v1/admin/dlq/retry-all",
            {"task_id": ID, "since": "2026-01-01T00:00:00Z", "per_second": 5, "from_start": True},
        ),
        ("/api/v1/admin/dlq/retry-all", {}),
        (f"/api/v1/admin/dlq/replays/{ID}/stop", {}),
        ("/api/v1/admin/dlq/discard-all", {"ids": [ID], "reason": "old", "dry_run": True}),
        ("/api/v1/admin/dlq/discard-all", {"ids": [ID], "reason": "old", "until": "2026-01-01T00:00:00Z"}),
        ("/api/v1/admin/dlq/retry-all", {"ids": [ID], "current_version": True}),
        (f"/api/v1/executions/{ID}/retry", {"current_version": True}),
    ]


def test_workers_and_who(ctl: Ctl) -> None:
    assert ctl("workers").split()[:2] == ["ID", "STATE"]
    assert ctl.json("workers") == ctl.json("workers", "list") == []
    assert f"operator of {ctl.api.tenant.name}" in ctl("whoami")
    assert ctl.json("whoami")["slug"] == ctl.api.tenant.slug


def test_owners_drain_a_worker(ctl: Ctl) -> None:
    own = worker_row(tenant_id=ctl.api.tenant.id, active=3)
    ctl("drain", str(own.pk), ends=Exit.NOT_ALLOWED)
    owner = Ctl(make_api(ctl.api.tenant, role=Role.OWNER))
    assert f"worker {own.pk} has been asked to drain; it runs 3 now" in owner("drain", str(own.pk))
    assert owner.json("drain", str(own.pk))["drain_requested_at"] is not None
    owner("drain", str(own.pk + 1), ends=Exit.UNKNOWN)


# ---- refusals -----------------------------------------------------------------------------------------------------


def test_refusals_say_where_and_what_is_right(ctl: Ctl, tmp_path: Path) -> None:
    bad = document(name="", priority=11, schedule={"type": "cron", "expression": "61 * * * *"})
    ctl("tasks", "create", "-f", written(tmp_path, bad), ends=Exit.INVALID)
    assert "ctl: 422 Unprocessable Entity: 3 values are wrong" in ctl.err
    assert "ctl:   /priority: must be a whole number in its range; right: 1 to 10" in ctl.err
    ctl("tasks", "create", "-f", written(tmp_path, document(name="a")))
    ctl("tasks", "create", "-f", written(tmp_path, document(name="a")), ends=Exit.CONFLICT)
    assert "existing_id: " in ctl.err
    ctl("runs", "list", "--status", "done", ends=Exit.INVALID)
    assert "status: is not one of the choices" in ctl.err
    Ctl(make_api(role=Role.VIEWER))("tasks", "create", "-f", written(tmp_path, document()), ends=Exit.NOT_ALLOWED)
    ctl("runs", "show", "01890a5d-ac96-774b-bcce-b302099a8057", ends=Exit.UNKNOWN)


def test_foreign_things_are_unknown(ctl: Ctl) -> None:
    task = make_task(make_api().principal, name="theirs", schedule=MANUAL)
    ctl("tasks", "show", "theirs", ends=Exit.UNKNOWN)
    ctl("tasks", "show", str(task.id), ends=Exit.UNKNOWN)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tasks", "create", "-f", "/none"], "cannot be read"),
        (["tasks", "trigger", "a", "--parameters", "{"], "--parameters is not JSON"),
        (["tasks", "trigger", "a", "--parameters", "[]"], "not a JSON object"),
        (["tasks", "trigger", "a", "-p", "x"], "is not NAME=VALUE"),
        (["--url", "chronoweb.example.com", "whoami"], "is no address of a server"),
        (["--url", "http://[::1", "whoami"], "'http://[::1' is no address of a server"),
        (["--url", "http://localhost:99999", "whoami"], "is no address of a server"),
        (["--key-file", "/none", "whoami"], "/none cannot be read"),
    ],
)
def test_what_is_wrong_before_anything_is_sent(words: list[str], said: str) -> None:
    err = io.StringIO()
    environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
    assert main(words, environment=environment, err=err, transport=_Answers(_nothing)) == Exit.USAGE
    assert said in err.getvalue()


@pytest.mark.parametrize("missing", [URL_VARIABLE, KEY_VARIABLE])
def test_server_and_key_are_asked_for(missing: str) -> None:
    err = io.StringIO()
    environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
    del environment[missing]
    assert main(["whoami"], environment=environment, err=err) == Exit.USAGE
    assert missing in err.getvalue()


@pytest.mark.parametrize("words", [[], ["tasks"], ["runs", "show", "../tasks"], ["tasks", "list", "--limit", "x"]])
def test_wrong_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words, environment={}) == Exit.USAGE
    assert "usage: ctl" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "ends", "said"),
    [
        (httpx.Response(502, text="<html>"), Exit.AWAY, "502 Bad Gateway"),
        (httpx.Response(429, json={"detail": "slower"}), Exit.AWAY, "slower"),
        (httpx.Response(302, headers={"Location": "https://x/"}), Exit.REFUSED, "https://x/"),
        (
            httpx.Response(421, json={"detail": "elsewhere", "base_url": "https://eu/"}),
            Exit.REFUSED,
            "base_url: https://eu/",
        ),
        (httpx.Response(200, text="hello"), Exit.AWAY, "is not chronoweb's API"),
        (httpx.Response(404, text="<html>"), Exit.AWAY, "http://localhost/api/v1/tenants/me is not chronoweb's API"),
        (httpx.Response(418, json=["x"]), Exit.REFUSED, "does not say why"),
        (httpx.Response(302, headers={"Location": "https://sso/?to=x"}), Exit.REFUSED, "a page to log in"),
        (httpx.Response(308, headers={"Location": "https://b/api/v1/tenants/me"}), Exit.REFUSED, "on to https://b;"),
        (httpx.Response(304), Exit.REFUSED, "304 Not Modified: the answer (no type) does not say why"),
        (httpx.Response(404, json={"message": "no Route"}), Exit.AWAY, "is not chronoweb's API"),
        (httpx.Response(422, json={"detail": "no", "errors": ["a\nb", 1, {"legal": 5}]}), Exit.INVALID, "  a b\n"),
        (httpx.Response(422, json={"detail": "no", "errors": 1}), Exit.INVALID, "no\n"),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed"), Exit.AWAY, "SSL_CERT_FILE"),
        (httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong"), Exit.AWAY, "begins with http://"),
        (httpx.ReadTimeout("The read operation timed out"), Exit.AWAY, "look before you ask again"),
        (httpx.ProxyError("407"), Exit.AWAY, "HTTPS_PROXY"),
        (httpx.DecodingError("incorrect header check"), Exit.AWAY, "no answer of chronoweb's"),
        (httpx.RemoteProtocolError("illegal status line"), Exit.AWAY, "no answer of chronoweb's"),
    ],
)
def test_answers_of_other_kinds(answer: httpx.Response | Exception, ends: Exit, said: str) -> None:
    def told(_: httpx.Request) -> httpx.Response:
        if isinstance(answer, Exception):
            raise answer
        return answer

    err = io.StringIO()
    environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
    assert main(["whoami"], environment=environment, err=err, transport=_Answers(told)) == ends
    assert said in err.getvalue()
    assert all(line.startswith("ctl: ") for line in err.getvalue().splitlines())


FOREIGN = (
    *(b"", b"<html>", b'{"items": [', b"\xff\xfe", b"[" * 3000, b"9" * 5000, b"[]", b"null", b"1", b'"x"', b"{}"),
    *(b'{"items": 1}', b'{"items": ["x"]}', b'{"items": {}}', b'{"items": [], "next_cursor": 1}'),
    *(b'{"items": [{"id": "x", "schedule": "x"}], "id": [], "status": []}', b'{"reasons": {}, "nodes": 1}'),
)


@pytest.mark.parametrize(
    "words",
    [
        *(["whoami"], ["workers"], ["drain", "1"], ["tasks", "list"], ["tasks", "show", "a"], ["tasks", "pause", "a"]),
        *(["tasks", "apply", "-f"], ["dags", "apply", "-f"], ["tasks", "trigger", "a", "--wait", "0"]),
        *(["runs", "explain"], ["runs", "logs", "-t"], ["runs", "logs", "--follow"], ["dags", "run"], ["dlq", "retry"]),
    ],
)
def test_no_foreign_success_ends_in_a_traceback(words: list[str], tmp_path: Path) -> None:
    """A proxy's page, half a document, another program's JSON: one line that says what to look at."""
    if words[-1] == "-f":
        words = [*words, written(tmp_path, {"name": "a"})]
    elif words[0] in ("runs", "dlq") or words == ["dags", "run"]:
        words = [*words, ID]
    environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
    for body in FOREIGN:
        err = io.StringIO()
        told = _Answers(lambda _, body=body: httpx.Response(200, content=body))
        code = main(words, environment=environment, out=io.StringIO(), err=err, transport=told)
        is_a_list = body.startswith(b'{"items": [')  # whatever stands in it is shown, or is not what was sought
        if not (is_a_list and code in (Exit.DONE, Exit.UNKNOWN)):
            assert code == Exit.AWAY, (body, code, err.getvalue())
            assert err.getvalue().startswith("ctl: ")
            assert "a proxy" in err.getvalue()
            assert err.getvalue().count("\n") == 1


def test_a_proxy_that_is_none_and_certificates_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {URL_VARIABLE: "https://localhost", KEY_VARIABLE: KEY}
    for name, value in (("SSL_CERT_FILE", "/none"), ("HTTPS_PROXY", "gopher://x")):
        monkeypatch.setenv(name, value)
        err = io.StringIO()
        assert main(["whoami"], environment=environment, err=err) == Exit.USAGE, name
        assert name in err.getvalue()
        monkeypatch.delenv(name)


def test_a_stream_that_ends_at_once_for_ever_is_left() -> None:
    empty = _client(lambda _: httpx.Response(200, headers=EVENTS, text=""))
    with pytest.raises(CtlError, match="without an event"):
        list(follow.follow(empty, ID, HandClock()))


def test_a_lost_answer_is_asked_for_again_under_the_same_key(ctl: Ctl) -> None:
    make_task(ctl.api.principal, name="a")
    lost: list[str] = []
    whole = Application()

    def lose_one(request: httpx.Request) -> httpx.Response:
        answer = whole.handle_request(request)
        if request.method == "POST":
            answer.read()
            lost.append(request.headers["Idempotency-Key"])
            if len(lost) == 1:
                raise httpx.ReadError("connection reset")
        return answer

    Ctl(ctl.api, _Answers(lose_one))("tasks", "trigger", "a")
    assert len(lost) == 2
    assert len(set(lost)) == 1
    assert Execution.objects.filter(tenant=ctl.api.tenant).count() == 1


def test_keys_over_plain_http_are_told_and_never_shown() -> None:
    out, err = io.StringIO(), io.StringIO()
    environment = {URL_VARIABLE: "http://chronoweb.example.com", KEY_VARIABLE: KEY}
    main(["whoami"], environment=environment, out=out, err=err, transport=_Answers(_away))
    assert "unencrypted" in err.getvalue()
    assert KEY not in out.getvalue() + err.getvalue()


def test_without_a_database_or_a_server() -> None:
    environment = {**os.environ, "DATABASE_URL": "postgres://nobody@127.0.0.1:1/none", KEY_VARIABLE: KEY}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "ctl", "--url", "http://127.0.0.1:1", "whoami"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == Exit.AWAY
    assert done.stderr.startswith("ctl: http://127.0.0.1:1 does not answer")


def test_a_port_that_speaks_no_tls_is_left_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.TIMEOUT.connect == 5
    monkeypatch.setattr(client, "TIMEOUT", httpx.Timeout(600.0, connect=0.2))
    err = io.StringIO()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://127.0.0.1:{silent.getsockname()[1]}"
        assert main(["whoami"], environment={URL_VARIABLE: url, KEY_VARIABLE: KEY}, err=err) == Exit.AWAY
    assert "does not answer" in err.getvalue()


# ---- logs, live ---------------------------------------------------------------------------------------------------

ID = "01890a5d-ac96-774b-bcce-b302099a8057"
EVENTS = {"Content-Type": "text/event-stream"}


def event(number: int, text: str) -> str:
    return f"id: 1-{number}\ndata: {json.dumps({'attempt': 1, 'time': 't', 'text': text})}\n\n"


def test_following_goes_on_behind_the_last_line_until_the_end() -> None:
    """A connection that ends in the middle of an event, one that is refused for a moment, one that goes to the end."""
    asked: list[str | None] = []
    answers: list[httpx.Response | Exception] = [
        httpx.Response(200, headers=EVENTS, text="retry: 500\n\n" + event(1, "a") + event(2, "b") + "id: 1-3\ndata: {"),
        httpx.Response(503, json={"detail": "away"}),
        httpx.ReadError("reset"),
        httpx.Response(200, headers=EVENTS, text=": still here\n\n" + event(3, "c") + "event: end\ndata: {}\n\n"),
    ]

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.headers.get("Last-Event-ID"))
        assert request.headers["Accept"] == "text/event-stream"
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    client = _client(answer)
    assert [line["text"] for line in follow.follow(client, ID, HandClock())] == ["a", "b", "c"]
    assert asked == [None, "1-2", "1-2", "1-2"]


def test_a_server_that_stays_away_ends_it() -> None:
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(Exception, match="does not answer"):
        list(follow.follow(_client(_away), ID, HandClock()))
    environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
    unknown = _Answers(lambda _: httpx.Response(404, json={"detail": "no execution"}))
    words = ["runs", "logs", "--follow", ID]
    assert main(words, environment=environment, out=out, err=err, transport=unknown) == Exit.UNKNOWN


def test_lines_as_they_are_and_as_json() -> None:
    items = [{"attempt": 1, "time": "t1", "text": "a\x1b[2J"}, {"attempt": 2, "time": "t2", "text": "b"}]
    transport = _Answers(lambda _: httpx.Response(200, json={"items": items, "next_cursor": None}))

    def logs(*words: str) -> str:
        out = io.StringIO()
        environment = {URL_VARIABLE: "http://localhost", KEY_VARIABLE: KEY}
        assert main(["runs", "logs", ID, *words], environment=environment, out=out, transport=transport) == Exit.DONE
        return out.getvalue()

    assert logs() == "a\\x1b[2J\nb\n"
    assert logs("-t", "--attempt", "2") == "t2  b\n"
    assert [json.loads(line) for line in logs("-o", "json").splitlines()] == items


def test_a_terminal_is_not_made_to_obey() -> None:
    assert visible("\x1b[31mred\x1b[0m \x1b[2J\x07\u202e") == r"\x1b[31mred\x1b[0m \x1b[2J\x07\u202e"
    assert visible("\x1b[31mred\x1b[0m \x1b[2J", colours=True) == "\x1b[31mred\x1b[0m \\x1b[2J"
    assert visible("tab\t line\n ü 日本") == "tab\t line\n ü 日本"
    assert visible("\x85\x9b2J\x7f\u2066\ud800\r") == r"\x85\x9b2J\x7f\u2066\ud800\x0d"


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_no_form_lets_others_speak_to_the_terminal(form: str) -> None:
    hostile = "a\x1b]0;x\x07\x9b2J\x7f\u202eb"
    out = io.StringIO()
    output = Output(out, form)
    output.one({"name": hostile})
    output.items([{"name": hostile}], {"NAME": "name"})
    output.say(hostile)
    said = out.getvalue()
    assert is_harmless(said)
    if form == "json":
        assert json.loads(said.partition("[\n")[0]) == {"name": hostile}
    if form == "yaml":
        assert yaml.safe_load(said.partition("\n- ")[0]) == {"name": hostile}


class _Answers(httpx.BaseTransport):
    """What a test says instead of a network."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer: httpx.Response = self._answer(request)
        return answer


def _nothing(request: httpx.Request) -> httpx.Response:
    if request.method == "GET":
        return httpx.Response(200, json={"items": [{"id": ID}]})
    raise AssertionError("nothing must be sent")


def _away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


def _client(answer: Any) -> Any:
    from apps.ctl.client import Client

    return Client("http://localhost", KEY, transport=_Answers(answer))
