"""Reading the ledger for people and programs: always a tenant's, always a page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from apps.executions import ids, pages, searching
from apps.executions.models import (
    Attempt,
    DeadLetter,
    Execution,
    ExecutionEvent,
    Progress,
    Slot,
)
from apps.executions.searching import Found
from apps.executions.states import ACTIVE, RESTING, ExecutionClass, Hold, Origin, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import NotFound, TooSlow

DEFAULT_DAYS_BACK = 35
"""A list that names no `since` looks back this far; without a bound a rare state would be sought in all history."""

_AHEAD = timedelta(days=401)  # nothing is scheduled farther ahead


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
) -> Found[Execution]:
    """Up to `limit` executions, latest scheduled first (descending) or last, that come behind the id `behind`; fewer
    where the time is spent before.
    """
    search = _search(principal, wanted, now=now, behind=behind, descending=descending)
    found = search.run(pages.page, limit=limit, seconds=searching.PAGE_SECONDS)
    return Found(pages.with_versions(found.rows), found.stopped)


def some_ids(
    principal: Principal,
    wanted: Filter,
    *,
    now: datetime,
    behind: UUID | None = None,
    descending: bool = True,
    limit: int,
    seconds: float | None = None,
) -> Found[UUID]:
    """The ids of what `executions` would find. seconds: None: those of a page."""
    search = _search(principal, wanted, now=now, behind=behind, descending=descending)
    return search.run(pages.page_of_ids, limit=limit, seconds=searching.PAGE_SECONDS if seconds is None else seconds)


def execution_ids(
    principal: Principal, wanted: Filter, *, now: datetime, behind: UUID | None = None, limit: int | None = None
) -> list[UUID]:
    """The ids of all (up to `limit`) that the filter finds, the latest first: what an act by filter is for.

    Raises TooSlow where finding them takes longer than a request may.
    """
    seconds = config().web_statement_seconds
    search = _search(principal, wanted, now=now, behind=behind, descending=True)
    found = search.run(pages.page_of_ids, limit=limit, seconds=seconds or None)
    if found.stopped is not None:
        raise TooSlow(f"finding them takes longer than {seconds:g} s: name a shorter time or a task; nothing was done")
    return found.rows


def _search(
    principal: Principal, wanted: Filter, *, now: datetime, behind: UUID | None, descending: bool
) -> searching.Search:
    return searching.Search(
        tenant_id=principal.tenant_id,
        given=_terms(wanted),
        since=max(wanted.since or now - timedelta(days=DEFAULT_DAYS_BACK), ids.EARLIEST),
        until=min(wanted.until or ids.LATEST, now + _AHEAD),
        now=now,
        behind=behind,
        descending=descending,
    )


def _terms(wanted: Filter) -> dict[str, Any]:
    """The values of a search's filters, by their names."""
    given: dict[str, Any] = {
        "task": wanted.task_id,
        "run": wanted.dag_run_id,
        "origins": [int(origin) for origin in wanted.origins],
        "statuses": [int(status) for status in wanted.statuses],
        "classes": [int(which) for which in wanted.classes],
        "error_type": wanted.error_type,
        "worker": wanted.worker_id,
        "made_by": wanted.made_by,
        "named": wanted.name and pages.containing(wanted.name),
        "active": (bool(wanted.statuses) and wanted.statuses <= ACTIVE) or None,
        "retrying": wanted.statuses == {Status.RETRYING} or None,
        "dead": wanted.statuses == {Status.DEAD_LETTER} or None,
    }
    holds = sorted(int(hold) for hold in wanted.holds)
    given |= {"hold": holds[0]} if len(holds) == 1 else {"holds": holds}
    return {name: value for name, value in given.items() if value not in (None, "", [])}


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
