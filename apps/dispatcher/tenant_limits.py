"""What each tenant may have dispatched: its weight, its concurrency, its rate, its executions an hour.

Terms are kept from one look to the next and changed where the ledger says so; a budget is made for whoever has work
due, when it is asked for. So tenants that have nothing due cost nothing, however many they are. Shares go by shard.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from apps.executions.rows import Dispatched, TenantLimit

NO_LIMIT = -1
EXACT_BELOW = 16
"""Smaller limits of concurrency hold exactly, however many dispatchers there are; others within a tick."""
_BURST_SECONDS = 1.0


@dataclass(slots=True)
class _Budget:
    """How many may be dispatched now; None: no limit."""

    concurrent: float | None
    tokens: float | None
    hour: float | None

    def left(self) -> int:
        limits = [limit for limit in (self.concurrent, self.tokens, self.hour) if limit is not None]
        return max(0, ceil(min(limits))) if limits else NO_LIMIT


@dataclass
class TenantLimits:
    """Tenants are known by their ids as hex. Instants: monotonic seconds. share: the part of the shards held here."""

    held: frozenset[str] = frozenset()
    """Tenants that are held as a whole: what stands in the hot tier is popped and refused, and waits in the ledger."""
    _terms: dict[str, TenantLimit] = field(default_factory=dict)
    _exact: dict[str, int] = field(default_factory=dict)
    _outstanding: Mapping[bytes, int] = field(default_factory=dict)
    _of_hour: Mapping[bytes, int] = field(default_factory=dict)
    _budgets: dict[str, _Budget] = field(default_factory=dict)
    _tokens: dict[str, tuple[float, float]] = field(default_factory=dict)
    _now: float = 0.0
    _share: float = 1.0

    def know(self, changed: Iterable[TenantLimit]) -> None:
        """Terms of tenants that are new or were changed."""
        for limit in changed:
            tenant = limit.tenant_id.hex()
            self._exact.pop(tenant, None)
            self._budgets.pop(tenant, None)
            if limit.is_plain:
                self._terms.pop(tenant, None)
                continue
            self._terms[tenant] = limit
            if limit.max_concurrent is not None and limit.max_concurrent < EXACT_BELOW:
                self._exact[tenant] = limit.max_concurrent

    def count(
        self, outstanding: Mapping[bytes, int], of_hour: Mapping[bytes, int], *, now: float, share: float
    ) -> None:
        """Take in what the ledger says: what tenants have outstanding, and have had dispatched in this hour."""
        for tenant, budget in self._budgets.items():
            if budget.tokens is not None:
                self._tokens[tenant] = (budget.tokens, self._now)
        self._budgets.clear()
        self._outstanding, self._of_hour, self._now, self._share = outstanding, of_hour, now, share
        self._tokens = {tenant: had for tenant, had in self._tokens.items() if not self._is_full(tenant)}

    def weight(self, tenant: str) -> int:
        """Turns of a tenant for each turn of a plain one."""
        terms = self._terms.get(tenant)
        return 1 if terms is None else terms.weight

    def exact(self) -> Mapping[str, int]:
        """Tenants whose limit of concurrency holds exactly, with it."""
        return self._exact

    def most(self, tenant: str, place: int, places: int) -> int:
        """The most to pop of a tenant at one of the places that are popped in this tick; NO_LIMIT: any.

        All places together get no more than its budget; a remainder goes round with them.
        """
        if tenant not in self._terms:
            return NO_LIMIT
        left = self._budget(tenant).left()
        return left if left == NO_LIMIT else left // places + (place < left % places)

    def charge(self, tenant: str, count: float) -> None:
        """Count what workers have begun of a tenant (hex) without us: its rate is the poorer for it, also below zero.

        Its concurrency and its hour are counted from the ledger.
        """
        if tenant not in self._terms:
            return
        budget = self._budget(tenant)
        if budget.tokens is not None:
            budget.tokens -= count

    def spend(self, sent: Iterable[Dispatched]) -> None:
        """Count what was dispatched against the budgets."""
        for row in sent:
            tenant = row.tenant_id.hex()
            if tenant not in self._terms:
                continue
            budget = self._budget(tenant)
            if budget.concurrent is not None:
                budget.concurrent -= 1
            if budget.tokens is not None:
                budget.tokens -= 1
            if budget.hour is not None and row.first:
                budget.hour -= 1

    def over_rate(self) -> dict[str, int]:
        """Tenants that have work due and no more of their rate, with it."""
        return {
            tenant: self._terms[tenant].rate_limit_rps or 0
            for tenant, budget in self._budgets.items()
            if budget.tokens is not None and budget.tokens <= 0
        }

    def _budget(self, tenant: str) -> _Budget:
        budget = self._budgets.get(tenant)
        if budget is None:
            terms = self._terms[tenant]
            budget = self._budgets[tenant] = _Budget(
                self._part(terms.max_concurrent, self._outstanding.get(terms.tenant_id, 0)),
                self._refill(tenant, terms.rate_limit_rps),
                None if tenant in self.held else self._part(terms.per_hour, self._of_hour.get(terms.tenant_id, 0)),
            )
        return budget

    def _part(self, most: int | None, used: int) -> float | None:
        return None if most is None else (most - used) * self._share

    def _is_full(self, tenant: str) -> bool:
        terms = self._terms.get(tenant)
        if terms is None or terms.rate_limit_rps is None:
            return True
        return self._refill(tenant, terms.rate_limit_rps) == terms.rate_limit_rps * self._share * _BURST_SECONDS

    def _refill(self, tenant: str, rate: int | None) -> float | None:
        """Tokens flow in with time, and never beyond a second's."""
        if rate is None:
            return None
        full = rate * self._share * _BURST_SECONDS
        had = self._tokens.get(tenant)
        return full if had is None else min(full, had[0] + rate * self._share * (self._now - had[1]))
