"""Which errors say that PostgreSQL is away, or was for a moment, and nothing is wrong with what was asked."""

import django.db
import psycopg

AWAY = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.ReadOnlySqlTransaction,  # after a failover the address may lead to a replica for a moment
    psycopg.errors.IdleInTransactionSessionTimeout,  # this process stood still in the middle of a transaction
    django.db.OperationalError,
    django.db.InterfaceError,
)
"""psycopg's, and Django's own. Of those that Django wraps the cause tells: `is_away` looks at it, too."""


def is_away(error: BaseException | None) -> bool:
    """Whether connecting anew and asking again may help. A deadlock is among these: nothing was written."""
    return isinstance(error, AWAY) or (error is not None and isinstance(error.__cause__, AWAY))


def is_deadlock(error: BaseException) -> bool:
    """Whether two transactions met in opposite order, of which this one has written nothing."""
    deadlock = psycopg.errors.DeadlockDetected
    return isinstance(error, deadlock) or isinstance(error.__cause__, deadlock)
