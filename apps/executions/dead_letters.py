"""Dead letters by filter: counting them, and sending them round again, so many a second, with progress and a stop.

A replay is a row with a cursor. The preloader moves it on: what is replayed, and that it was, is one transaction, so
whatever dies on the way, and however often it is asked for, each dead letter goes round once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction
from django.db.models import QuerySet

from apps.executions import person_store
from apps.executions.models import DeadLetter, Replay, ReplayState
from apps.tenants import audit
from apps.tenants.identity import new_uuid
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime import postgres, wakeup

DEFAULT_PER_SECOND = 50
MOST_PER_SECOND = 1000


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters. since (inclusive) and until (exclusive) are about when they died, aware."""

    task_id: UUID | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def narrowed(self, rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        """Those of `rows` that it means."""
        wanted = {
            "task_id": self.task_id,
            "fingerprint": self.fingerprint,
            "since__gte": self.since,
            "since__lt": self.until,
        }
        return rows.filter(**{name: value for name, value in wanted.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        return {
            "task_id": None if self.task_id is None else str(self.task_id),
            "fingerprint": self.fingerprint,
            "since": None if self.since is None else self.since.isoformat(),
            "until": None if self.until is None else self.until.isoformat(),
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any]) -> "DeadLetterFilter":
        def moment(name: str) -> datetime | None:
            return None if kept[name] is None else datetime.fromisoformat(kept[name])

        task_id = None if kept["task_id"] is None else UUID(kept["task_id"])
        return cls(task_id, kept["fingerprint"], moment("since"), moment("until"))


def count(principal: Principal, wanted: DeadLetterFilter) -> int:
    """How many there are now."""
    return wanted.narrowed(scoped(DeadLetter.objects.all(), principal)).count()


@transaction.atomic
def start_replay(
    *, principal: Principal, wanted: DeadLetterFilter, per_second: int = DEFAULT_PER_SECOND, from_start: bool = False
) -> Replay:
    """Send them round again. While one of the same filter goes on, that one is the answer."""
    kept = wanted.to_json()
    # Two clicks at once: the second waits here, and finds the first.
    postgres.raw(django_connection).execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"replay {principal.tenant_id}",)
    )
    running = replays(principal).filter(state=ReplayState.RUNNING, filter=kept).first()
    if running is not None:
        return running
    made = Replay.objects.create(
        id=new_uuid(),
        tenant_id=principal.tenant_id,
        filter=kept,
        per_second=per_second,
        from_start=from_start,
        total=count(principal, wanted),
        created_at=person_store.database_now(postgres.raw(django_connection)),
        created_by=principal.actor,
    )
    _record(principal, made, "start", filter=kept, total=made.total, per_second=per_second)
    transaction.on_commit(wakeup.preloader.wake)
    return made


@transaction.atomic
def stop_replay(*, principal: Principal, replay_id: UUID) -> Replay:
    """Replay nothing more; what was replayed goes on. Repeating it changes nothing. Raises NotFound."""
    found = scoped_get(Replay.objects.select_for_update(), principal, what="replay", id=replay_id)
    if found.state == ReplayState.RUNNING:
        found.state = ReplayState.STOPPED
        found.ended_at = person_store.database_now(postgres.raw(django_connection))
        found.save(update_fields=["state", "ended_at"])
        _record(principal, found, "stop", replayed=found.replayed)
    return found


def replays(principal: Principal) -> QuerySet[Replay]:
    """The tenant's, the latest first."""
    return scoped(Replay.objects.all(), principal).order_by("-id")


def replay(principal: Principal, replay_id: UUID) -> Replay:
    """Raises NotFound."""
    return scoped_get(Replay.objects.all(), principal, what="replay", id=replay_id)


def next_letters(found: Replay, limit: int) -> list[DeadLetter]:
    """The next that a replay is for, by id: dead when it was asked for, and behind its cursor."""
    rows = DeadLetterFilter.of_json(found.filter).narrowed(DeadLetter.objects.filter(tenant_id=found.tenant_id))
    rows = rows.filter(since__lte=found.created_at)
    if found.cursor is not None:
        rows = rows.filter(execution_id__gt=found.cursor)
    return list(rows.order_by("execution_id")[:limit])


def _record(principal: Principal, found: Replay, act: str, **detail: object) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"replay.{act}",
        target_type="replay",
        target_id=found.id,
        detail=detail,
    )
