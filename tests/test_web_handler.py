"""The web process's way from ASGI to views: few threads, few connections, streams that end with their reader."""

import asyncio
import json
import os
import subprocess
import sys
from contextlib import closing
from typing import Any

import psycopg
import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings as django_settings

from chronoweb.runtime import postgres, web_connections
from chronoweb.runtime.web_handler import ThreadedHandler
from tests import web_views
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def urls(settings: Any) -> None:
    settings.ROOT_URLCONF = "tests.web_views"
    settings.ALLOWED_HOSTS = ["*"]


@pytest.fixture
def handler(urls: None) -> ThreadedHandler:
    return ThreadedHandler(threads=3)


def scope(path: str, method: str = "GET") -> dict[str, Any]:
    path, _, query = path.partition("?")
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
        "server": ("localhost", 80),
    }


async def ask(handler: ThreadedHandler, path: str, body: bytes = b"", method: str = "GET") -> tuple[int, bytes]:
    one = ApplicationCommunicator(handler, scope(path, method))
    await one.send_input({"type": "http.request", "body": body[:3], "more_body": True})
    await one.send_input({"type": "http.request", "body": body[3:]})
    start = await one.receive_output(PATIENCE_SECONDS)
    parts = []
    more = True
    while more:
        message = await one.receive_output(PATIENCE_SECONDS)
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    await one.wait(PATIENCE_SECONDS)
    return start["status"], b"".join(parts)


async def test_a_request_runs_on_a_thread_of_the_pool_with_its_body(handler: ThreadedHandler) -> None:
    status, body = await ask(handler, "/plain", b"hello")
    assert status == 200
    found = json.loads(body)
    assert found["body"] == "hello"
    assert found["thread"].startswith("web request")


async def test_as_many_at_once_as_there_are_threads(handler: ThreadedHandler) -> None:
    answers = await asyncio.gather(*(ask(handler, "/together") for _ in range(6)))
    assert answers == [(200, b"met")] * 6


async def test_streams_are_sent_whole_and_closed(handler: ThreadedHandler) -> None:
    web_views.closed.clear()
    assert await ask(handler, "/stream") == (200, b"onetwo")
    assert web_views.closed.is_set()


async def test_a_stream_ends_with_its_reader_and_holds_no_thread_meanwhile(handler: ThreadedHandler) -> None:
    web_views.closed.clear()
    readers = [ApplicationCommunicator(handler, scope("/stream?endless")) for _ in range(5)]
    for reader in readers:
        await reader.send_input({"type": "http.request"})
        assert (await reader.receive_output(PATIENCE_SECONDS))["status"] == 200
        assert (await reader.receive_output(PATIENCE_SECONDS))["body"] == b"one"
    assert (await ask(handler, "/plain"))[0] == 200
    for reader in readers:
        await reader.send_input({"type": "http.disconnect"})
        await reader.wait(PATIENCE_SECONDS)
    assert web_views.closed.is_set()


async def test_a_reader_that_goes_before_the_body_is_there(handler: ThreadedHandler) -> None:
    one = ApplicationCommunicator(handler, scope("/plain", "POST"))
    await one.send_input({"type": "http.request", "body": b"x", "more_body": True})
    await one.send_input({"type": "http.disconnect"})
    await one.wait(PATIENCE_SECONDS)
    assert await one.receive_nothing()


async def test_what_fails_and_what_is_not_there(handler: ThreadedHandler) -> None:
    assert (await ask(handler, "/fails"))[0] == 500
    assert (await ask(handler, "/none"))[0] == 404


_MANY = """
import asyncio, json, os, django
django.setup()
from django.conf import settings
settings.ROOT_URLCONF = "tests.web_views"
settings.ALLOWED_HOSTS = ["*"]
from chronoweb.runtime import web_connections
from chronoweb.runtime.web_handler import ThreadedHandler
from tests.test_web_handler import ask
web_connections.share()
async def main():
    handler = ThreadedHandler(threads=6)
    found = await asyncio.gather(*(ask(handler, "/server-process") for _ in range(60)))
    assert {status for status, _ in found} == {200}, found
    assert (await ask(handler, "/limit-of-idleness"))[1] == b'"1min"'
    print(len({body for _, body in found}))
asyncio.run(main())
import sys; sys.stdout.flush(); os._exit(0)
"""


def test_requests_share_a_few_connections() -> None:
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "chronoweb.settings",
        "CHRONOWEB_WEB_DATABASE_CONNECTIONS": "3",
        "PYTHONPATH": str(django_settings.BASE_DIR),
    }
    command = [sys.executable, "-c", _MANY]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert 1 <= int(done.stdout) <= 3


@pytest.mark.django_db
def test_a_connection_that_was_used_a_moment_ago_is_not_asked_but_one_that_its_server_has_closed_is() -> None:
    with postgres.connect_like_django("other") as other, closing(_borrowed()) as connection:
        asked = "SELECT query FROM pg_stat_activity WHERE pid = %s"
        pid = connection.info.backend_pid
        connection.execute("SELECT 'work'")
        web_connections.check(connection)
        assert other.execute(asked, [pid]).fetchone() == ("",), "it is asked when nothing is known of it"
        connection.execute("SELECT 'work'")
        web_connections.check(connection)
        assert other.execute(asked, [pid]).fetchone() == ("SELECT 'work'",)
        connection.used_at -= web_connections.TRUSTED_SECONDS
        web_connections.check(connection)
        assert other.execute(asked, [pid]).fetchone() == ("",), "it has rested"
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with pytest.raises(psycopg.OperationalError):
            web_connections.check(connection)


def _borrowed() -> Any:
    """Of no type, for it carries when it was used."""
    return postgres.connect_like_django("borrowed")
