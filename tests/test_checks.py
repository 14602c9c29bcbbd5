"""System checks: each id is raised by its fault, with a hint, and by nothing else."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core import checks as django_checks
from pytest_django import Settings

from apps.quickstart.data_directory import free_port
from chronoweb.runtime import checks
from chronoweb.runtime.errors import ConfigurationError

ROOT = Path(__file__).resolve().parent.parent


def ids_of(*tags: str) -> list[str | None]:
    """What Django reports when asked as a daemon or the web process asks; every message has a hint."""
    found = django_checks.run_checks(tags=tags, include_deployment_checks=True)
    assert all(message.hint for message in found)
    return [message.id for message in found]


def test_a_sound_installation_passes() -> None:
    assert ids_of(checks.ALWAYS, checks.DAEMON, checks.WEB) == []


@pytest.mark.parametrize(
    ("field", "tag", "expected"),
    [
        ("database_url", checks.DAEMON, "chronoweb.E001"),
        ("database_url", checks.WEB, "chronoweb.E001"),
        ("redis_url", checks.DAEMON, "chronoweb.E002"),
        ("redis_url", checks.WEB, "chronoweb.E002"),
    ],
)
def test_a_missing_address(settings: Settings, field: str, tag: str, expected: str) -> None:
    settings.SERVICES = replace(settings.SERVICES, **{field: ""})
    assert ids_of(tag) == [expected]


def test_secrets_need_a_key_where_they_are_kept_or_opened(settings: Settings) -> None:
    settings.SECRET_ENCRYPTION_KEYS = []
    assert ids_of(checks.WEB) == ids_of(checks.SECRETS) == ["chronoweb.E008"]
    assert ids_of(checks.DAEMON) == [], "who only moves work on needs none"


def test_a_key_that_is_none_is_told_to_every_command_and_not_shown(settings: Settings) -> None:
    settings.SECRET_ENCRYPTION_KEYS = [*settings.SECRET_ENCRYPTION_KEYS, "mistyped"]
    [found] = django_checks.run_checks(tags=[checks.ALWAYS])
    assert found.id == "chronoweb.E009"
    assert "key 2 of 2" in found.msg
    assert "mistyped" not in str(found)


def test_an_invented_secret_key_does_not_serve(settings: Settings) -> None:
    settings.SECRET_KEY = "unset-abc"
    assert ids_of(checks.WEB) == ["chronoweb.E003"]
    with pytest.raises(ConfigurationError, match="SECRET_KEY is not set"):
        checks.refuse_to_serve()


def test_knobs_out_of_range_are_each_named(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, worker_slots=0, lease_renew_seconds=14)
    found = checks.check_config()
    assert [message.id for message in found] == ["chronoweb.E004"] * 2
    assert "CHRONOWEB_WORKER_SLOTS=0 is outside 1 to 1024" in found[0].msg
    assert "CHRONOWEB_LEASE_RENEW_SECONDS=14" in found[1].msg


@pytest.mark.parametrize("text", ["kafka", "kafka:", "kafka:0", "kafka:70000", "http://kafka:9092", "a:1,,b:2"])
def test_kafka_addresses_that_are_none(settings: Settings, text: str) -> None:
    settings.SERVICES = replace(settings.SERVICES, kafka_bootstrap_servers=text)
    assert ids_of(checks.ALWAYS) == ["chronoweb.E006"]


@pytest.mark.parametrize("text", ["", "kafka:9092", "k-1.example.com:9092, 10.0.0.1:9093", "[::1]:9092"])
def test_kafka_addresses_that_pass(settings: Settings, text: str) -> None:
    settings.SERVICES = replace(settings.SERVICES, kafka_bootstrap_servers=text)
    assert ids_of(checks.ALWAYS) == []


def test_networks_that_are_none(settings: Settings) -> None:
    settings.CHRONOWEB = replace(settings.CHRONOWEB, outbound_allowed_networks=("10.0.0.0/8", "10.0.0.0/40"))
    assert ids_of(checks.ALWAYS) == ["chronoweb.E007"]


@pytest.fixture
def own_valkey(data_dir: Path) -> Iterator[tuple[str, redis.Redis]]:
    """A server whose policy may be changed."""
    from apps.quickstart.data_directory import DataDirectory
    from apps.quickstart.valkey_server import ValkeyServer

    data = DataDirectory(data_dir)
    data.acquire()
    server = ValkeyServer(data)
    server.start()
    server.wait_until_ready()
    client = redis.Redis.from_url(server.url)
    yield server.url, client
    client.close()
    server.stop()
    data.release()


def test_a_redis_that_may_evict_keeps_daemons_from_starting(
    settings: Settings, own_valkey: tuple[str, redis.Redis], services: Any
) -> None:
    url, client = own_valkey
    settings.SERVICES = replace(settings.SERVICES, redis_url=url)
    assert ids_of(checks.DAEMON) == []
    client.config_set("maxmemory-policy", "allkeys-lru")
    assert ids_of(checks.DAEMON) == ["chronoweb.E005"]
    result = manage("preloader", "--once", DATABASE_URL=services.database_url, REDIS_URL=url)
    assert result.returncode != 0
    assert "chronoweb.E005" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_redis_that_is_away_is_only_a_warning(settings: Settings) -> None:
    address = f"redis://127.0.0.1:{free_port(taken=set())}/0"
    settings.SERVICES = replace(settings.SERVICES, redis_url=address)
    assert ids_of(checks.DAEMON) == ["chronoweb.W001"]


def manage(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A management command whose environment names nothing else."""
    names = ("DATABASE_URL", "DATABASE_DIRECT_URL", "REDIS_URL", "KAFKA_BOOTSTRAP_SERVERS")
    bare = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        env=bare | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("daemon", ["preloader", "dispatcher", "worker", "watchdog"])
def test_a_daemon_without_addresses_says_what_to_set(daemon: str, tmp_path: Path) -> None:
    result = manage(daemon, CHRONOWEB_DATA_DIR=str(tmp_path))
    assert result.returncode != 0
    for text in ("chronoweb.E001", "chronoweb.E002", "Set DATABASE_URL=", "Set REDIS_URL="):
        assert text in result.stderr
    assert "Traceback" not in result.stderr


def test_commands_that_need_no_service_run_without(tmp_path: Path) -> None:
    result = manage("check", CHRONOWEB_DATA_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    result = manage("check", "--deploy", CHRONOWEB_DATA_DIR=str(tmp_path))
    assert "chronoweb.E001" in result.stderr


def test_every_check_is_registered() -> None:
    known: set[Callable[..., Any]] = set(django_checks.registry.registry.get_checks(include_deployment_checks=True))
    named = {value for name, value in vars(checks).items() if name.startswith("check_")}
    assert named <= known
