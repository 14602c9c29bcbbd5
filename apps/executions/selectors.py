"""Reading the ledger for people and programs: always a tenant's, always a page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Count

from apps.executions import ids
from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.models import (
    Attempt,
    DeadLetter,
    Execution,
    ExecutionEvent,
    ExecutionQuerySet,
    Outstanding,
    Progress,
    Slot,
)
from apps.executions.states import ACTIVE, RESTING, Hold, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import NotFound

DEFAULT_DAYS_BACK = 35
"""A list that names no `since` looks back this far; without a bound a rare state would be sought in all history."""

_AHEAD = timedelta(days=401)  # nothing is scheduled farther ahead
_FIRST_WINDOW = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which executions. since (inclusive) and until (exclusive) are about scheduled_at, aware."""

    task_id: UUID | None = None
    statuses: frozenset[Status] = field(default_factory=frozenset)
    since: datetime | None = None
    until: datetime | None = None


def executions(
    principal: Principal, wanted: Filter, *, now: datetime, below: UUID | None = None, limit: int
) -> list[Execution]:
    """Up to `limit` executions, latest scheduled first, with ids below `below`.

    An id begins with scheduled_at, so the order of ids is the order of time and a day is a stretch of ids. The search
    goes back window by window: a full page mostly needs one, so most partitions are never opened.
    """
    rows = _filtered(principal, wanted)
    found: list[Execution] = []
    for since, until in _windows(wanted, now=now, below=below):
        # scheduled_at chooses the partitions. The same bounds on the id make the index whose order is the page's order
        # the better choice even where statistics are missing: else a day's rows are read and sorted for one page.
        top = ids.lowest(until) if below is None else min(below, ids.lowest(until))
        page = rows.filter(scheduled_at__gte=since, scheduled_at__lt=until, id__gte=ids.lowest(since), id__lt=top)
        found += page.order_by("-id")[: limit - len(found)]
        if len(found) >= limit:
            break
    return found


def _filtered(principal: Principal, wanted: Filter) -> ExecutionQuerySet:
    rows: ExecutionQuerySet = scoped(Execution.objects.all(), principal)  # type: ignore[assignment]
    rows = rows.prefetch_related("task_version")  # not joined: a join would undo the index's order
    if wanted.task_id is not None:
        rows = rows.filter(task_id=wanted.task_id)
    if wanted.statuses:
        rows = rows.filter(status__in=sorted(wanted.statuses))
        # No index on executions names the status; two states have small tables of their own.
        if wanted.statuses <= ACTIVE:
            rows = rows.filter(id__in=scoped(Outstanding.objects.all(), principal).values("execution_id"))
        elif wanted.statuses == {Status.DEAD_LETTER}:
            rows = rows.filter(id__in=scoped(DeadLetter.objects.all(), principal).values("execution_id"))
    return rows


def _windows(wanted: Filter, *, now: datetime, below: UUID | None) -> Iterator[tuple[datetime, datetime]]:
    """Stretches of scheduled_at, latest first, each longer than the one before."""
    until = min(wanted.until or ids.LATEST, now + _AHEAD)
    if below is not None:
        begin = ids.scheduled_at(below)
        until = min(until, begin + timedelta(milliseconds=1)) if begin else until
    floor = max(wanted.since or now - timedelta(days=DEFAULT_DAYS_BACK), ids.EARLIEST)
    since = min(until, now) - _FIRST_WINDOW
    span = _FIRST_WINDOW
    while until > floor:
        yield max(since, floor), until
        span *= 3
        until, since = since, since - span


def execution(principal: Principal, execution_id: UUID) -> Execution:
    """One execution. Raises NotFound, for ids of other tenants too."""
    rows = Execution.objects.with_id(execution_id).select_related("task_version")
    found = scoped(rows, principal).first()
    if found is None:
        raise NotFound(f"no execution with id {execution_id} in tenant {principal.tenant_slug}")
    return found


def attempts_of(found: Execution) -> Sequence[Attempt]:
    """Every attempt, in order; releases included."""
    rows = Attempt.objects.filter(scheduled_at=found.scheduled_at, execution_id=found.id)
    return list(rows.order_by("token", "attempt"))


def progress_of(found: Execution) -> Progress | None:
    """What its attempts have said so far; None for what has said nothing, or rests for good."""
    return (
        None
        if found.state in RESTING - {Status.DEAD_LETTER}
        else Progress.objects.filter(execution_id=found.id).first()
    )


def running_under_keys(found: Iterable[Execution]) -> dict[str, int]:
    """How many run under each concurrency key that one of `found` waits for; no query when none waits."""
    keys = {row.concurrency_key for row in found if row.hold == Hold.CONCURRENCY and row.concurrency_key}
    if not keys:
        return {}
    counts = Slot.objects.filter(key__in=keys).values_list("key").annotate(running=Count("n"))
    return dict.fromkeys(keys, 0) | dict(counts)


def events_of(found: Execution) -> Sequence[ExecutionEvent]:
    """Every exceptional transition, in order."""
    rows = ExecutionEvent.objects.filter(scheduled_at=found.scheduled_at, execution_id=found.id)
    return list(rows.order_by("at", "event_id"))


@dataclass(frozen=True, slots=True)
class DeadLetterRow:
    """A dead letter with its execution."""

    letter: DeadLetter
    execution: Execution


def dead_letters(
    principal: Principal,
    *,
    wanted: DeadLetterFilter = DeadLetterFilter(),  # noqa: B008 - immutable
    below: UUID | None = None,
    limit: int,
) -> list[DeadLetterRow]:
    """Up to `limit` dead letters, latest scheduled first, with execution ids below `below`."""
    letters = wanted.narrowed(scoped(DeadLetter.objects.all(), principal))
    if below is not None:
        letters = letters.filter(execution_id__lt=below)
    page = list(letters.order_by("-execution_id")[:limit])
    rows = scoped(Execution.objects.all(), principal).filter(
        id__in=[letter.execution_id for letter in page], scheduled_at__in=[letter.scheduled_at for letter in page]
    )
    by_id = {row.id: row for row in rows.select_related("task_version")}
    # A letter that is being replayed right now may be gone from the other table already.
    return [DeadLetterRow(letter, by_id[letter.execution_id]) for letter in page if letter.execution_id in by_id]
