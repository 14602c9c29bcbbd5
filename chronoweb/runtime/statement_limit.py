"""The longest that a statement of the web's may take, whatever stands between the web and PostgreSQL.

The server's own statement_timeout would be a setting of the session: behind a pooler that lends sessions by
transaction it is gone with the next statement, or stays behind in somebody else's. So who waits for the answer keeps
the time, and cancels, as psql does at Ctrl-C. A statement that cannot even be cancelled loses its connection.
"""

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from chronoweb.runtime.config import config
from chronoweb.runtime.errors import TooSlow

logger = logging.getLogger(__name__)

CANCEL_SECONDS = 2.0
"""For a cancel to reach the server, and once more for the statement to end by it."""
RETRY_SECONDS = 10
"""How soon the same may be asked again: it may have been the load."""
_unlimited: ContextVar[bool] = ContextVar("unlimited", default=False)


class LimitedConnection(psycopg.Connection[Any]):
    """Of a web process. Its statements end after `web_statement_seconds` with psycopg.errors.QueryCanceled."""

    def wait(self, gen: Any, *arguments: Any, **named: Any) -> Any:
        seconds = 0 if _unlimited.get() else config().web_statement_seconds
        return super().wait(_limited(self, gen, seconds) if seconds else gen, *arguments, **named)


def limit(connection: Any, **_: Any) -> None:
    """Limit the statements of Django's connection: a receiver of its signal `connection_created`."""
    connection.connection.__class__ = LimitedConnection


@contextmanager
def unlimited() -> Iterator[None]:
    """Statements of this thread may take as long as they take: those of exports and streams."""
    token = _unlimited.set(True)
    try:
        yield
    finally:
        _unlimited.reset(token)


def is_too_slow(error: BaseException | None) -> bool:
    """Whether it says that something took too long, as raised here or as Django has wrapped it."""
    known = (TooSlow, psycopg.errors.QueryCanceled)
    return error is not None and (isinstance(error, known) or isinstance(error.__cause__, known))


def _limited(connection: psycopg.Connection[Any], waiting: Any, seconds: float) -> Generator[Any, Any, Any]:
    """psycopg's own generator, which is resumed ten times a second if nothing comes; with an end."""
    end, cancelled = monotonic() + seconds, False
    try:
        wanted = next(waiting)
        while True:
            ready = yield wanted
            if monotonic() > end and connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                if cancelled:
                    connection.close()
                    raise psycopg.errors.QueryCanceled("the statement took too long, and its server does not cancel it")
                _cancel(connection, seconds)
                end, cancelled = monotonic() + CANCEL_SECONDS, True
            wanted = waiting.send(ready)
    except StopIteration as done:
        return done.value


def _cancel(connection: psycopg.Connection[Any], seconds: float) -> None:
    logger.warning("a statement takes too long", extra={"action": "web.statement_cancelled", "seconds": seconds})
    try:
        connection.cancel_safe(timeout=CANCEL_SECONDS)
    except psycopg.Error as error:
        logger.warning("a statement cannot be cancelled", extra={"action": "web.cancel_failed", "error": str(error)})
