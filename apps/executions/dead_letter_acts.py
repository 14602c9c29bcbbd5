"""What is done to some dead letters of a filter in one request: a canary goes round, or nobody wants them any more.

Each is a transaction of its own, so what somebody else has seen to meanwhile is left out and holds nobody up. Many are
sent round by a replay with a pace (dead_letters.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from django.db.models import QuerySet

from apps.executions import services
from apps.executions.dead_letters import MISSING, DeadLetterFilter
from apps.executions.models import DeadLetter
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import ChronowebError, Conflict, InvalidInputs, NotFound

MOST_CANARIES = 20
MOST_DISCARDED = 200
"""In one request: callers go on until none is left."""


@dataclass(frozen=True, slots=True)
class Done:
    """done: ids of what runs again, or was discarded. refused: the others, and why; they hindered nothing else.

    behind: the last that was looked at; what follows it is for the next request. None: nothing was.
    """

    done: list[UUID]
    refused: dict[UUID, str]
    behind: UUID | None = None


class ReplayOne(Protocol):
    """services.replay, or one of its kind (definitions.replaying): under which version, it decides."""

    def __call__(self, *, principal: Principal, execution_id: UUID, from_start: bool) -> UUID: ...


def canary(
    *,
    principal: Principal,
    wanted: DeadLetterFilter,
    few: int,
    from_start: bool = False,
    replay: ReplayOne = services.replay,
) -> Done:
    """Send the `few` that are due last round again: they tell whether the rest is worth it."""
    found = _of(principal, wanted).order_by("-execution_id")[: min(few, MOST_CANARIES)]
    return _each(
        list(found.values_list("execution_id", flat=True)),
        lambda identity: replay(principal=principal, execution_id=identity, from_start=from_start),
        refusals=(Conflict, NotFound, InvalidInputs),
    )


def discard(
    *,
    principal: Principal,
    wanted: DeadLetterFilter,
    reason: str,
    most: int = MOST_DISCARDED,
    behind: UUID | None = None,
) -> Done:
    """Give up to `most` of them up, the earliest due first, from `behind` on. Raises InvalidInputs."""
    found = _of(principal, wanted)
    if behind is not None:
        found = found.filter(execution_id__gt=behind)
    there = list(found.order_by("execution_id").values_list("execution_id", flat=True)[:most])
    meant = there
    if wanted.ids is not None:
        meant = sorted(one for one in wanted.ids if behind is None or one > behind)[:most]
    known = set(there)

    def give_up(identity: UUID) -> UUID:
        if identity not in known:
            raise NotFound(MISSING)
        services.discard(principal=principal, execution_id=identity, reason=reason)
        return identity

    return _each(meant, give_up)


def _of(principal: Principal, wanted: DeadLetterFilter) -> QuerySet[DeadLetter]:
    return wanted.narrowed(scoped(DeadLetter.objects.all(), principal))


def _each(
    identities: list[UUID],
    act: Callable[[UUID], UUID],
    refusals: tuple[type[ChronowebError], ...] = (Conflict, NotFound),
) -> Done:
    done, refused = [], {}
    for identity in identities:
        try:
            done.append(act(identity))
        except refusals as error:
            refused[identity] = str(error)
    return Done(done, refused, identities[-1] if identities else None)
