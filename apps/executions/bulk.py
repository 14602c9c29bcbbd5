"""One act on many executions: batch by batch, each a transaction of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Protocol
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import feed, person_store, selectors, services
from apps.executions.person_store import Move, Pending
from apps.executions.states import ACTIVE, RESTING, Status
from apps.tenants import audit
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import ChronowebError

ACTIONS = ("cancel", "retry")
MOST = 10_000
"""Things of one request; what is beyond remains for the next."""
BATCH = 500
RETRIED = 50
"""Of one batch of retries, each of which is several statements."""
ACT_SECONDS = 3.0
"""After so long a request begins no further batch: what it has not come to remains for the next."""


class Retry(Protocol):
    """services.retry, or one of its kind (definitions.replaying): under which version, it decides."""

    def __call__(self, *, principal: Principal, execution_id: UUID) -> UUID: ...


@dataclass
class Done:
    """What came of it. failed: id → why, where it was refused; the others were not hindered by it. handled: how many of
    those that were given it has come to, in their order.
    """

    done: int = 0
    failed: dict[UUID, str] = field(default_factory=dict)
    handled: int = 0


FITTING = {"cancel": frozenset(Status) - RESTING, "retry": RESTING}
"""What an act by filter means where the filter names no state."""


def find(*, principal: Principal, action: str, wanted: selectors.Filter, behind: UUID | None, limit: int) -> list[UUID]:
    """The ids of up to `limit` that an act by filter is for, latest scheduled first, behind the id `behind`."""
    now = person_store.database_now(postgres.raw(django_connection))
    return selectors.execution_ids(principal, fitted(action, wanted), now=now, behind=behind, limit=limit)


def fitted(action: str, wanted: selectors.Filter) -> selectors.Filter:
    """The filter with the states that the act means."""
    return wanted if wanted.statuses else replace(wanted, statuses=FITTING[action])


def act(
    *,
    principal: Principal,
    action: str,
    identities: Sequence[UUID],
    seconds: float | None = None,
    retry: Retry = services.retry,
) -> Done:
    """Cancel, or retry. seconds: no further batch is begun after so long; None: all are acted on."""
    if action == "cancel":
        return cancel_executions(principal=principal, identities=identities, seconds=seconds)
    return retry_executions(principal=principal, identities=identities, seconds=seconds, retry=retry)


def cancel_executions(*, principal: Principal, identities: Sequence[UUID], seconds: float | None = None) -> Done:
    """Stop these executions: at once what waits, and by its worker what one has. What has ended is told as failed."""
    found = Done()
    for batch in batches(identities, seconds=seconds):
        found.handled += len(batch)
        with transaction.atomic():
            connection = postgres.raw(django_connection)
            rows = person_store.lock_several(connection, identities=batch, tenant_id=principal.tenant_id)
            cancelled = _cancel(principal, rows)
        found.done += len(cancelled)
        for row in rows:
            if row.id not in cancelled:
                found.failed[UUID(bytes=row.id)] = f"it is {row.status.word}: it has ended"
    return found


def _cancel(principal: Principal, rows: Sequence[Pending]) -> set[bytes]:
    connection = postgres.raw(django_connection)
    active = [row for row in rows if row.status in ACTIVE]
    waiting = [row for row in rows if row.status not in ACTIVE and row.status not in RESTING]
    moves = [Move(row, Status.CANCELLED, reason="cancelled") for row in waiting]
    person_store.move(connection, moves, actor=principal.actor)
    person_store.request_cancels(connection, active, actor=principal.actor, reason="cancel requested")
    touched = {row.id for row in [*active, *waiting]}
    _tell(principal, "execution.cancel", touched)
    already = {row.id for row in rows if row.status is Status.CANCELLED}
    return touched | already


def retry_executions(
    *, principal: Principal, identities: Sequence[UUID], seconds: float | None = None, retry: Retry = services.retry
) -> Done:
    """Run each once more, as services.retry does; each stands for itself."""
    found = Done()
    for batch in batches(identities, size=RETRIED, seconds=seconds):
        found.handled += len(batch)
        with transaction.atomic():
            for identity in batch:
                try:
                    with transaction.atomic():
                        retry(principal=principal, execution_id=identity)
                except ChronowebError as refused:
                    found.failed[identity] = str(refused)
                else:
                    found.done += 1
    return found


def _tell(principal: Principal, action: str, touched: set[bytes]) -> None:
    if not touched:
        return
    audit.record_all(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="execution",
        target_ids=[UUID(bytes=identity) for identity in sorted(touched)],
    )
    transaction.on_commit(wakeup.preloader.wake)
    transaction.on_commit(lambda: feed.changed(principal.tenant_id, sorted(touched)))


def batches(identities: Sequence[UUID], *, size: int = BATCH, seconds: float | None = None) -> Iterator[Sequence[UUID]]:
    """Stretches of at most `size`, each in the order of the ids, in which everybody locks. seconds: none is begun after
    so long but the first.

    Without seconds the stretches are in this order, too; with them they are as they were given, and a transaction may
    span one alone.
    """
    end = None if seconds is None else monotonic() + seconds
    given = sorted(identities) if end is None else identities
    for start in range(0, len(given), size):
        if start and end is not None and monotonic() >= end:
            return
        yield sorted(given[start : start + size])
