"""Reading the ledger for people and programs: always a tenant's, always a page."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.executions import ids, pages
from apps.executions.models import (
    Attempt,
    DeadLetter,
    Execution,
    ExecutionEvent,
    Progress,
    Slot,
    TaskVersion,
)
from apps.executions.states import ACTIVE, RESTING, ExecutionClass, Hold, Origin, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.errors import NotFound

DEFAULT_DAYS_BACK = 35
"""A list that names no `since` looks back this far; without a bound a rare state would be sought in all history."""

_AHEAD = timedelta(days=401)  # nothing is scheduled farther ahead
_FIRST_WINDOW = timedelta(days=1)
_FEW_TASKS = 50


@dataclass(frozen=True, slots=True)
class Filter:
    """Which executions. since (inclusive) and until (exclusive) are about scheduled_at, aware.

    name: a part of its task's name as it was then, capitals or not. error_type: the class of its error, as a whole.
    worker_id: who had it last. holds: what keeps it waiting. made_by: it was in the ledger then (aware, inclusive).
    """

    task_id: UUID | None = None
    dag_run_id: UUID | None = None
    statuses: frozenset[Status] = field(default_factory=frozenset)
    origins: frozenset[Origin] = field(default_factory=frozenset)
    since: datetime | None = None
    until: datetime | None = None
    name: str = ""
    classes: frozenset[ExecutionClass] = field(default_factory=frozenset)
    error_type: str = ""
    worker_id: int | None = None
    holds: frozenset[Hold] = field(default_factory=frozenset)
    made_by: datetime | None = None


def executions(
    principal: Principal,
    wanted: Filter,
    *,
    now: datetime,
    behind: UUID | None = None,
    descending: bool = True,
    limit: int,
) -> list[Execution]:
    """Up to `limit` executions, latest scheduled first (descending) or last, that come behind the id `behind`.

    An id begins with scheduled_at, so the order of ids is the order of time and a day is a stretch of ids. The search
    goes on window by window: a full page mostly needs one, so most partitions are never opened.
    """
    filters, values = _terms(principal, wanted, behind=behind, descending=descending)
    found: list[Execution] = []
    for since, until in _windows(wanted, now=now, behind=behind, descending=descending):
        left = limit - len(found)
        found += pages.page(filters, values, since=since, until=until, descending=descending, limit=left)
        if len(found) >= limit:
            break
    return pages.with_versions(found)


def _terms(
    principal: Principal, wanted: Filter, *, behind: UUID | None, descending: bool
) -> tuple[list[str], dict[str, Any]]:
    """Names of the filters of a page (pages.FILTERS), and their values."""
    given: dict[str, Any] = {
        "task": wanted.task_id,
        "run": wanted.dag_run_id,
        "origins": [int(origin) for origin in wanted.origins],
        "statuses": [int(status) for status in wanted.statuses],
        "classes": [int(which) for which in wanted.classes],
        "error_type": wanted.error_type,
        "worker": wanted.worker_id,
        "holds": [int(hold) for hold in wanted.holds],
        "made_by": wanted.made_by,
    }
    values = {name: value for name, value in given.items() if value not in (None, "", [])}
    if wanted.name:
        values["named"] = pages.containing(wanted.name)
        few = _few_tasks(principal, wanted.name)
        if few is not None:
            values["tasks"] = few
    if behind is not None:
        values["below" if descending else "above"] = behind
    filters = list(values)
    if wanted.statuses and wanted.statuses <= ACTIVE:
        filters.append("active")
    elif wanted.statuses == {Status.DEAD_LETTER}:
        filters.append("dead")
    return filters, {**values, "tenant": principal.tenant_id}


def execution_ids(
    principal: Principal,
    wanted: Filter,
    *,
    now: datetime,
    behind: UUID | None = None,
    descending: bool = True,
    limit: int | None = None,
) -> list[UUID]:
    """The ids of what `executions` would find; of all of it where limit is None."""
    filters, values = _terms(principal, wanted, behind=behind, descending=descending)
    found: list[UUID] = []
    for since, until in _windows(wanted, now=now, behind=behind, descending=descending):
        left = None if limit is None else limit - len(found)
        found += pages.page_of_ids(filters, values, since=since, until=until, descending=descending, limit=left)
        if limit is not None and len(found) >= limit:
            break
    return found


def _few_tasks(principal: Principal, name: str) -> list[UUID] | None:
    """The tasks that ever had such a name; None for many. Few tasks have an index to be found by, each; for many, the
    tenant's own order is the shorter way.
    """
    versions = scoped(TaskVersion.objects.all(), principal).filter(name__icontains=name)
    tasks = versions.order_by().values_list("task_id", flat=True).distinct()
    found = list(tasks[: _FEW_TASKS + 1])
    return None if len(found) > _FEW_TASKS else found


def _windows(
    wanted: Filter, *, now: datetime, behind: UUID | None, descending: bool
) -> Iterator[tuple[datetime, datetime]]:
    """Stretches of scheduled_at in the order of the page, each longer than the one before."""
    until = min(wanted.until or ids.LATEST, now + _AHEAD)
    floor = max(wanted.since or now - timedelta(days=DEFAULT_DAYS_BACK), ids.EARLIEST)
    begin = None if behind is None else ids.scheduled_at(behind)
    if begin is not None and descending:
        until = min(until, begin + timedelta(milliseconds=1))
    elif begin is not None:
        floor = max(floor, begin)
    span = _FIRST_WINDOW
    if not descending:
        while floor < until:
            yield floor, min(floor + span, until)
            floor, span = floor + span, span * 3
        return
    since = min(until, now) - span
    while until > floor:
        yield max(since, floor), until
        span *= 3
        until, since = since, since - span


def execution(principal: Principal, execution_id: UUID) -> Execution:
    """One execution. Raises NotFound, for ids of other tenants too."""
    found = pages.one(execution_id, tenant_id=principal.tenant_id)
    if found is None:
        raise NotFound(f"no execution with id {execution_id} in tenant {principal.tenant_slug}")
    return found


def attempts_of(found: Execution) -> Sequence[Attempt]:
    """Every attempt, in order; releases included."""
    return pages.attempts(found)


def progress_of(found: Execution) -> Progress | None:
    """What its attempts have said so far; None for what has said nothing, or rests for good."""
    return None if found.state in RESTING - {Status.DEAD_LETTER} else pages.progress(found)


def running_under_keys(found: Iterable[Execution]) -> dict[str, int]:
    """How many run under each concurrency key that one of `found` waits for; no query when none waits."""
    keys = {row.concurrency_key for row in found if row.hold == Hold.CONCURRENCY and row.concurrency_key}
    if not keys:
        return {}
    counts = Slot.objects.filter(key__in=keys).values_list("key").annotate(running=Count("n"))
    return dict.fromkeys(keys, 0) | dict(counts)


def events_of(found: Execution) -> Sequence[ExecutionEvent]:
    """Every exceptional transition, in order."""
    return pages.events(found)


def dead_letters(principal: Principal) -> QuerySet[DeadLetter]:
    """The tenant's dead letters."""
    return scoped(DeadLetter.objects.all(), principal)


def with_executions(letters: Sequence[DeadLetter]) -> list[tuple[DeadLetter, Execution]]:
    """Each with its execution. One that is being replayed right now may be gone from the other table already."""
    rows = Execution.objects.filter(
        id__in=[letter.execution_id for letter in letters], scheduled_at__in=[letter.scheduled_at for letter in letters]
    )
    by_id = {row.id: row for row in rows.select_related("task_version")}
    return [(letter, by_id[letter.execution_id]) for letter in letters if letter.execution_id in by_id]
