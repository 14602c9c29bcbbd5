"""A rig for each test: a database cloned from one with few partitions, a Redis prefix, a folder."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from django.conf import settings
from pytest_django import DjangoDbBlocker

from apps.executions import feed
from apps.quickstart.bench.handlers import RECORD_VARIABLE
from apps.quickstart.services import ServiceAddresses
from tests.chaos.rig import QUICK, Rig, rig_on
from tests.stack import cloned, django_uses, migrated_once


def migrate(url: str) -> None:
    """Tables, and the partitions of four days."""
    environment = {**os.environ, **QUICK, "DATABASE_URL": url, "DATABASE_DIRECT_URL": url}
    command = [sys.executable, str(settings.BASE_DIR / "manage.py"), "migrate", "--verbosity=0"]
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def small_template(services: ServiceAddresses) -> Iterator[str]:
    """A migrated database with the partitions of four days."""
    yield migrated_once(services, "four_days", **QUICK)
    feed.close()  # its thread would outlive the services


@pytest.fixture
def rig(
    services: ServiceAddresses,
    small_template: str,
    redis_prefix: str,
    redis_client: redis.Redis,
    tmp_path: Path,
    django_db_blocker: DjangoDbBlocker,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Rig]:
    """A chronoweb on the services of the run, with Redis streams as the transport."""
    monkeypatch.setenv(RECORD_VARIABLE, str(tmp_path / "runs"))  # for workers in threads
    with (
        cloned(services, small_template) as url,
        django_uses(url, django_db_blocker),
        rig_on(url, services.redis_url, redis_prefix, tmp_path) as made,
    ):
        yield made


DRILLS = (
    "unhealed",  # a twin with its healer off waits for what does not happen; its healed one stays in the suite
    "test_clocks.py",
    "test_resume.py",
    "test_a_slow_handler_outlasts_the_outage",
    "test_two_batches_in_opposite_order_are_both_written",
    "test_connections_reset_three_times_in_three_seconds",
    "test_replaced_by_an_old_copy",
    "test_kafka_killed_and_restarted_empty",
)
"""Parts of names of tests that take long, or that a busy machine may break: `make drill` runs them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "chaos" in item.path.parts and any(part in item.nodeid for part in DRILLS):
            item.add_marker(pytest.mark.drill)
