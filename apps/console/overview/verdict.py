"""Whether a tenant's work is well, in one sentence, and which circuit keeps some of it back. Pure but for one query."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.executions import freezing
from apps.executions.models import CircuitBreaker
from apps.executions.overview import ON_TIME_MS, Pulse
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

MOST_CIRCUITS = 3


@dataclass(frozen=True)
class Verdict:
    """state: of the icons. text: the sentence. circuits: those that let nothing through now, by when they try again."""

    state: str
    text: str
    circuits: list[CircuitBreaker]


def of(principal: Principal, pulse: Pulse, *, workers: int, now: datetime) -> Verdict:
    """Two queries."""
    rows = scoped(CircuitBreaker.objects.all(), principal).filter(quarantine_until__gt=now)
    frozen = freezing.standing_of([freezing.EVERYTHING, principal.tenant_id])
    state, text = _frozen(frozen, principal) or _sentence(pulse, workers)
    return Verdict(state, text, list(rows.order_by("quarantine_until")[:MOST_CIRCUITS]))


def _frozen(standing: Mapping[UUID, freezing.Frozen], principal: Principal) -> tuple[str, str] | None:
    for target, what in ((freezing.EVERYTHING, "The scheduler"), (principal.tenant_id, principal.tenant_slug)):
        if target in standing:
            return "frozen", f"{what} is frozen: nothing is dispatched until it is thawed. {standing[target].reason}"
    return None


def _sentence(pulse: Pulse, workers: int) -> tuple[str, str]:
    waiting = sum(pulse.waiting.values())
    if not workers:
        return "failed", "No worker is live: nothing begins until one is."
    if waiting and not pulse.begun:
        return "retrying", f"Behind: the latest {waiting:,} that were due have not begun."
    if not pulse.begun:
        return "completed", "Ready: workers are live, and nothing has been due yet."
    if latest := on_time_lately(pulse):
        return "completed", f"Well: the latest {latest:,} that were due all began within a second."
    if waiting:
        return "retrying", f"Behind: {waiting:,} are due and have not begun."
    return "completed", "Well: workers are live, and nothing that is due waits."


def on_time_lately(pulse: Pulse) -> int:
    """How many began on time since the last part of the sample in which many did not."""
    found = 0
    for span in reversed(pulse.spans):
        if span.late is not None and span.late > ON_TIME_MS:
            break
        found += span.begun
    return found


def tardy(pulse: Pulse) -> str:
    """What a share below all is made of; empty where nothing was late."""
    late = pulse.begun - pulse.on_time
    if not late:
        return ""
    since = on_time_lately(pulse)
    return f"{late:,} of {pulse.begun:,} began over 1 s late" + (f", none of the latest {since:,}" if since else "")
