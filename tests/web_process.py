"""A web process on the test database, as browsers meet it: a plugin of the suite (named in conftest.py)."""

import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from apps.quickstart.data_directory import free_port
from tests.waiting import PATIENCE_SECONDS, eventually

SERVER = "the-web-process"
ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def web_process(django_db_setup: None) -> Iterator[str]:
    """The one that all tests of pages share: starting it costs seconds."""
    with serving() as url:
        yield url


def answers(url: str) -> bool:
    try:
        return urllib.request.urlopen(url, timeout=PATIENCE_SECONDS).status == 200  # noqa: S310  our own address
    except OSError:
        return False


WEB = {"CHRONOWEB_WEB_DATABASE_CONNECTIONS": "4"}


def nobody_reads() -> bool:
    """Whether the web process has let go of the tables: its last reading would meet their being emptied."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s AND state <> 'idle'", [SERVER]
        )
        return cursor.fetchone()[0] == 0


@contextmanager
def serving(**variables: str) -> Iterator[str]:
    """A web process on the test database, with these variables changed."""
    port = free_port(taken=set())
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    server = subprocess.Popen(
        [sys.executable, "-m", "daphne", "-b", "127.0.0.1", "-p", str(port), "chronoweb.asgi:application"],
        cwd=ROOT,
        env={**os.environ, **WEB, "DATABASE_URL": database, "PYTHONPATH": str(ROOT), "PGAPPNAME": SERVER, **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: server.poll() is not None or answers(f"{url}/login/"))
        assert server.poll() is None, "daphne ended"
        yield url
    finally:
        server.terminate()
        server.wait(timeout=PATIENCE_SECONDS)
