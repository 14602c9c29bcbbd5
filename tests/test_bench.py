"""manage.py bench: the README's own daemons on services of its own; its figures, not its speed, are tested here."""

import asyncio
import json
import os
import subprocess
import sys

import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings

from apps.quickstart.bench import api_load
from apps.quickstart.bench.http_client import Answer, Client
from tests.factories import make_api
from tests.test_ctl import Application

OWN = ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")


@pytest.mark.timeout(300)
def test_a_small_drain_loses_nothing_and_doubles_nothing() -> None:
    """It starts PostgreSQL and Valkey itself, whatever this suite's environment names."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "bench", "drain", "--count", "2000"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    figures = json.loads(line)
    assert figures["scenario"] == "drain"
    assert figures["transport"] == "redis"
    assert figures["count"] == 2000
    assert figures["lost"] == 0
    assert figures["duplicates"] == 0
    assert figures["ledger_duplicates"] == 0
    assert figures["early"] == 0
    assert figures["handler_runs"] == 2000
    assert figures["executions_per_second"] > 0
    assert figures["enqueue_per_second"] > 0
    assert figures["lateness_p50_ms"] <= figures["lateness_p99_ms"] <= figures["lateness_max_ms"]
    told = done.stderr
    assert "synchronous_commit on" in told
    assert "isolation" in told


class _Application:
    """The application in this process, as tests/test_ctl.py has it, for the load on its event loop."""

    def __init__(self, key: str) -> None:
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        self._application = Application()

    async def request(self, method: str, path: str, body: bytes | None = None) -> Answer:
        request = httpx.Request(method, f"http://localhost{path}", headers=self._headers, content=body)
        answer = await sync_to_async(self._application.handle_request)(request)
        return Answer(answer.status_code, answer.content)


@pytest.mark.django_db
def test_every_kind_of_request_of_the_load_is_answered() -> None:
    application = _Application(make_api().key)

    async def load() -> api_load.Results:
        made = api_load.Load(application)
        await made.prepare(2)
        return await made.each()

    results = async_to_sync(load)()
    assert results.errors == {}
    assert set(results.latencies) == set(api_load.MIX)


def test_the_client_of_the_load_reads_answers_however_they_come() -> None:
    """Whole, in chunks, without a body, in pieces; and one that never comes whole is told as no answer."""
    answers = {
        "/length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "/chunks": b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n",
        "/nothing": b"HTTP/1.1 204 No Content\r\n\r\n",
        "/broken": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
    }
    opened = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        while head := await reader.readuntil(b"\r\n\r\n"):
            path = head.split()[1].decode()
            for byte in answers[path]:
                writer.write(bytes((byte,)))
                await writer.drain()
            if path == "/broken":
                break
        writer.close()

    async def ask() -> list[Answer]:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with Client("127.0.0.1", port, key="k", at_once=2) as client:
                return [await client.request("GET", path) for path in answers]

    length, chunks, nothing, broken = asyncio.run(ask())
    assert (length, chunks, nothing) == (Answer(200, b"hello"), Answer(201, b"hello"), Answer(204, b""))
    assert broken.status == 0
    assert len(opened) == 1, "the connection stays open from one request to the next"


@pytest.mark.drill
@pytest.mark.timeout(400)
def test_a_small_load_through_the_web_process() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in OWN}
    words = ["bench", "api", "--seconds", "5", "--rate", "50", "--requests", "10"]
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=380, check=False)
    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if line.startswith("{")]
    figures = json.loads(line)
    assert (figures["requests"], figures["errors"]) == (50, 0)
    assert (figures["executions"], figures["executions_lost"]) == (250, 0)
    parts = {"web", "load", "postgresql", "valkey", "workers", "dispatcher", "preloader", "watchdog"}
    assert set(figures["cpu_seconds"]) == parts
    assert min(figures["cpu_seconds"][part] for part in ("web", "load", "postgresql", "workers")) > 0
    assert figures["load_cpu_ms_per_request"] < figures["web_cpu_ms_per_request"]
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
