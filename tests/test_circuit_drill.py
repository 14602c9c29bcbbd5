"""An outage: a host answers 503 to many executions. Its circuit opens on every worker, outlives them, and heals."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.conf import settings as django_settings
from psycopg.rows import dict_row
from pytest_django import DjangoDbBlocker

from apps.definitions import services as definitions
from apps.quickstart.services import ServiceAddresses
from tests.factories import make_principal
from tests.stack import Processes, cloned, django_uses, processes
from tests.waiting import eventually

START_SECONDS = 90.0
WORKERS = ("worker-1", "worker-2")


class Upstream(ThreadingHTTPServer):
    """Answers 503, after a moment, while `away` is set; 200 otherwise."""

    daemon_threads = True
    request_queue_size = 500

    def __init__(self) -> None:
        self.away = threading.Event()
        self.away.set()
        upstream = self

        class Answer(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                away = upstream.away.is_set()
                threading.Event().wait(0.05)
                self.send_response(503 if away else 200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        super().__init__(("127.0.0.1", 0), Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that was killed hangs up."""


@contextmanager
def upstream() -> Iterator[Upstream]:
    server = Upstream()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Outage:
    """The daemons, two workers, one task with many executions, and what the ledger says about it."""

    def __init__(self, connection: psycopg.Connection, daemons: Processes, server: Upstream, count: int) -> None:
        self.connection, self.daemons, self.count = connection, daemons, count
        principal = make_principal()
        handler = {"type": "webhook", "url": f"http://127.0.0.1:{server.server_port}/", "method": "POST"}
        policy = {"max_attempts": 20, "backoff": "fixed", "base_delay_seconds": 1}
        document = {"name": "outage", "schedule": {"type": "manual"}, "handler": handler, "retry_policy": policy}
        task = definitions.create_task(principal=principal, data={**document, "overlap_policy": "allow_all"})
        definitions.trigger_batch(principal=principal, task_id=task.id, items=[{} for _ in range(count)])

    def rows(self, query: str, **parameters: Any) -> list[dict[str, Any]]:
        return list(self.connection.cursor(row_factory=dict_row).execute(query, parameters))

    def circuit(self) -> dict[str, Any]:
        """The one circuit, once it has opened; empty before."""
        rows = self.rows("SELECT * FROM circuit_breakers WHERE opened_at IS NOT NULL")
        return rows[0] if rows else {}

    def attempts_between(self, since: Any, until: Any) -> list[dict[str, Any]]:
        query = "SELECT * FROM attempts WHERE started_at > %(since)s AND started_at < %(until)s AND outcome <> 5"
        return self.rows(query, since=since, until=until)

    def completed(self) -> int:
        count: int = self.rows("SELECT count(*) FROM executions WHERE status = 6")[0]["count"]
        return count

    def restart_workers(self) -> None:
        for name in WORKERS:
            self.daemons.kill(name)
        for name in WORKERS:
            self.daemons.start(name, "worker", "--slots", "8")


@contextmanager
def outage(
    services: ServiceAddresses, template: str, blocker: DjangoDbBlocker, *, count: int, **settings: str
) -> Iterator[tuple[Outage, Upstream]]:
    prefix = f"drill-{time.monotonic_ns()}:"
    with (
        tempfile.TemporaryDirectory(prefix="chronoweb-drill-") as folder,
        upstream() as server,
        cloned(services, template) as url,
        django_uses(url, blocker),
        processes(
            url,
            services,
            prefix,
            Path(folder),
            CHRONOWEB_OUTBOUND_ALLOWED_NETWORKS="127.0.0.0/8",
            CHRONOWEB_LOCK_LOST_SECONDS="0.5",
            **settings,
        ) as daemons,
        psycopg.connect(url, autocommit=True) as connection,
        pytest.MonkeyPatch.context() as patch,
    ):
        allowed = replace(django_settings.CHRONOWEB, outbound_allowed_networks=("127.0.0.0/8",))
        patch.setattr(django_settings, "CHRONOWEB", allowed)
        for name in ("preloader", "dispatcher", "watchdog"):
            daemons.start(name, name)
        for name in WORKERS:
            daemons.start(name, "worker", "--slots", "8")
        eventually(
            lambda: (
                connection.execute("SELECT count(*) FROM workers WHERE heartbeat_at > started_at").fetchone() == (2,)
            ),
            seconds=START_SECONDS,
        )
        yield Outage(connection, daemons, server, count), server


def assert_the_circuit_held(drill: Outage, opened: dict[str, Any], healed: dict[str, Any]) -> None:
    """Quiet from a second after the opening to the end of the quarantine; at most the share in the slow start."""
    quiet_from = opened["opened_at"] + timedelta(seconds=1)
    assert drill.attempts_between(quiet_from, opened["quarantine_until"]) == []
    early = drill.attempts_between(healed["quarantine_until"], healed["slow_start_until"])
    assert 0 < len(early) <= drill.count * 0.05
    retries = drill.rows(
        "SELECT date_trunc('minute', started_at) AS minute, count(*) FROM attempts"
        " WHERE attempt > 1 AND outcome <> 5 GROUP BY 1"
    )
    assert all(row["count"] <= drill.count * 0.2 for row in retries), retries


def test_an_outage_opens_the_circuit_on_both_workers_and_outlives_them(
    services: ServiceAddresses, template_database: str, django_db_blocker: DjangoDbBlocker
) -> None:
    quick = {
        "CHRONOWEB_CIRCUIT_BASE_SECONDS": "9",
        "CHRONOWEB_CIRCUIT_SPREAD_SECONDS": "0.5",
        "CHRONOWEB_CIRCUIT_SLOW_START_SECONDS": "3",
    }
    with outage(services, template_database, django_db_blocker, count=500, **quick) as (drill, server):
        opened = eventually(drill.circuit)
        waiting = "SELECT count(*) FROM executions WHERE hold = 5"
        eventually(lambda: drill.rows(waiting)[0]["count"] > 400)
        drill.restart_workers()
        server.away.clear()
        assert drill.circuit()["quarantine_until"] == opened["quarantine_until"], "nobody forgot it"
        eventually(lambda: drill.completed() == drill.count)
        healed = drill.circuit()
        assert (healed["trips"], healed["proven"]) == (0, True)
        assert_the_circuit_held(drill, opened, healed)


@pytest.mark.drill
@pytest.mark.timeout(600)
def test_half_a_minute_of_503_to_two_thousand(
    services: ServiceAddresses, template_database: str, django_db_blocker: DjangoDbBlocker
) -> None:
    settings = {
        "CHRONOWEB_CIRCUIT_BASE_SECONDS": "8",
        "CHRONOWEB_CIRCUIT_SPREAD_SECONDS": "2",
        "CHRONOWEB_CIRCUIT_SLOW_START_SECONDS": "10",
    }
    with outage(services, template_database, django_db_blocker, count=2000, **settings) as (drill, server):
        opened = eventually(drill.circuit)
        heal = threading.Timer(30, server.away.clear)
        heal.start()
        drill.restart_workers()
        eventually(lambda: drill.completed() == drill.count, seconds=300)
        healed = drill.circuit()
        assert healed["trips"] >= 1, "the first slow start met the outage still"
        assert_the_circuit_held(drill, opened, healed)
