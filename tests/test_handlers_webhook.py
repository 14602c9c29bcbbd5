"""Webhooks: what is sent, what the answers mean, and where requests may not go."""

import json
import socket
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import UUID

import pytest

from apps.executions.states import Outcome
from apps.worker.handlers.webhook import WebhookCaller
from apps.worker.runner import Assignment
from chronoweb.runtime.clock import SYSTEM_CLOCK
from tests.runner_tools import Watched, assignment, watched

NEVER = threading.Event()


HOSTILE = {
    "no-digit": {"Retry-After": "\xb2"},
    "no-year": {"Retry-After": "1 Jan 99999999999999999999 00:00:00"},
    "far-away": {"Retry-After": "Fri, 31 Dec 9999 23:59:59 GMT"},
    "idna": {"Content-Type": "text/plain; charset=idna"},
    "punycode": {"Content-Type": "text/plain; charset=punycode"},
    "no-text": {"Content-Type": "text/plain; charset=zlib"},
}


class Answers(BaseHTTPRequestHandler):
    """Answers as the path says, and remembers what was asked."""

    protocol_version = "HTTP/1.1"
    seen: list[dict[str, Any]]

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.seen.append({"method": self.command, "path": self.path, "headers": dict(self.headers), "body": body})
        kind, _, rest = self.path.partition("?")[0].strip("/").partition("/")
        if kind == "status":
            self.answer(int(rest), b"" if rest == "304" else b"as asked")
        elif kind == "retry-after":
            when = rest if rest.isdigit() else format_datetime(datetime.now(UTC) + timedelta(seconds=100))  # noqa: TID251 - the server's own clock
            self.answer(503, b"later", {"Retry-After": when})
        elif kind == "hostile":
            self.answer(503, b"later\xff", HOSTILE[rest])
        elif kind == "redirect":
            self.answer(302, b"", {"Location": rest if "://" in rest else f"/{rest}"})
        elif kind == "kept":
            self.answer(307, b"", {"Location": rest})
        elif kind == "hops":
            self.answer(307, b"", {"Location": f"/hops/{int(rest) - 1}" if int(rest) else "/ok"})
        elif kind == "large":
            self.answer(200, b"\x1b" * 3_000_000)
        elif kind == "hang":
            NEVER.wait(20)
        elif kind == "drop":
            self.connection.shutdown(socket.SHUT_RDWR)
        elif kind == "gzip":
            self.answer(200, b"\x1f\x8b...", {"Content-Encoding": "gzip"})
        elif kind == "cookie":
            self.answer(200, b"", {"Set-Cookie": "session=of-another-tenant; Path=/"})
        elif kind == "nul":
            self.answer(200, b"a\0b\xff")
        else:
            self.answer(200, b"fine")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Server(ThreadingHTTPServer):
    """On a free port of 127.0.0.1."""

    daemon_threads = True

    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), type("Bound", (Answers,), {"seen": self.seen}))
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server() as one:
        yield one
        one.shutdown()


@pytest.fixture(scope="module")
def runner() -> Iterator[Watched]:
    with watched(slots=8, allowed_networks=("127.0.0.0/8",)) as one:
        yield one


@pytest.fixture(scope="module")
def strict() -> Iterator[Watched]:
    with watched(slots=8) as one:
        yield one


def webhook(url: str, *, timeout: float = 30.0, attempt: int = 1, **spec: Any) -> Assignment:
    return assignment(
        {"type": "webhook", "url": url, "method": "POST", "headers": {}, **spec}, timeout=timeout, attempt=attempt, n=1
    )


def test_cookies_of_one_attempt_are_not_sent_with_the_next(runner: Watched, server: Server) -> None:
    """The next may be another tenant's."""
    for _ in range(2):
        (result,) = runner.run(webhook(f"{server.url}/cookie"))
        assert result.outcome is Outcome.SUCCEEDED
    assert "Cookie" not in server.seen[-1]["headers"]
    (result,) = runner.run(webhook(f"{server.url}/ok", headers={"Cookie": "own=1"}))
    assert server.seen[-1]["headers"]["Cookie"] == "own=1"


def test_what_is_sent(runner: Watched, server: Server) -> None:
    given = webhook(f"{server.url}/ok?q=1", method="PUT", headers={"X-Mine": "yes", "user-agent": "me"}, attempt=3)
    given.traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    (result,) = runner.run(given)
    assert result.outcome is Outcome.SUCCEEDED
    assert json.loads(result.result_json or b"") == {"status": 200, "body": "fine"}
    asked = server.seen[-1]
    identity = str(UUID(bytes=given.execution_id))
    assert (asked["method"], asked["path"]) == ("PUT", "/ok?q=1")
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    assert headers["idempotency-key"] == given.idempotency_key
    assert headers["x-fencing-token"] == str(given.token)
    assert headers["x-chronoweb-execution-id"] == identity
    assert headers["traceparent"] == given.traceparent
    assert (headers["x-mine"], headers["user-agent"]) == ("yes", "me")
    assert headers["content-type"] == "application/json"
    assert json.loads(asked["body"]) == {
        "execution_id": identity,
        "task": "a task",
        "attempt": 3,
        "scheduled_at": "2027-01-15T08:00:00.123456+00:00",
        "nominal_at": "2027-01-15T08:00:00+00:00",
        "parameters": {"n": 1},
    }


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [({"a": [1]}, b'{"a": [1]}', "application/json"), ("plain ü", "plain ü".encode(), "text/plain")],
)
def test_a_body_of_its_own(runner: Watched, server: Server, body: Any, sent: bytes, kind: str) -> None:
    runner.run(webhook(f"{server.url}/ok", body=body))
    assert server.seen[-1]["body"] == sent
    assert server.seen[-1]["headers"]["Content-Type"] == kind


def test_get_has_no_body(runner: Watched, server: Server) -> None:
    runner.run(webhook(f"{server.url}/ok", method="GET"))
    assert server.seen[-1]["body"] == b""


@pytest.mark.parametrize(
    ("status", "permanent"),
    [
        (400, True),
        (404, True),
        (410, True),
        (304, True),
        (408, False),
        (425, False),
        (429, False),
        (500, False),
        (503, False),
    ],
)
def test_statuses(runner: Watched, server: Server, status: int, permanent: bool) -> None:
    (result,) = runner.run(webhook(f"{server.url}/status/{status}?secret=1"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error["status"], result.error["permanent"]) == (status, permanent)
    assert "secret" not in result.error["message"]


@pytest.mark.parametrize(("asked", "low", "high"), [("7", 7, 7), ("date", 90, 101)])
def test_retry_after(runner: Watched, server: Server, asked: str, low: float, high: float) -> None:
    (result,) = runner.run(webhook(f"{server.url}/retry-after/{asked}"))
    assert result.error is not None
    assert low <= result.error["retry_after_seconds"] <= high


@pytest.mark.parametrize("kind", list(HOSTILE))
def test_headers_made_to_hurt_change_no_outcome(runner: Watched, server: Server, kind: str) -> None:
    (result,) = runner.run(webhook(f"{server.url}/hostile/{kind}"))
    assert result.error is not None
    assert (result.error["type"], result.error["status"]) == ("WebhookStatus", 503)
    assert result.error["body"].startswith("later")
    assert result.error.get("retry_after_seconds", 0) <= 1e6


def test_connection_errors_may_be_retried(runner: Watched, server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    urls = (f"http://127.0.0.1:{port}/", f"{server.url}/drop", "http://no-such-host.invalid/")
    for result in runner.run(*(webhook(url) for url in urls)):
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert (result.error["type"], result.error["permanent"]) == ("WebhookConnectionError", False)


def test_timeout(runner: Watched, server: Server) -> None:
    (result,) = runner.run(webhook(f"{server.url}/hang", timeout=0.3))
    assert result.outcome is Outcome.TIMED_OUT


def test_large_and_odd_bodies(runner: Watched, server: Server) -> None:
    large, packed, nul = runner.run(*(webhook(f"{server.url}/{kind}") for kind in ("large", "gzip", "nul")))
    assert large.outcome is packed.outcome is nul.outcome is Outcome.SUCCEEDED
    assert len(large.result_json or b"") <= 256 * 1024
    assert len(json.loads(large.result_json or b"")["body"]) <= 64 * 1024
    assert "gzip" in json.loads(packed.result_json or b"")["body"]
    assert json.loads(nul.result_json or b"")["body"] == "a\ufffdb\ufffd"


def test_redirects(runner: Watched, server: Server) -> None:
    ok, many = runner.run(webhook(f"{server.url}/hops/4"), webhook(f"{server.url}/hops/5"))
    assert ok.outcome is Outcome.SUCCEEDED
    assert many.error is not None
    assert (many.error["type"], many.error["permanent"]) == ("TooManyRedirects", True)


def test_a_redirect_elsewhere_loses_the_given_headers(runner: Watched, server: Server) -> None:
    with Server() as other:
        url = f"{server.url}/redirect/{other.url}/ok"
        (result,) = runner.run(webhook(url, method="GET", headers={"X-Api-Key": "secret"}))
        other.shutdown()
    assert result.outcome is Outcome.SUCCEEDED
    assert server.seen[-1]["headers"]["X-Api-Key"] == "secret"
    assert "X-Api-Key" not in other.seen[-1]["headers"]
    assert "Idempotency-Key" in other.seen[-1]["headers"]


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://2130706433/",
        "file:///etc/passwd",
        "http://user:pw@127.0.0.1/",
    ],
)
def test_a_redirect_to_where_webhooks_may_not_go_is_refused(runner: Watched, server: Server, location: str) -> None:
    (result,) = runner.run(webhook(f"{server.url}/redirect/{location}"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["permanent"] is True
    assert result.error["type"] in ("OutboundRefused", "UnsupportedProtocol", "InvalidURL")


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "2130706433",
        "0x7f.1",
        "0177.0.0.1",
        "localhost",
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 - bound to by nobody
        "[fe80::1]",
    ],
)
def test_private_hosts_are_refused_when_it_runs(strict: Watched, host: str) -> None:
    (result,) = strict.run(webhook(f"http://{host}/"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert (result.error["type"], result.error["permanent"]) == ("OutboundRefused", True)


class Names:
    """A name server whose every answer differs: what DNS rebinding does."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0)


async def test_the_connection_goes_to_the_address_that_was_checked(server: Server) -> None:
    names = Names(["127.0.0.1"], ["192.0.2.1"])
    caller = WebhookCaller(allowed_networks=("127.0.0.0/8",), clock=SYSTEM_CLOCK, resolve=names)
    report = await caller.run(webhook(f"http://rebind.example:{server.server_port}/ok"), {})
    await caller.close()
    assert report.outcome == Outcome.SUCCEEDED
    assert names.asked == ["rebind.example"]
    assert server.seen[-1]["headers"]["Host"] == f"rebind.example:{server.server_port}"


async def test_a_name_with_one_private_address_is_refused_before_anything_is_sent(server: Server) -> None:
    seen = len(server.seen)
    names = Names(["127.0.0.1", "10.1.2.3"])
    caller = WebhookCaller(allowed_networks=("127.0.0.0/8",), clock=SYSTEM_CLOCK, resolve=names)
    report = await caller.run(webhook(f"http://rebind.example:{server.server_port}/ok"), {})
    await caller.close()
    assert report.error is not None
    assert "10.1.2.3, an address of rebind.example, is private" in report.error["message"]
    assert "CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS" in report.error["message"]
    assert len(server.seen) == seen
