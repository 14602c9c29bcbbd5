"""How many retries a tenant may have dispatched: a share of its executions of the last minute, and a floor.

So an outage that no circuit has met yet is not answered by a storm. Counted from what this process has dispatched
itself; the floor is split by shard. What is above the budget is put off for up to a minute, never lost.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil

from apps.executions.rows import Dispatched, RetryRoom

WINDOW_SECONDS = 60.0
_BUCKET_SECONDS = 1.0


@dataclass(slots=True)
class _Counts:
    firsts: int = 0
    retries: int = 0


@dataclass
class RetryBudget:
    """Sliding counts by tenant, in buckets of a second."""

    percent: int
    floor: int
    _buckets: deque[tuple[float, dict[bytes, _Counts]]] = field(default_factory=deque)
    _totals: dict[bytes, _Counts] = field(default_factory=dict)

    def spend(self, sent: Iterable[Dispatched], *, now: float) -> None:
        """Count what was dispatched. now: monotonic seconds."""
        bucket = self._bucket(now)
        for row in sent:
            here, total = self._counts(bucket, row.tenant_id)
            if row.again:
                here.retries += 1
                total.retries += 1
            else:
                here.firsts += 1
                total.firsts += 1

    def handed_over(self, counts: Mapping[str, int], *, now: float, share: float) -> None:
        """Count what workers have begun of tenants (hex) without us: first attempts, all of them."""
        bucket = self._bucket(now) if counts else {}
        for tenant, count in counts.items():
            for one in self._counts(bucket, bytes.fromhex(tenant)):
                one.firsts += round(count * share)

    def _bucket(self, now: float) -> dict[bytes, _Counts]:
        if not self._buckets or now - self._buckets[-1][0] >= _BUCKET_SECONDS:
            self._buckets.append((now, {}))
        return self._buckets[-1][1]

    def _counts(self, bucket: dict[bytes, _Counts], tenant: bytes) -> tuple[_Counts, _Counts]:
        """Of the bucket, and of the whole minute."""
        here = bucket.get(tenant)
        if here is None:
            here = bucket[tenant] = _Counts()
        total = self._totals.get(tenant)
        if total is None:
            total = self._totals[tenant] = _Counts()
        return here, total

    def room(self, *, now: float, share: float) -> RetryRoom:
        """What may be dispatched now. share: the part of all shards held here."""
        while self._buckets and now - self._buckets[0][0] >= WINDOW_SECONDS:
            for tenant, counts in self._buckets.popleft()[1].items():
                total = self._totals[tenant]
                total.firsts -= counts.firsts
                total.retries -= counts.retries
                if not total.firsts and not total.retries:
                    del self._totals[tenant]
        floor = ceil(self.floor * share)
        answer = RetryRoom([], [], [], floor, floor)
        for tenant, total in self._totals.items():
            rate = max(floor, total.firsts * self.percent // 100)
            if rate > floor or total.retries:
                answer.tenants.append(tenant)
                answer.rooms.append(max(0, rate - total.retries))
                answer.rates.append(rate)
        return answer
