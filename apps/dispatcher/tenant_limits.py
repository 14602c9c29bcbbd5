"""What each tenant may have dispatched: its weight, its concurrency, its rate.

Counted from `outstanding` every 100 ms and split by shard, so nothing is asked of anybody in a tick. Tenants without a
limit and with weight 1 are not here at all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from apps.executions.rows import Dispatched, TenantLimit

NO_LIMIT = -1
EXACT_BELOW = 16
"""Smaller limits of concurrency hold exactly, however many dispatchers there are; others within a tick."""
_BURST_SECONDS = 1.0


@dataclass
class _Budget:
    """concurrent and tokens: how many may be dispatched now; None: no limit."""

    weight: int
    concurrent: float | None
    tokens: float | None
    most: int | None = None

    def left(self) -> int:
        limits = [limit for limit in (self.concurrent, self.tokens) if limit is not None]
        return max(0, ceil(min(limits))) if limits else NO_LIMIT


@dataclass
class TenantLimits:
    """Budgets between two counts."""

    _budgets: dict[str, _Budget] = field(default_factory=dict)
    _counted_at: float | None = None

    def count(self, limits: Iterable[TenantLimit], *, now: float, share: float) -> None:
        """Take in what the ledger says. now: monotonic seconds; share: the part of the shards held here."""
        elapsed = 0.0 if self._counted_at is None else now - self._counted_at
        self._counted_at = now
        budgets = {}
        for limit in limits:
            tenant = limit.tenant_id.hex()
            concurrent = None if limit.max_concurrent is None else (limit.max_concurrent - limit.outstanding) * share
            tokens = self._refill(tenant, limit.rate_limit_rps, elapsed, share)
            budgets[tenant] = _Budget(limit.weight, concurrent, tokens, limit.max_concurrent)
        self._budgets = budgets

    def _refill(self, tenant: str, rate: int | None, elapsed: float, share: float) -> float | None:
        if rate is None:
            return None
        before = self._budgets.get(tenant)
        tokens = rate * share * _BURST_SECONDS if before is None or before.tokens is None else before.tokens
        return min(rate * share * _BURST_SECONDS, tokens + rate * share * elapsed)

    def weight(self, tenant: str) -> int:
        """Turns of a tenant (hex) for each turn of a plain one."""
        budget = self._budgets.get(tenant)
        return 1 if budget is None else budget.weight

    def exact(self) -> dict[str, int]:
        """Tenants (hex) whose limit of concurrency holds exactly, with it."""
        return {
            tenant: budget.most
            for tenant, budget in self._budgets.items()
            if budget.most is not None and budget.most < EXACT_BELOW
        }

    def for_shards(self, shards: Sequence[int]) -> dict[int, Mapping[str, int]]:
        """Shard → tenant (hex) → most to pop there; together no more than each tenant's budget.

        shards: those popped in this tick, in the tick's order, so that a remainder goes round.
        """
        parts: dict[int, dict[str, int]] = {shard: {} for shard in shards}
        for tenant, budget in self._budgets.items():
            left = budget.left()
            if left == NO_LIMIT:
                continue
            each, rest = divmod(left, len(shards))
            for place, shard in enumerate(shards):
                parts[shard][tenant] = each + (place < rest)
        return dict(parts)

    def charge(self, tenant: str, count: float) -> None:
        """Count what workers have begun of a tenant (hex) without us: its rate is the poorer for it, also below zero.

        Its concurrency is counted from the ledger.
        """
        budget = self._budgets.get(tenant)
        if budget is not None and budget.tokens is not None:
            budget.tokens -= count

    def spend(self, sent: Iterable[Dispatched]) -> None:
        """Count what was dispatched against the budgets."""
        for row in sent:
            budget = self._budgets.get(row.tenant_id.hex())
            if budget is None:
                continue
            if budget.concurrent is not None:
                budget.concurrent -= 1
            if budget.tokens is not None:
                budget.tokens -= 1
