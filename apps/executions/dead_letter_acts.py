"""What is done to some dead letters of a filter in one request: a canary goes round, or nobody wants them any more.

Each is a transaction of its own, so what somebody else has seen to meanwhile is left out and holds nobody up. Many are
sent round by a replay with a pace (dead_letters.py).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from apps.executions import services
from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.models import DeadLetter
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import Conflict, NotFound

MOST_CANARIES = 20
MOST_DISCARDED = 200
"""In one request: callers go on until none is left."""


@dataclass(frozen=True, slots=True)
class Done:
    """done: ids of what runs again, or was discarded. left_out: others had seen to them, or cannot run again."""

    done: list[UUID]
    left_out: int


def canary(*, principal: Principal, wanted: DeadLetterFilter, few: int, from_start: bool = False) -> Done:
    """Send the `few` that are due last round again: they tell whether the rest is worth it."""
    found = _of(principal, wanted).order_by("-execution_id")[: min(few, MOST_CANARIES)]
    return _each(
        found.values_list("execution_id", flat=True),
        lambda identity: services.replay(principal=principal, execution_id=identity, from_start=from_start),
    )


def discard(*, principal: Principal, wanted: DeadLetterFilter, reason: str, most: int = MOST_DISCARDED) -> Done:
    """Give up to `most` of them up, the earliest due first. Raises InvalidInputs."""

    def give_up(identity: UUID) -> UUID:
        services.discard(principal=principal, execution_id=identity, reason=reason)
        return identity

    found = _of(principal, wanted).order_by("execution_id")[:most]
    return _each(found.values_list("execution_id", flat=True), give_up)


def _of(principal: Principal, wanted: DeadLetterFilter) -> QuerySet[DeadLetter]:
    return wanted.narrowed(scoped(DeadLetter.objects.all(), principal))


def _each(identities: Iterable[UUID], act: Callable[[UUID], UUID]) -> Done:
    done, left_out = [], 0
    for identity in list(identities):
        try:
            done.append(act(identity))
        except (Conflict, NotFound):
            left_out += 1
    return Done(done, left_out)
