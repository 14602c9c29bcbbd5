"""manage.py bench: the README's own daemons on services of its own; its figures, not its speed, are tested here."""

import json
import os
import subprocess
import sys

import httpx
import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings

from apps.quickstart.bench import api_load
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


class _Application(httpx.AsyncBaseTransport):
    """The application in this process, as tests/test_ctl.py has it, for a client on the event loop."""

    def __init__(self) -> None:
        self._application = Application()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return await sync_to_async(self._application.handle_request)(request)


@pytest.mark.django_db
def test_every_kind_of_request_of_the_load_is_answered() -> None:
    headers = {"Authorization": f"Bearer {make_api().key}"}

    async def load() -> api_load.Results:
        base = "http://localhost/api/v1"
        async with httpx.AsyncClient(base_url=base, headers=headers, transport=_Application()) as client:
            made = api_load.Load(client)
            await made.prepare(2)
            return await made.each()

    results = async_to_sync(load)()
    assert results.errors == {}
    assert set(results.latencies) == set(api_load.MIX)


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
    assert 0 < figures["p50_ms"] <= figures["p99_ms"] <= figures["max_ms"]
