"""A tenant's limits as bars: what each allows, how much of it is used now, and what waits because of it."""

from dataclasses import dataclass
from datetime import datetime

from apps.console import listing
from apps.executions import tenant_use
from apps.executions.states import Status
from apps.tenants.models import LIMITS, Tenant
from apps.tenants.principal import Principal

_ABOUT = {
    "max_concurrent_workers": ("At once", "executions that workers have, dispatched or running", "executions"),
    "rate_limit_rps": ("A second", "executions dispatched in a second; counted by dispatchers alone", "a second"),
    "executions_per_hour": ("In this hour", "executions dispatched since the hour began, in UTC", "executions"),
    "compute_minutes_per_month": ("In this month", "run time of all attempts since the month began, in UTC", "min"),
    "log_storage_gb": ("Logs", "what logs take in the storage while they are kept", "GB"),
    "api_requests_per_minute": ("Asking", "requests to the REST API in the last minute", "requests"),
}
"""Limit → title, what it counts, unit."""
_HOLDING = ("max_concurrent_workers", "executions_per_hour", "compute_minutes_per_month", "log_storage_gb")
"""Limits that make executions wait once they are reached; the others slow down or refuse."""
_WAITING = (Status.SCHEDULED, Status.PRELOADED)
_NEARLY = 0.8


@dataclass(frozen=True)
class Limit:
    """used: None where it is not counted, or Redis is away. most: None for no limit. until: when it begins anew.

    level: ok, near or over. x: thousandths of it that are used.
    """

    name: str
    title: str
    about: str
    unit: str
    used: float | None
    most: int | None
    until: datetime | None = None
    told_at: datetime | None = None

    @property
    def share(self) -> float:
        return 0.0 if self.used is None or not self.most else self.used / self.most

    @property
    def x(self) -> int:
        return min(1000, round(self.share * 1000))

    @property
    def used_words(self) -> str:
        """`8,600`, `0.3`."""
        return f"{0 if self.used is None else self.used:,.3f}".rstrip("0").rstrip(".")

    @property
    def percent(self) -> str:
        return "under 1 %" if 0 < self.share < 0.01 else f"{self.share:.0%}".replace("%", " %")

    @property
    def level(self) -> str:
        return "over" if self.share >= 1 else "near" if self.share >= _NEARLY else "ok"

    @property
    def holds(self) -> bool:
        """Whether executions wait because of it."""
        return self.level == "over" and self.name in _HOLDING


@dataclass(frozen=True)
class Waiting:
    """Of the newest executions that were due: how many have not begun. state: of most of them."""

    count: int
    looked_at: int
    state: str


def read(principal: Principal, tenant: Tenant) -> list[Limit]:
    """Two queries, and one question to Redis."""
    quotas = tenant_use.quotas(principal)
    used = tenant_use.use(principal, quotas)
    windows = {quota.use.quota: quota for quota in quotas}
    found = []
    for name, (title, about, unit) in _ABOUT.items():
        window = windows.get(name)
        found.append(
            Limit(
                name=name,
                title=title,
                about=about,
                unit=unit,
                used=used[name],
                most=getattr(tenant, name),
                until=window.until if window else None,
                told_at=window.told_at if window else None,
            )
        )
    assert {limit.name for limit in found} == set(LIMITS)
    return found


def waiting(principal: Principal, *, now: datetime) -> Waiting:
    """One query along an index; nothing counts the ledger."""
    index = listing.read_index(principal, now=now, upcoming=0)
    counts = {state: index.counts.get(state, 0) for state in _WAITING}
    return Waiting(sum(counts.values()), len(index.newest), max(counts, key=lambda state: counts[state]).word)
