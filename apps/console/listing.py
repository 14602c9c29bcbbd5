"""Which executions the live page shows: what is due next, above the newest ones that are or were due.

Every read is bounded and goes along an index: executions by (tenant, id), where an id sorts by its scheduled_at.
Nothing counts the ledger: counts are of the newest 1,000.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet, prefetch_related_objects

from apps.executions import ids
from apps.executions.models import DeadLetter, Execution
from apps.executions.states import Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

SHOWN = 100
NEWEST = 1000
UPCOMING = 8
MOST_COUNTED = 99
BACK = timedelta(days=7)
AHEAD = timedelta(days=1)


@dataclass(frozen=True)
class Entry:
    """One line of the index that a page is chosen from."""

    id: UUID
    status: int
    version: int


@dataclass(frozen=True)
class Index:
    """upcoming: due next first. newest: due last first, at most NEWEST of the last BACK days."""

    upcoming: list[Entry]
    newest: list[Entry]

    @property
    def counts(self) -> dict[Status, int]:
        found = Counter(entry.status for entry in self.newest)
        return {status: found[status] for status in Status if found[status]}

    @property
    def latest_first(self) -> list[UUID]:
        return [entry.id for entry in (*reversed(self.upcoming), *self.newest)]

    @property
    def horizon(self) -> bytes | None:
        """The latest id that a page of all states shows."""
        shown = self.upcoming or self.newest[:1]
        return shown[-1].id.bytes if shown else None


def read_index(principal: Principal, *, now: datetime, upcoming: int = UPCOMING, before: UUID | None = None) -> Index:
    """Two queries. before: only what is older than this id, and nothing upcoming."""
    end = now if before is None else (ids.scheduled_at(before) or now)
    past = _past(principal, end, before=before)
    ahead = _entries(_ahead(principal, now), upcoming) if before is None and upcoming else []
    return Index(upcoming=ahead, newest=_entries(past, NEWEST))


def nearest(principal: Principal, *, now: datetime, upcoming: int, newest: int) -> list[Execution]:
    """What is due next, above the newest of what is or was due: latest first, three queries.

    Versions of tasks are not joined: with them PostgreSQL may sort all that is due rather than follow the index.
    """
    ahead, past = _shown(_ahead(principal, now))[:upcoming], _shown(_past(principal, now))[:newest]
    found = [*reversed(ahead), *past]
    prefetch_related_objects(found, "task_version")
    return found


def _past(principal: Principal, end: datetime, *, before: UUID | None = None) -> QuerySet[Execution]:
    edge = before or _edge(end)
    rows = scoped(Execution.objects.all(), principal)
    return rows.filter(id__lt=edge, scheduled_at__gte=end - BACK, scheduled_at__lte=end).order_by("-id")


def _ahead(principal: Principal, now: datetime) -> QuerySet[Execution]:
    rows = scoped(Execution.objects.all(), principal)
    return rows.filter(id__gte=_edge(now), scheduled_at__gt=now, scheduled_at__lte=now + AHEAD).order_by("id")


def _edge(now: datetime) -> UUID:
    """Below it is what was due by `now`."""
    return first_id(now + timedelta(milliseconds=1))


def _shown(rows: QuerySet[Execution]) -> QuerySet[Execution]:
    """Without what no row of a table shows."""
    return rows.defer("payload", "result")


def count_dead_letters(principal: Principal) -> int:
    """How many wait for a person, at most MOST_COUNTED + 1."""
    letters = scoped(DeadLetter.objects.all(), principal).values("execution_id")[: MOST_COUNTED + 1]
    return letters.count()


def read(principal: Principal, identities: list[UUID]) -> list[Execution]:
    """The executions of these ids that are the principal's, latest first, in two queries: hundreds of them have few
    task versions, with long definitions.
    """
    instants = [at for identity in identities if (at := ids.scheduled_at(identity))]
    if not instants:
        return []
    rows = scoped(Execution.objects.all(), principal).filter(
        id__in=identities, scheduled_at__gte=min(instants), scheduled_at__lte=max(instants)
    )
    return list(_shown(rows).prefetch_related("task_version").order_by("-id"))


def _entries(rows: QuerySet[Execution], most: int) -> list[Entry]:
    return [Entry(*values) for values in rows.values_list("id", "status", "version")[:most]]


def first_id(instant: datetime) -> UUID:
    """Not above any id scheduled at `instant` or later, and above all earlier ones."""
    return UUID(bytes=ids.to_ms(instant).to_bytes(6, "big") + bytes(10))
