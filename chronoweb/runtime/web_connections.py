"""Connections of a web process to PostgreSQL: a few that stay, shared by the threads of its requests.

Under ASGI each request has a thread of its own, and Django a connection for each thread: without a pool every request
would open one and close it, which costs more than most requests, and many requests at once would be more than the
server has room for. Who finds none free waits for one.
"""

import select
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created
from psycopg_pool import ConnectionPool

from chronoweb.runtime import postgres, statement_limit
from chronoweb.runtime.config import config

WAIT_SECONDS = 20.0
"""For a free connection; then the answer is 503."""
LIFE_SECONDS = 60.0
"""Of a connection: after a failover the address may lead to another server, and the old one may still answer."""
TRUSTED_SECONDS = 1.0
"""After its last use a connection is believed to work for so long, unless its server has said something since."""


def share() -> None:
    """From now on, let this process's requests share connections, and limit their statements. Daemons have their own,
    and do not call this.
    """
    connection_created.connect(statement_limit.limit)
    if not config().web_database_connections:
        return
    settings = connections.settings["default"]
    settings.setdefault("OPTIONS", {})["pool"] = {
        "min_size": 1,
        "max_size": config().web_database_connections,
        "timeout": WAIT_SECONDS,
        "max_lifetime": LIFE_SECONDS,
        "max_idle": LIFE_SECONDS,
    }
    settings["CONN_MAX_AGE"] = 0  # as Django demands: what a request gives back, the pool keeps
    settings["CONN_HEALTH_CHECKS"] = False  # Django's asks the server for each request, and the pool takes no other
    pool: Any = connections["default"].pool  # type: ignore[attr-defined]
    pool._check = check
    pool._configure = partial(_configure, pool._configure)


def _configure(as_django_does: Callable[[Any], bool], connection: Any) -> None:
    """Once for each connection. What a web process holds that stands still would keep daemons waiting."""
    as_django_does(connection)
    connection.execute(f"SET idle_in_transaction_session_timeout = '{postgres.IDLE_IN_TRANSACTION_SECONDS}s'")
    connection.commit()


def check(connection: Any) -> None:
    """Raise what makes the pool take another one. Asking the server costs as much as a small statement; one that has
    ended or restarted has closed its end, which shows here without asking.
    """
    now, before = time.monotonic(), getattr(connection, "used_at", 0.0)
    if now - before > TRUSTED_SECONDS or select.select([connection.fileno()], [], [], 0)[0]:
        ConnectionPool.check_connection(connection)
    connection.used_at = now
