"""What workers have room for, and what tenants may have dispatched: counted every 100 ms, spent in between."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg
from prometheus_client import Gauge

from apps.dispatcher.credits import Credits
from apps.dispatcher.hand_overs import HandOvers
from apps.dispatcher.pools import Pools
from apps.dispatcher.tenancy import Tenancy
from apps.dispatcher.tenant_limits import TenantLimits
from apps.dispatcher.unroutable import Unroutable
from apps.executions import ids, store
from apps.worker.live_state import LiveStates
from chronoweb.runtime import transport
from chronoweb.runtime.config import Config

_COUNT_SECONDS = 0.1
_ROUTES_SECONDS = 1.0

CREDIT = Gauge("chronoweb_dispatch_credits", "Executions that all workers together may be sent now", ["class"])


@dataclass
class Fleet:
    """One dispatcher's view. Instants are monotonic seconds."""

    config: Config
    pools: Pools = field(default_factory=Pools)
    tenancy: Tenancy = field(default_factory=Tenancy)
    over_rate: dict[str, int] = field(default_factory=dict)
    """Tenants (hex) that had work due and no more of their rate at the last count, with it."""
    _routes: dict[int, frozenset[str]] = field(default_factory=dict)
    _counted_at: float = float("-inf")
    _routes_at: float = float("-inf")

    def __post_init__(self) -> None:
        self._credits = Credits(self.config.credit_floor)
        self._hand_overs = HandOvers()
        self._handed_over: dict[str, int] = {}
        self.unroutable = Unroutable(self.config.unroutable_after_seconds)

    @property
    def limits(self) -> TenantLimits:
        return self.tenancy.limits

    def look(self, ledger: psycopg.Connection, states: LiveStates, held: Sequence[int], *, now: float) -> bool:
        """Count, if it is time to; whether it was. held: the shards of this dispatcher; whoever has the first lets
        waiting work go.
        """
        if now - self._counted_at < _COUNT_SECONDS:
            return False
        self._counted_at = now
        share = len(held) / ids.SHARDS
        alive = states.read()
        found = self._credits.count(alive, store.outstanding_by_worker(ledger), share=share)
        if self.pools.met_unknown_route or now - self._routes_at >= _ROUTES_SECONDS:
            self._routes, self._routes_at = store.routes(ledger), now
        self.over_rate = self.limits.over_rate()
        self.tenancy.look(ledger, share=share, first=0 in held, now=now)
        for tenant, count in self._hand_overs.fresh(alive).items():
            self.limits.charge(tenant, count * share)
            self._handed_over[tenant] = self._handed_over.get(tenant, 0) + count
        self.unroutable.begin(now)
        self.pools = Pools(found, self._routes, self.unroutable.goes_aside, self.limits.exact())
        if 0 in held:
            self.unroutable.let_go(ledger, self.pools)
        for word, left in zip(transport.CLASSES, self.pools.totals(), strict=True):
            CREDIT.labels(word).set(left)
        return True

    def take_handed_over(self) -> dict[str, int]:
        """tenant (hex) → what workers have begun by hand-over since this was asked last."""
        taken, self._handed_over = self._handed_over, {}
        return taken

    def forget(self) -> None:
        """Count anew at the next look."""
        self._counted_at = float("-inf")
        self.tenancy.forget()
