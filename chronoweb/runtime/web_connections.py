"""Connections of a web process to PostgreSQL: a few that stay, shared by the threads of its requests.

Under ASGI each request has a thread of its own, and Django a connection for each thread: without a pool every request
would open one and close it, which costs more than most requests, and many requests at once would be more than the
server has room for. Who finds none free waits for one.
"""

from django.db import connections

from chronoweb.runtime.config import config

WAIT_SECONDS = 20.0
"""For a free connection; then the answer is 503."""
LIFE_SECONDS = 60.0
"""Of a connection: after a failover the address may lead to another server, and the old one may still answer."""


def share() -> None:
    """From now on, let this process's requests share connections. Daemons have their own, and do not call this."""
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
