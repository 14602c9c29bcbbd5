"""Tenants as a dispatcher sees them: what each may have dispatched, what it has used, and who is held as a whole.

Looked at every 100 ms. Terms are read where they were changed, use is added where something was dispatched, holds are
few: thousands of tenants that do nothing cost two index probes.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

import psycopg
from prometheus_client import Gauge

from apps.dispatcher.tenant_limits import TenantLimits
from apps.executions import store, usage
from apps.executions.quotas import Use
from apps.executions.rows import Dispatched
from apps.executions.states import Hold
from apps.executions.usage import UsageMeter
from chronoweb.runtime import wakeup

logger = logging.getLogger(__name__)

_EVERYTHING = bytes(16)
_OVERLAP_SECONDS = 3.0
"""A change may be committed so much later than its row says."""
_ALL_SECONDS = 30.0
"""How often all terms are read anew, whatever their rows say."""
_HOUR_SECONDS = 0.5
"""How often what others have dispatched is read."""

FROZEN = Gauge("chronoweb_scheduler_frozen", "1 while nothing is dispatched because a person has frozen the scheduler")
TENANTS_HELD = Gauge("chronoweb_tenants_held", "Tenants of which nothing is dispatched", ["reason"])


@dataclass
class Tenancy:
    """One dispatcher's view. Instants are monotonic seconds."""

    limits: TenantLimits = field(default_factory=TenantLimits)
    frozen: bool = False
    _meter: UsageMeter = field(default_factory=UsageMeter)
    _of_hour: dict[bytes, int] = field(default_factory=dict)
    _hour_at: float = float("-inf")
    _looked_at: float = float("-inf")
    _all_at: float = float("-inf")

    def spend(self, sent: Iterable[Dispatched]) -> None:
        """Count what was dispatched. A retry, or what a lost worker held, is no further execution."""
        rows = list(sent)
        self.limits.spend(rows)
        self._meter.dispatched(row.tenant_id for row in rows if row.first)

    def look(self, ledger: psycopg.Connection, *, share: float, first: bool, now: float) -> None:
        """share: the part of the shards held here; first: whether this dispatcher sees to what one must see to."""
        for used in self._meter.flush(ledger):
            if used.kind == Use.EXECUTIONS:
                self._of_hour[used.tenant_id] = used.used
        knows = now - self._looked_at < _OVERLAP_SECONDS / 2 and now - self._all_at < _ALL_SECONDS
        changed = store.tenant_terms(ledger, seconds=_OVERLAP_SECONDS if knows else None)
        self._looked_at, self._all_at = now, self._all_at if knows else now
        self.limits.know(changed)
        if first and changed:
            # Quotas may have been lowered.
            usage.judge(ledger, [UUID(bytes=limit.tenant_id) for limit in changed])
        self._look_at_holds(ledger, first=first)
        if now - self._hour_at >= _HOUR_SECONDS:
            self._of_hour, self._hour_at = usage.of_hour(ledger), now
        self.limits.count(store.outstanding_by_tenant(ledger), self._of_hour, now=now, share=share)

    def forget(self) -> None:
        """Read everything anew at the next look."""
        self._looked_at = self._hour_at = self._all_at = float("-inf")

    def _look_at_holds(self, ledger: psycopg.Connection, *, first: bool) -> None:
        holds = store.wide_holds(ledger)
        self.frozen = (_EVERYTHING, Hold.FROZEN) in holds
        self.limits.held = frozenset(target.hex() for target, _ in holds)
        FROZEN.set(self.frozen)
        if not first:
            return
        by_reason = {hold: sum(1 for target, one in holds if one is hold and target != _EVERYTHING) for hold in Hold}
        if by_reason[Hold.QUOTA] and (cleared := usage.clear(ledger)):
            by_reason[Hold.QUOTA] -= len(cleared)
            self._hour_at = float("-inf")
            logger.info("tenants go on", extra={"action": "dispatcher.quota_cleared", "tenants": len(cleared)})
            wakeup.preloader.wake()
        for hold in (Hold.FROZEN, Hold.QUOTA):
            TENANTS_HELD.labels(hold.word).set(by_reason[hold])
