"""Whether a tenant's work is well, in one sentence, what keeps some of it back, and where to go for that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from apps.console.wording import duration
from apps.executions import freezing, ids
from apps.executions.models import CircuitBreaker
from apps.executions.overview import ON_TIME_MS, Pulse
from apps.executions.states import ExecutionClass, Hold
from apps.explain import chips, turn, words
from apps.explain.backlog import MOST_COUNTED, Backlog
from apps.explain.fleet import fleet_of
from apps.explain.words import Reason
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

MOST_CIRCUITS = 3
_HELD = {
    Hold.PAUSED: "of paused tasks",
    Hold.OVERLAP: "behind an earlier execution of their task",
    Hold.CONCURRENCY: "for a place of their concurrency key",
    Hold.CIRCUIT: "for a circuit",
    Hold.NO_WORKER: "for a worker that carries their labels",
}


@dataclass(frozen=True)
class Cause:
    """Why some of it waits. address: the page that helps."""

    reason: Reason
    address: str


@dataclass(frozen=True)
class Verdict:
    """state: of the icons. text: the sentence. causes: what keeps back what is due. circuits: those that let nothing
    through now, by when they try again.
    """

    state: str
    text: str
    causes: list[Cause]
    circuits: list[CircuitBreaker]


def of(principal: Principal, pulse: Pulse, backlog: Backlog, *, workers: int, now: datetime) -> Verdict:
    """Three queries; one more while a quota is used up."""
    rows = scoped(CircuitBreaker.objects.all(), principal).filter(quarantine_until__gt=now)
    frozen = freezing.standing_of([freezing.EVERYTHING, principal.tenant_id])
    quota = chips.used_up(principal.tenant_id)
    state, text = _frozen(frozen, principal) or _stopped(backlog, workers) or _sentence(pulse, backlog, quota)
    causes = list(_causes(principal.tenant_slug, backlog, quota))
    return Verdict(state, text, causes, list(rows.order_by("quarantine_until")[:MOST_CIRCUITS]))


def _frozen(standing: Mapping[UUID, freezing.Frozen], principal: Principal) -> tuple[str, str] | None:
    for target, what in ((freezing.EVERYTHING, "The scheduler"), (principal.tenant_id, principal.tenant_slug)):
        if target in standing:
            return "frozen", f"{what} is frozen: nothing is dispatched until it is thawed. {standing[target].reason}"
    return None


def _stopped(backlog: Backlog, workers: int) -> tuple[str, str] | None:
    """What nothing goes without."""
    if backlog.met.workers is None:
        return "failed", "Redis does not answer: nothing is dispatched until it does. What is due is kept."
    if not workers or (backlog.is_behind and not backlog.met.able):
        return "failed", "No worker is live: nothing begins until one is."
    if not backlog.met.led:
        return "failed", "No dispatcher leads: nothing is dispatched until one does. What is due is kept."
    if unled := ids.SHARDS - len(backlog.met.led):
        return "retrying", f"{unled} of {ids.SHARDS} shards have no dispatcher: what falls to them waits for another."
    if not backlog.preloader:
        return "retrying", "No preloader leads: what is new waits until one does, what is loaded goes on."
    return None


def _sentence(pulse: Pulse, backlog: Backlog, quota: Reason | None) -> tuple[str, str]:
    queued = sum(backlog.queued.values())
    count = f"{'at least ' if backlog.at_least else ''}{queued:,}"
    if quota is not None and queued:
        return "retrying", f"Over a quota: {count} wait. {quota.text}"
    if queued and backlog.is_behind and backlog.oldest is not None:
        since = duration(backlog.oldest)
        return "retrying", f"Behind: {count} are due and have not begun, the oldest for {since}."
    if not backlog.met.queue.complete:
        return "retrying", "The hot tier is being filled anew: what is due begins once it is."
    if not pulse.begun and not backlog.total:
        return "completed", "Ready: workers are live, and nothing has been due yet."
    if (latest := on_time_lately(pulse)) and not backlog.held:
        return "completed", f"Well: the latest {latest:,} that were due all began within a second."
    if backlog.held:
        held = sum(backlog.held.values())
        return "completed", f"Well: nothing that may begin waits. {held:,} {'are' if held > 1 else 'is'} held."
    return "completed", "Well: workers are live, and nothing that is due waits."


def _causes(slug: str, backlog: Backlog, quota: Reason | None) -> Iterator[Cause]:
    """What queues first, then what is held on its own."""
    limits = reverse("console:settings_limits", kwargs={"slug": slug})
    queued, met = sum(backlog.queued.values()), backlog.met
    if queued and quota is not None:
        yield Cause(quota, limits)
    elif backlog.is_behind:
        if limit := turn.of_all(met, waiting=queued):
            yield Cause(limit, limits)
        else:
            yield from _slots(slug, backlog)
    if backlog.unloaded and backlog.is_behind:
        reason = Reason(words.Code.NOT_LOADED, f"{backlog.unloaded:,} wait for the preloader")
        yield Cause(reason, reverse("console:scheduler", kwargs={"slug": slug}))
    executions = reverse("console:executions", kwargs={"slug": slug})
    for hold, count in backlog.held.items():
        at_least = "at least " if count >= MOST_COUNTED else ""
        text = f"{at_least}{count:,} {'wait' if count > 1 else 'waits'} {_HELD[hold]}"
        yield Cause(Reason(words.Code.IN_QUEUE, text), f"{executions}?why={hold.word}")


def _slots(slug: str, backlog: Backlog) -> Iterator[Cause]:
    met = backlog.met
    for one in ExecutionClass:
        waiting = backlog.queued[one]
        fleet = fleet_of(met.workers or (), tenant=met.tenant_id.hex, requires=(), class_index=int(one))
        if waiting and fleet.able and not fleet.free:
            full = turn.no_slot_for_all(one, fleet, met, waiting=waiting)
            yield Cause(full, reverse("console:workers", kwargs={"slug": slug}))


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
