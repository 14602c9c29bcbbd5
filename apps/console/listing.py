"""Which executions the live page shows: what is due next, above the newest ones that are or were due.

Every read is bounded and goes along an index: executions by (tenant, id), where an id sorts by its scheduled_at.
Nothing counts the ledger: counts are of the newest 1,000.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

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


def read_index(
    principal: Principal, *, now: datetime, upcoming: int = UPCOMING, newest: int = NEWEST, before: UUID | None = None
) -> Index:
    """Two queries. before: only what is older than this id, and nothing upcoming."""
    rows = scoped(Execution.objects.all(), principal)
    end = now if before is None else (ids.scheduled_at(before) or now)
    edge = before or first_id(end + timedelta(milliseconds=1))
    past = rows.filter(id__lt=edge, scheduled_at__gte=end - BACK, scheduled_at__lte=end).order_by("-id")
    ahead: list[Entry] = []
    if before is None and upcoming:
        coming = rows.filter(id__gte=edge, scheduled_at__gt=now, scheduled_at__lte=now + AHEAD)
        ahead = _entries(coming.order_by("id"), upcoming)
    return Index(upcoming=ahead, newest=_entries(past, newest))


def count_dead_letters(principal: Principal) -> int:
    """How many wait for a person, at most MOST_COUNTED + 1."""
    letters = scoped(DeadLetter.objects.all(), principal).values("execution_id")[: MOST_COUNTED + 1]
    return letters.count()


def read(principal: Principal, identities: list[UUID]) -> list[Execution]:
    """The executions of these ids that are the principal's, latest first, in one query."""
    instants = [at for identity in identities if (at := ids.scheduled_at(identity))]
    if not instants:
        return []
    rows = scoped(Execution.objects.all(), principal).filter(
        id__in=identities, scheduled_at__gte=min(instants), scheduled_at__lte=max(instants)
    )
    return list(rows.select_related("task_version").defer("payload", "result").order_by("-id"))


def _entries(rows: QuerySet[Execution], most: int) -> list[Entry]:
    return [Entry(*values) for values in rows.values_list("id", "status", "version")[:most]]


def first_id(instant: datetime) -> UUID:
    """Not above any id scheduled at `instant` or later, and above all earlier ones."""
    return UUID(bytes=ids.to_ms(instant).to_bytes(6, "big") + bytes(10))
