"""The database's time, for whoever still leads: each write of the preloader begins with it."""

from datetime import datetime

from django.db import connection as django_connection

from chronoweb.runtime.errors import LeadershipLost


def database_now(role: str, epoch: int) -> datetime:
    """Aware UTC. The lease cannot change until the transaction ends. Raises LeadershipLost for a stale epoch."""
    with django_connection.cursor() as cursor:
        cursor.execute(
            "SELECT clock_timestamp() FROM leases WHERE role = %s AND epoch = %s AND expires_at > clock_timestamp()"
            " FOR SHARE",
            [role, epoch],
        )
        row = cursor.fetchone()
    if row is None:
        raise LeadershipLost(f"epoch {epoch} of {role} is stale: nothing was written")
    return row[0]
