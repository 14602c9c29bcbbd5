"""The database's time, for whoever still leads: each write of the preloader begins with it."""

from datetime import datetime

from django.db import connection as django_connection

from chronoweb.runtime import postgres
from chronoweb.runtime.errors import LeadershipLost

_LED = """SELECT clock_timestamp(), set_config('idle_in_transaction_session_timeout', %s, true)
FROM leases WHERE role = %s AND epoch = %s AND expires_at > clock_timestamp()"""
_LED_AND_HELD = f"{_LED} FOR SHARE"


def database_now(role: str, epoch: int, *, hold: bool = True) -> datetime:
    """Aware UTC. hold: the lease cannot change, nor be renewed, until the transaction ends: for short ones, or the end
    of a long one. Raises LeadershipLost for a stale epoch.
    """
    with django_connection.cursor() as cursor:
        cursor.execute(
            _LED_AND_HELD if hold else _LED,
            [f"{postgres.IDLE_IN_TRANSACTION_SECONDS}s", role, epoch],
        )
        row = cursor.fetchone()
    if row is None:
        raise LeadershipLost(f"epoch {epoch} of {role} is stale: nothing was written")
    return row[0]
