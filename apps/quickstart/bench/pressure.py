"""Redis short of memory with a full hour ahead in it: the lookahead shrinks, most entries leave, nothing is lost."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta

from apps.definitions import services
from apps.dispatcher.hot_tier import HotTier
from apps.executions.states import Status
from apps.quickstart.bench import scenarios
from apps.tenants.models import UNLIMITED, Role, Tenant, Tier
from apps.tenants.principal import Principal
from chronoweb.runtime import redis_client
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import config

_MINUTES = 59
_FIRST_SECONDS = 120
_BATCH = 10_000


@dataclass(frozen=True)
class PressureFigures:
    """entries: in the hot tier, before and after. unaccounted: executions neither waiting nor done."""

    scenario: str
    count: int
    hydrate_seconds: float
    entries_before: int
    bytes_per_entry: float
    entries_after: int
    freed_share: float
    evict_seconds: float
    unaccounted: int
    entries_again: int

    def document(self) -> dict[str, object]:
        return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(self).items()}


def pressure(bench: "scenarios.Bench", *, count: int, say: Callable[[str], None]) -> PressureFigures:
    """Fill the hot tier with `count` entries over an hour, take memory away, and give it back."""
    client = redis_client.connect(bench.addresses.redis_url)
    hot_tier = HotTier(client, config().redis_prefix)
    empty = client.info("memory")["used_memory"]
    with scenarios.running(bench, preloader=True):
        tenants = -(-count // (config().hot_tier_entries * 9 // 10))
        began = time.monotonic()
        made = _fill(bench, count, tenants)
        say(f"enqueued {made} of {tenants} tenants")
        _until(lambda: hot_tier.size() >= made * 0.995, 300)
        hydrated, before = time.monotonic() - began, hot_tier.size()
        used = client.info("memory")["used_memory"]
        say(f"{before} entries, {used >> 20} MiB; taking memory away")
        client.config_set("maxmemory", int(used * 1.1))
        began = time.monotonic()
        _until(lambda: hot_tier.size() <= before * 0.2, 180)
        evicted, after = time.monotonic() - began, hot_tier.size()
        unaccounted = made - _accounted(bench)
        client.config_set("maxmemory", 0)
        say("memory given back")
        _until(lambda: hot_tier.size() >= before * 0.9, 180)
        again = hot_tier.size()
    return PressureFigures(
        scenario="pressure",
        count=made,
        hydrate_seconds=hydrated,
        entries_before=before,
        bytes_per_entry=(used - empty) / max(1, before),
        entries_after=after,
        freed_share=1 - after / max(1, before),
        evict_seconds=evicted,
        unaccounted=unaccounted,
        entries_again=again,
    )


def _fill(bench: "scenarios.Bench", count: int, tenants: int) -> int:
    base = bench.now() + timedelta(seconds=_FIRST_SECONDS)
    span = _MINUTES * 60 - _FIRST_SECONDS
    each = count // tenants
    for _ in range(tenants):
        tenant = Tenant.objects.create(slug=f"full-{time.monotonic_ns()}", name="full", tier=Tier.SYSTEM, **UNLIMITED)
        principal = Principal(tenant.id, tenant.slug, Role.OWNER, "bench")
        task = services.create_task(principal=principal, data=scenarios.task_document(name="full", priority=5))
        for start in range(0, each, _BATCH):
            items = [
                {"run_at": (base + timedelta(seconds=span * n / each)).isoformat()}
                for n in range(start, min(each, start + _BATCH))
            ]
            services.trigger_batch(principal=principal, task_id=task.id, items=items)
    return each * tenants


def _accounted(bench: "scenarios.Bench") -> int:
    row = bench.connection.execute(
        "SELECT count(*) FROM executions WHERE status = ANY(%s)",
        ([int(Status.SCHEDULED), int(Status.PRELOADED), int(Status.COMPLETED)],),
    ).fetchone()
    assert row is not None
    return row[0]


def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        SYSTEM_CLOCK.sleep(0.2)
