"""Fixtures for every test. Services are shared by the whole run: a test owns only what its `unique` names."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from apps.executions import feed
from apps.quickstart.services import ServiceAddresses
from tests import scratch

pytest_plugins = ["tests.stack", "tests.economy", "tests.patience", "tests.web_process"]


LONGEST = (
    *("test_chaos_command.py", "test_quickstart.py", "test_planted_secret.py", "test_end_to_end.py"),
    *("test_circuit_drill.py", "test_bench.py", "test_pools_end_to_end.py", "chaos", "test_log_drill.py"),
    *("test_transport_kafka.py", "test_plans.py"),
)
"""Files and folders whose tests take tens of seconds."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: a process that has run out of tests takes the last ones of another, which are short."""
    places = {name: place for place, name in enumerate(LONGEST)}

    def place(item: pytest.Item) -> int:
        return min((places[part] for part in item.path.parts if part in places), default=len(places))

    items.sort(key=place)


@pytest.fixture(scope="session")
def services() -> ServiceAddresses:
    """The services of this run (started, or found, by tests/services.py)."""
    return ServiceAddresses(
        database_url=os.environ["DATABASE_URL"],
        redis_url=os.environ["REDIS_URL"],
        kafka_bootstrap_servers=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
    )


@pytest.fixture
def unique() -> str:
    """A short name that no other test has; letters and digits, first a letter."""
    return "t" + secrets.token_hex(5)


@pytest.fixture(scope="session")
def redis_client(services: ServiceAddresses) -> Iterator[redis.Redis]:
    """A client whose replies are bytes."""
    client = redis.Redis.from_url(services.redis_url)
    yield client
    client.close()


@pytest.fixture(scope="session", autouse=True)
def _the_feed_knows_its_keys() -> None:
    """It keeps the prefix that it meets first, in a thread of its own: a test with another one must not be met."""
    feed._feed._key_prefix()


@pytest.fixture
def redis_prefix(unique: str, redis_client: redis.Redis) -> Iterator[str]:
    """A key prefix of this test's own; its keys are removed afterwards, the others' are never touched."""
    prefix = f"{unique}:"
    yield prefix
    for key in redis_client.scan_iter(match=f"{prefix}*", count=1000):
        redis_client.unlink(key)


@pytest.fixture(scope="session")
def kafka_bootstrap(services: ServiceAddresses) -> str:
    assert services.kafka_bootstrap_servers is not None
    return services.kafka_bootstrap_servers


@pytest.fixture
def open_dir() -> Iterator[Path]:
    """An empty folder that everybody may write to, as commands must that run as another user."""
    path = Path(tempfile.mkdtemp(prefix="chronoweb-test-open-"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    """An empty folder for services of a test's own.

    Not tmp_path: pytest keeps that closed to other users, one of whom PostgreSQL becomes when root runs the tests.
    """
    path = Path(tempfile.mkdtemp(prefix="chronoweb-test-data-", dir=scratch.folder()))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)
