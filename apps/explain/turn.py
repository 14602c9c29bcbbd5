"""Why something that is due, and that nothing holds, has not had its turn: a limit of its tenant, no slot, a queue."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import redis
from django.db import connection as django_connection

from apps.executions import ids
from apps.executions.labels import no_worker, required_by
from apps.executions.models import Execution
from apps.executions.states import ExecutionClass
from apps.explain import looking, queue, words
from apps.explain.fleet import Fleet, fleet_of
from apps.explain.queue import Entry, Queue
from apps.explain.words import Code, Reason
from apps.worker.live_state import LiveState, LiveStates
from chronoweb.runtime import postgres

AT_ONCE = timedelta(seconds=1)
"""What is due begins at once; only what has not by then is said to wait for a slot, or behind others."""
_OUT = """
SELECT (SELECT max_concurrent_workers FROM tenants WHERE id = %(tenant)s),
    (SELECT coalesce(array_agg(substr(role, 12)::int), '{}') FROM leases
        WHERE role LIKE 'dispatcher/%%' AND expires_at > clock_timestamp()),
    count(*) FILTER (WHERE class = 0), count(*) FILTER (WHERE class = 1), count(*) FILTER (WHERE class = 2)
FROM outstanding WHERE tenant_id = %(tenant)s
"""


@dataclass(frozen=True)
class Standing:
    """What one tenant's due work meets. out: how many are at workers, by class. limit: how many may be, in all.
    workers: those that live; None: Redis is away. led: shards that a dispatcher holds.
    """

    tenant_id: UUID
    now: datetime
    out: Sequence[int] = (0, 0, 0)
    limit: int | None = None
    queue: Queue = field(default_factory=Queue)
    workers: Sequence[LiveState] | None = None
    led: frozenset[int] = frozenset(range(ids.SHARDS))

    @property
    def full(self) -> tuple[int, int] | None:
        """(used, limit) where as many of it run as may."""
        used = sum(self.out)
        return None if self.limit is None or used < self.limit else (used, self.limit)

    @property
    def able(self) -> int:
        """How many workers live that may run what asks for no labels."""
        return fleet_of(self.workers or (), tenant=self.tenant_id.hex, requires=(), class_index=0).able

    def without_slot(self, one: ExecutionClass, fleet: Fleet) -> int:
        """How many were sent and have no slot yet: they go first."""
        return max(0, self.out[one] - fleet.slots)


def standing(
    tenant_id: UUID, executions: Sequence[Execution], *, now: datetime, routes: Sequence[int] = ()
) -> Standing:
    """One query, and three pipelines to Redis. executions: those whose place is to be known."""
    entries = [Entry(e.id.bytes, e.class_index, e.route_id) for e in executions]
    seen, workers = looking.ask(partial(_look, tenant_id, entries, routes)) or (Queue(complete=False), None)
    row = postgres.raw(django_connection).execute(_OUT, {"tenant": tenant_id}).fetchone()
    assert row is not None
    limit, led, *out = row
    return Standing(tenant_id, now, out, limit, seen, workers, frozenset(led))


def _look(
    tenant_id: UUID, entries: Sequence[Entry], routes: Sequence[int], client: redis.Redis, prefix: str
) -> tuple[Queue, Sequence[LiveState]]:
    states = [state for _, state in LiveStates(client, prefix).read().values()]
    return queue.look(client, prefix, tenant=tenant_id, entries=entries, routes=routes), states


def reason(execution: Execution, met: Standing) -> Reason | None:
    """None: it is due, and that is all that can be said."""
    place, shard = met.queue.places.get(execution.id.bytes), ids.shard(execution.id.bytes)
    is_late = met.now - max(execution.run_at, execution.created_at) > AT_ONCE
    if is_late and shard not in met.led:
        return Reason(Code.NO_DISPATCHER, words.no_dispatcher(shard), {"shard": shard})
    if limit := of_tenant(met, ahead=None if place is None else place.of_tenant):
        return limit
    if not is_late:
        return None
    one, definition = ExecutionClass(execution.class_index), execution.task_version.definition
    ahead = None if place is None else place.due
    if met.workers is not None:
        tenant, requires = met.tenant_id.hex, required_by(definition)
        fleet = fleet_of(met.workers, tenant=tenant, requires=requires, class_index=int(one))
        if not fleet.able:
            return Reason(Code.NO_WORKER, no_worker(definition))
        if ahead is not None:
            ahead += met.without_slot(one, fleet)
        if not fleet.free:
            return no_slot(one, fleet, met, ahead=ahead)
    return in_queue(one, met, ahead=ahead) if ahead else None


def of_tenant(met: Standing, *, ahead: int | None) -> Reason | None:
    """The limit that its tenant's work stands at, if it stands at one. ahead: of its tenant, all that go before."""
    pace = met.queue.pace_of_all
    if met.full is not None:
        used, limit = met.full
        return words.in_turn(
            Code.MAX_CONCURRENT_WORKERS,
            words.max_concurrent(used, limit),
            now=met.now,
            ahead=ahead,
            seconds=(ahead + 1) / pace if ahead is not None and pace else None,
            figures={"used": used, "limit": limit},
        )
    if met.queue.over_rate:
        return at_rate(met.queue.over_rate, now=met.now, ahead=ahead)
    return None


def at_rate(limit: int, *, now: datetime, ahead: int | None, is_all: bool = True) -> Reason:
    """Its tenant has had this second's dispatches. is_all: nothing else is known to keep it."""
    seconds = ahead / limit if ahead is not None and is_all else None
    text, figures = words.rate_limit(limit), {"limit": limit}
    return words.in_turn(Code.RATE_LIMIT_RPS, text, now=now, ahead=ahead, seconds=seconds, figures=figures)


def no_slot(one: ExecutionClass, fleet: Fleet, met: Standing, *, ahead: int | None) -> Reason:
    """All slots for its class are in use."""
    pace = met.queue.pace.get(int(one))
    seconds = (ahead + 1) / pace if ahead is not None and pace else None
    text, figures = words.no_free_slot(one.word, fleet.slots), {"class": one.word, "slots": fleet.slots, "free": 0}
    return words.in_turn(Code.NO_FREE_SLOT, text, now=met.now, ahead=ahead, seconds=seconds, figures=figures)


def of_all(met: Standing, *, waiting: int) -> Reason | None:
    """The limit that all of a tenant's due work stands at, if it stands at one."""
    pace = met.queue.pace_of_all
    if met.full is not None:
        used, limit = met.full
        text, seconds = words.max_concurrent(used, limit), waiting / pace if pace else None
        return words.all_wait(Code.MAX_CONCURRENT_WORKERS, text, now=met.now, waiting=waiting, seconds=seconds)
    if limit := met.queue.over_rate or 0:
        text, seconds = words.rate_limit(limit), waiting / limit
        return words.all_wait(Code.RATE_LIMIT_RPS, text, now=met.now, waiting=waiting, seconds=seconds)
    return None


def no_slot_for_all(one: ExecutionClass, fleet: Fleet, met: Standing, *, waiting: int) -> Reason:
    """All slots for a class are in use, and so much of it is due."""
    pace = met.queue.pace.get(int(one))
    first = met.without_slot(one, fleet)
    text, seconds = words.no_free_slot(one.word, fleet.slots), (waiting + first) / pace if pace else None
    return words.all_wait(Code.NO_FREE_SLOT, text, now=met.now, waiting=waiting, seconds=seconds)


def in_queue(one: ExecutionClass, met: Standing, *, ahead: int) -> Reason:
    """Others of its tenant and class go before it."""
    pace = met.queue.pace.get(int(one))
    seconds = ahead / pace if pace else None
    return words.in_turn(
        Code.IN_QUEUE, words.DUE_NOW, now=met.now, ahead=ahead, seconds=seconds, figures={"class": one.word}
    )
