"""When it might start: a guess, and what it was made from. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.executions.circuits import LOTS
from apps.executions.states import PENDING, Hold
from apps.explain.facts import BOUND, Facts
from apps.explain.words import Code, Reason, duration

_WAITS_ITS_TURN = frozenset(
    {Code.IN_QUEUE, Code.NOT_LOADED, Code.NO_FREE_SLOT, Code.MAX_CONCURRENT_WORKERS, Code.RATE_LIMIT_RPS}
)
_SHARED = frozenset({Code.OVERLAP, Code.CONCURRENCY_KEY})
_OF_TIME = frozenset({Code.NOT_DUE, Code.RETRY_DELAY, Code.RETRY_BUDGET})


@dataclass(frozen=True, slots=True)
class Position:
    """ahead: how many of its tenant, class and labels come before it, as counted. at_least: that ended at its bound.
    turns: queues of its class that have work due, which take turns with its tenant's; None: not to be told.
    """

    ahead: int
    at_least: bool
    turns: int | None
    loaded: bool


@dataclass(frozen=True, slots=True)
class Estimate:
    """at: None: nobody can tell. basis: what it follows from, in words."""

    at: datetime | None
    basis: str


def position(facts: Facts) -> Position | None:
    """Its place in its queue; None: it does not queue (it is sent, runs or rests), or Redis is away."""
    if facts.status not in PENDING:
        return None
    if facts.line is not None:
        return Position(facts.line.ahead, at_least=False, turns=facts.line.members, loaded=True)
    if facts.hold in (Hold.OVERLAP, Hold.CONCURRENCY):
        return Position(facts.waiters_ahead, at_least=facts.waiters_ahead >= BOUND, turns=1, loaded=False)
    if facts.wake_at is None:
        return None
    # What the preloader has taken before it stands in the hot tier.
    before = facts.queue.due.get(int(facts.execution_class), 0) + facts.waiting_ahead
    return Position(before, at_least=facts.waiting_ahead >= BOUND, turns=1, loaded=False)


def estimate(
    facts: Facts, reasons: Sequence[Reason], place: Position | None, *, slow_start_percent: float
) -> Estimate | None:
    """None for what has begun or rests."""
    if facts.status not in PENDING:
        return None
    codes = {reason.code for reason in reasons}
    known = [(r.clears_when, f"after {r.code}") for r in reasons if r.clears_when is not None]
    if Code.CIRCUIT_OPEN in codes:
        known.append(_circuit(facts, slow_start_percent))
    if codes & _SHARED and (turn := _place_of_key(facts)):
        known.append(turn)
        codes -= _SHARED
    told = {reason.code for reason in reasons if reason.clears_when is not None}
    if unknown := [r.code for r in reasons if r.code in codes - told - _WAITS_ITS_TURN]:
        return Estimate(None, f"nobody can tell when this ends: {', '.join(unknown)}")
    begin, basis = max(known) if known else (facts.now, "")
    begin = max(begin, facts.now)
    queue, said = _queue(facts, codes, place)
    if queue is None:
        return Estimate(None, said)
    # What is due now goes meanwhile; what else it waits for keeps those behind it back, too.
    at = max(begin, facts.now + queue) if codes & _OF_TIME else begin + queue
    return Estimate(at, "; ".join(part for part in (basis, said if queue or not basis else "") if part))


def _circuit(facts: Facts, percent: float) -> tuple[datetime, str]:
    """A share goes when the quarantine ends, the rest after the slow start: if it answers then."""
    circuit = facts.circuit
    assert circuit is not None
    assert circuit.quarantine_until is not None
    if facts.first_lot or facts.lot < LOTS * percent / 100 or circuit.slow_start_until is None:
        return circuit.quarantine_until, "among the first that try it again"
    return circuit.slow_start_until, f"after the slow start, if it answers the {percent:g} % before"


def _place_of_key(facts: Facts) -> tuple[datetime, str] | None:
    """When it is its turn at its key's places, or its task's: all take as long as the task's last runs."""
    if facts.run_seconds is None:
        return None
    length = timedelta(seconds=facts.run_seconds)
    places = max(1, facts.places) if facts.concurrency_key is not None else 1
    ran = facts.now - facts.held_since if facts.held_since is not None else timedelta(0)
    left = max(timedelta(0), length - ran)
    rounds = facts.waiters_ahead // places
    begin = facts.now + left + rounds * length
    return begin, f"{facts.waiters_ahead:,} wait for it before, runs of its task take {duration(length)}"


def _sent(facts: Facts) -> int:
    """How many of its class have been sent and have no slot yet."""
    slots = facts.fleet.slots if facts.fleet is not None else facts.class_outstanding
    return max(0, facts.class_outstanding - slots)


def _queue(facts: Facts, codes: set[Code], place: Position | None) -> tuple[timedelta | None, str]:
    """How long what goes before it takes: at the tenant's rate, or as fast as it has gone lately."""
    full = bool(codes & {Code.NO_FREE_SLOT, Code.MAX_CONCURRENT_WORKERS})
    of_tenant = codes & {Code.RATE_LIMIT_RPS, Code.MAX_CONCURRENT_WORKERS}
    if facts.line is not None:
        before = facts.line.of_tenant if of_tenant else facts.line.due
    else:
        before = place.ahead if place and facts.wake_at is not None and facts.run_at <= facts.now else 0
    if Code.RATE_LIMIT_RPS not in codes or full:
        before += _sent(facts) + (1 if full else 0)
    if not before:
        return timedelta(0), "nothing is before it in its queue"
    if Code.RATE_LIMIT_RPS in codes and not full and facts.rate_limit_rps:
        rate = facts.rate_limit_rps
        return timedelta(seconds=before / rate), f"{before:,} before it, {rate:,} a second may go"
    pace = facts.queue.pace_of_all if of_tenant else facts.queue.pace.get(int(facts.execution_class))
    if pace:
        return timedelta(seconds=before / pace), f"{before:,} before it, {pace:,.3g} a second have ended lately"
    if facts.ended_last_minute is None:
        return None, f"{before:,} before it, and none of its tenant has ended in the last minute"
    if not facts.ended_last_minute:
        return None, f"{before:,} before it, and nothing has ended in the last minute"
    before *= (place.turns or 1) if place else 1
    seconds = before * 60 / facts.ended_last_minute
    return timedelta(seconds=seconds), f"{before:,} before it, {facts.ended_last_minute:,} ended in the last minute"
