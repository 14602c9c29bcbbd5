"""Small limits of concurrency hold exactly, however many dispatchers there are.

What has been popped for such tenants is counted against what they have outstanding, under a lock that dispatchers take
of each tenant until they have committed: a limit of three is never four for a moment. Nothing is written for it.
"""

from collections.abc import Callable, Mapping
from uuid import UUID

import psycopg

from apps.executions import store
from apps.executions.rows import Dispatched

Chosen = dict[bytes, int]
"""Execution → worker."""


def dispatch(
    connection: psycopg.Connection,
    by_tenant: Mapping[str, Chosen],
    limits: Mapping[str, int],
    send: Callable[[Chosen], list[Dispatched]],
) -> list[Dispatched]:
    """Send what the limits of tenants (hex) leave room for, the oldest first; what is missing in the answer may not go.

    send: the dispatch statement, on `connection`.
    """
    with connection.transaction():
        outstanding = store.outstanding_under_lock(connection, [UUID(hex=tenant) for tenant in by_tenant])
        going: Chosen = {}
        for tenant, chosen in by_tenant.items():
            room = max(0, limits.get(tenant, 0) - outstanding.get(UUID(hex=tenant), 0))
            going.update({identity: chosen[identity] for identity in sorted(chosen)[:room]})
        return send(going) if going else []
