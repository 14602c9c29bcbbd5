"""Work whose labels no live worker carries: put aside after a while, so that it takes no room in the hot tier, and let
go when such a worker has come.

It stands in the ledger meanwhile, with a hold that says so; nothing looks at it but an index probe now and then.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psycopg
from prometheus_client import Counter, Gauge

from apps.dispatcher.pools import Pools
from apps.executions import feed, ids, store
from chronoweb.runtime import wakeup

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2
_CHUNK = 2000
_GONE = 100

PUT_ASIDE = Counter("chronoweb_put_aside_total", "Executions put aside because no live worker carries their labels")
LET_GO = Counter("chronoweb_let_go_total", "Executions let go because a worker with their labels has come")
WITHOUT_WORKER = Gauge("chronoweb_routes_without_worker", "(labels, tenant) that work waits for without a live worker")


@dataclass
class Unroutable:
    """Remembers since when a tenant's work with a route has had no worker. Instants are monotonic seconds."""

    after_seconds: float
    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    _asked: set[tuple[str, int]] = field(default_factory=set)
    _now: float = 0.0
    _looked_at: float = float("-inf")

    def begin(self, now: float) -> None:
        """A new count of who lives: what nobody asks about until the next one has a worker, or is gone."""
        self._since = {key: since for key, since in self._since.items() if key in self._asked}
        self._asked.clear()
        self._now = now

    def goes_aside(self, tenant: str, route: int) -> bool:
        """Whether it has been without a worker for long enough: a restart of workers is over sooner."""
        self._asked.add((tenant, route))
        return self._now - self._since.setdefault((tenant, route), self._now) >= self.after_seconds

    def put_aside(
        self, connection: psycopg.Connection, identities: Sequence[bytes], held: Mapping[int, int]
    ) -> set[bytes]:
        """Put popped executions aside; those that were. identities must be sorted."""
        moved: list[tuple[bytes, bytes]] = []
        for _, positions in ids.by_day(list(identities)):
            moved += store.put_aside(connection, [identities[p] for p in positions], held=held)
        PUT_ASIDE.inc(len(moved))
        feed.changed_many((tenant, identity) for identity, tenant in moved)
        if moved:
            logger.warning("no worker has the labels", extra={"action": "dispatcher.put_aside", "count": len(moved)})
        return {identity for identity, _ in moved}

    def let_go(self, connection: psycopg.Connection, pools: Pools) -> None:
        """Let go what has a worker now, a chunk of each at a time; call it often, it looks each fifth of a second."""
        if self._now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = self._now
        waited_for = store.routes_waited_for(connection)
        served = [(route, tenant) for route, tenant in waited_for if pools.is_served(tenant.hex, route)]
        unserved = set(waited_for).difference(served)
        WITHOUT_WORKER.set(len(unserved))
        for route, tenant in unserved:
            store.forget_gone_waiters(connection, route=route, tenant_id=tenant, limit=_GONE)
        for route, tenant in served:
            cleared, woken = store.wake_route_waiters(connection, route=route, tenant_id=tenant, limit=_CHUNK)
            LET_GO.inc(len(woken))
            feed.changed_many(woken)
            if cleared == _CHUNK:
                self._looked_at = float("-inf")
            if woken:
                wakeup.preloader.wake()
