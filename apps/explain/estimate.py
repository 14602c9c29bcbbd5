"""When it might start: a guess, and what it was made from. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from apps.executions.states import PENDING
from apps.explain.facts import BOUND, Facts
from apps.explain.words import Code, Reason

_WAITS_ITS_TURN = frozenset({Code.IN_QUEUE, Code.NOT_LOADED, Code.NO_FREE_SLOT, Code.MAX_CONCURRENT_WORKERS})
_MOMENTS = frozenset({Code.RATE_LIMIT_RPS})


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
    if facts.wake_at is None:
        return None
    return Position(facts.waiting_ahead, at_least=facts.waiting_ahead >= BOUND, turns=1, loaded=False)


def estimate(facts: Facts, reasons: Sequence[Reason], place: Position | None) -> Estimate | None:
    """None for what has begun or rests."""
    if facts.status not in PENDING:
        return None
    unknown = [r.code for r in reasons if r.clears_when is None and r.code not in _WAITS_ITS_TURN | _MOMENTS]
    if unknown:
        return Estimate(None, f"nobody can tell when this ends: {', '.join(unknown)}")
    known = [(r.clears_when, r.code) for r in reasons if r.clears_when is not None]
    begin, basis = max(known) if known else (facts.now, None)
    begin = max(begin, facts.now)
    queue, told = _queue(facts, reasons, place)
    if queue is None:
        return Estimate(None, told)
    return Estimate(begin + queue, "; ".join(part for part in (f"after {basis}" if basis else "", told) if part))


def _queue(facts: Facts, reasons: Sequence[Reason], place: Position | None) -> tuple[timedelta | None, str]:
    """How long the queue before it takes, at the speed of the last minute."""
    before = (place.ahead * (place.turns or 1) if place else 0) + (
        1 if any(r.code in (Code.NO_FREE_SLOT, Code.MAX_CONCURRENT_WORKERS) for r in reasons) else 0
    )
    if not before:
        return timedelta(0), "nothing is before it in its queue"
    if facts.ended_last_minute is None:
        return None, f"{before:,} before it, on workers that it shares"
    if not facts.ended_last_minute:
        return None, f"{before:,} before it, and nothing has ended in the last minute"
    seconds = before * 60 / facts.ended_last_minute
    return timedelta(seconds=seconds), f"{before:,} before it, {facts.ended_last_minute:,} ended in the last minute"
