"""What Redis says: the slots of live workers by class, and where an execution stands in the hot tier.

Both are hints that may be lost; what cannot be read is None, and the rest is told all the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import redis

from apps.executions import hot_keys, ids
from apps.explain import looking, queue
from apps.explain.queue import Entry, Queue
from apps.worker.live_state import LiveState, LiveStates
from chronoweb.runtime import redis_client


@dataclass(frozen=True, slots=True)
class Fleet:
    """Live workers that may run it: how many, their slots for its class, and those that nothing is going to take.

    alive: those that are not another tenant's. sent_to: the same (slots, free) of the worker that it was sent to.
    """

    alive: int
    able: int
    slots: int
    free: int
    sent_to: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """Its place in the hot tier. ahead: of its tenant, class and labels; due: those of them that are due now;
    of_tenant: all of its tenant that are due and go before it; members: queues of its class that have work due in its
    shard, its own included; None: not to be told, since most are other tenants'.
    """

    ahead: int
    members: int | None
    due: int = 0
    of_tenant: int = 0


@dataclass(frozen=True, slots=True)
class Sight:
    """All that was seen."""

    fleet: Fleet | None = None
    line: Line | None = None
    queue: Queue = field(default_factory=Queue)


def look(row: dict[str, Any], *, requires: Sequence[str], whole: bool = False) -> Sight:
    """row: of facts.read. whole: as there. Five pipelines at most."""

    def read(client: redis.Redis, prefix: str) -> Sight:
        states = {worker: state for worker, (_, state) in LiveStates(client, prefix).read().items()}
        class_index = row["class"]
        fleet = fleet_of(list(states.values()), tenant=row["tenant_id"].hex, requires=requires, class_index=class_index)
        if own := states.get(row["worker_id"]):
            fleet = replace(fleet, sent_to=(own.slots[class_index], max(0, own.free[class_index])))
        entry = Entry(row["id"].bytes, class_index, row["route_id"])
        seen = queue.look(client, prefix, tenant=row["tenant_id"], entries=[entry], routes=[])
        place = seen.places.get(entry.id)
        if place is None:
            return Sight(fleet, None, seen)
        ring = hot_keys.ring_key(prefix, ids.shard(entry.id), class_index)
        members = max(1, int(client.zcount(ring, "-inf", redis_client.now_ms(client)))) if whole else None
        return Sight(fleet, Line(place.ahead, members, place.due, place.of_tenant), seen)

    return looking.ask(read) or Sight()


def fleet_of(states: Sequence[LiveState], *, tenant: str, requires: Sequence[str], class_index: int) -> Fleet:
    """As dispatchers choose: a tenant's own workers, if they carry the labels, are all that may. Pure."""
    known = [s for s in states if s.tenant in (None, tenant)]
    able = [s for s in known if set(requires) <= set(s.labels)]
    able = [state for state in able if state.tenant is not None] or able
    slots = sum(state.slots[class_index] for state in able)
    return Fleet(len(known), len(able), slots, sum(max(0, state.free[class_index]) for state in able))
