"""What waits of one tenant though its time has come, and what it meets: sizes of the hot tier, and bounded counts."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import connection as django_connection

from apps.executions.models import Route
from apps.executions.states import ExecutionClass, Hold
from apps.executions.store import named_sql
from apps.explain import turn
from apps.explain.turn import Standing
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres

MOST_COUNTED = 5000
"""Of one class that the preloader has not taken, and of one hold: what the hot tier has is counted in any number."""
HELD_ALONE = (Hold.PAUSED, Hold.OVERLAP, Hold.CONCURRENCY, Hold.CIRCUIT, Hold.NO_WORKER)
"""Holds of one execution. Those of a whole tenant, and of a retry, wait for the preloader, and are counted there."""
_BACK = timedelta(days=7)
"""As far back as lists look by themselves; each further day is a partition to plan for."""
_MOST_ROUTES = 20


@dataclass(frozen=True)
class Backlog:
    """queued: due, held by nothing of its own, by class. held: due, by what holds it. unloaded: how many of the queued
    are not in the hot tier yet. at_least: a count ended at its bound, or the hot tier cannot tell. oldest: since when
    the first of the queued has been due. preloader: whether one leads.
    """

    queued: Mapping[ExecutionClass, int]
    held: Mapping[Hold, int]
    unloaded: int
    at_least: bool
    oldest: timedelta | None
    met: Standing
    preloader: bool = True

    def at_least_as(self, seen: Mapping[ExecutionClass, int]) -> "Backlog":
        """The same where the hot tier cannot tell and so many were seen in the ledger."""
        if self.met.queue.complete:
            return self
        return replace(self, queued={one: max(count, seen[one]) for one, count in self.queued.items()})

    @property
    def total(self) -> int:
        """Of all that is due and has not begun."""
        return sum(self.queued.values()) + sum(self.held.values())

    @property
    def is_behind(self) -> bool:
        """Whether something that nothing holds has waited for longer than a start takes."""
        return self.oldest is not None and self.oldest > turn.AT_ONCE


def read(principal: Principal, *, now: datetime) -> Backlog:
    """Three queries, and three pipelines to Redis."""
    routes = list(Route.objects.order_by("id").values_list("id", flat=True)[:_MOST_ROUTES])
    met = turn.standing(principal.tenant_id, [], now=now, routes=routes)
    parameters = {
        "tenant": principal.tenant_id,
        "now": now,
        "since": now - _BACK,
        "most": MOST_COUNTED,
        "holds": [int(hold) for hold in HELD_ALONE],
    }
    row = postgres.raw(django_connection).execute(named_sql("overview_waiting"), parameters).fetchone()
    assert row is not None
    unloaded, oldest, held, preloader = row
    ages = [] if oldest is None else [now - oldest]
    if met.queue.oldest_ms is not None:
        ages.append(timedelta(milliseconds=met.queue.oldest_ms))
    return Backlog(
        queued={one: met.queue.due.get(int(one), 0) + unloaded[int(one)] for one in ExecutionClass},
        held={hold: count for hold, count in zip(HELD_ALONE, held, strict=True) if count},
        unloaded=sum(unloaded),
        at_least=not met.queue.complete or max(*unloaded, *held) >= MOST_COUNTED,
        oldest=max(ages, default=None),
        met=met,
        preloader=preloader,
    )
