"""Dead letters by filter or id: counting them, and sending them round again, so many a second, with progress and stop.

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
from chronoweb.runtime.errors import Conflict

DEFAULT_PER_SECOND = 50
MOST_PER_SECOND = 1000
MOST_IDS = 500
"""Chosen one by one, in one act."""
MOST_TOLD = MOST_IDS
"""Of those that are left out: who and why. Of chosen ones that is all."""
MISSING = "there is no dead letter with this id (any more)"
"""Also told of another tenant's, and of one that has died again since it was counted."""


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters. since (inclusive) and until (exclusive) are about when they died, aware. ids: those that were
    chosen one by one; None for all.
    """

    task_id: UUID | None = None
    fingerprint: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[UUID, ...] | None = None

    def narrowed(self, rows: QuerySet[DeadLetter]) -> QuerySet[DeadLetter]:
        """Those of `rows` that it means."""
        wanted = {
            "task_id": self.task_id,
            "fingerprint": self.fingerprint,
            "since__gte": self.since,
            "since__lt": self.until,
            "execution_id__in": self.ids,
        }
        return rows.filter(**{name: value for name, value in wanted.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        ids = {} if self.ids is None else {"ids": sorted(str(one) for one in self.ids)}
        return ids | {
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
        ids = None if kept.get("ids") is None else tuple(UUID(one) for one in kept["ids"])
        return cls(task_id, kept["fingerprint"], moment("since"), moment("until"), ids)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a replay is for next. gone: ids that it was to send round, and that are no dead letters any more."""

    letters: list[DeadLetter]
    gone: list[UUID]
    cursor: UUID | None
    is_last: bool

    def first(self, count: int) -> "Batch":
        """Its first `count` letters, where there was no time for more."""
        if count >= len(self.letters):
            return self
        cursor = self.letters[count - 1].execution_id
        return Batch(self.letters[:count], [one for one in self.gone if one <= cursor], cursor, is_last=False)


def count(principal: Principal, wanted: DeadLetterFilter) -> int:
    """How many there are now."""
    return wanted.narrowed(scoped(DeadLetter.objects.all(), principal)).count()


@transaction.atomic
def start_replay(
    *,
    principal: Principal,
    wanted: DeadLetterFilter,
    per_second: int = DEFAULT_PER_SECOND,
    from_start: bool = False,
    current_version: bool = False,
    dead_by: datetime | None = None,
) -> Replay:
    """Send them round again. While one of the same filter and terms goes on, that one is the answer.

    current_version: under the versions of their tasks that are in force when they go round; of runs of DAGs never.
    dead_by: when they were counted; what died later is not meant. Raises Conflict while one of other terms goes on.
    """
    kept, terms = wanted.to_json(), {"from_start": from_start, "current_version": current_version}
    # Two clicks at once: the second waits here, and finds the first.
    postgres.raw(django_connection).execute(
        "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"replay {principal.tenant_id}",)
    )
    running = replays(principal).filter(state=ReplayState.RUNNING, filter=kept).first()
    if running is not None:
        return _of_these_terms(running, terms)
    now = person_store.database_now(postgres.raw(django_connection))
    counted = min(now, dead_by or now)
    total, refused = _meant(principal, wanted, counted)
    made = Replay.objects.create(
        id=new_uuid(),
        tenant_id=principal.tenant_id,
        filter=kept,
        per_second=per_second,
        **terms,
        total=total,
        left_out=len(refused),
        refused=refused,
        dead_by=counted,
        created_at=now,
        created_by=principal.actor,
    )
    _record(principal, made, "start", filter=kept, total=made.total, per_second=per_second, **terms)
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


def next_batch(found: Replay) -> Batch:
    """The next that a replay is for, by id: dead when they were counted, and behind its cursor."""
    wanted, most = DeadLetterFilter.of_json(found.filter), found.per_second
    rows = wanted.narrowed(DeadLetter.objects.filter(tenant_id=found.tenant_id))
    rows = rows.filter(since__lte=found.dead_by or found.created_at)
    if wanted.ids is not None:
        refused = {UUID(one) for one in found.refused}
        return _chosen_batch(rows, [one for one in wanted.ids if _is_behind(one, found.cursor)], most, refused)
    if found.cursor is not None:
        rows = rows.filter(execution_id__gt=found.cursor)
    letters = list(rows.order_by("execution_id")[:most])
    return Batch(letters, [], letters[-1].execution_id if letters else found.cursor, len(letters) < most)


def _chosen_batch(rows: QuerySet[DeadLetter], left: list[UUID], most: int, refused: set[UUID]) -> Batch:
    batch = sorted(left)[:most]
    letters = list(rows.filter(execution_id__in=batch).order_by("execution_id"))
    there = {letter.execution_id for letter in letters}
    gone = [one for one in batch if one not in there and one not in refused]
    return Batch(letters, gone, batch[-1] if batch else None, len(left) <= most)


def _is_behind(identity: UUID, cursor: UUID | None) -> bool:
    return cursor is None or identity > cursor


def _meant(principal: Principal, wanted: DeadLetterFilter, counted: datetime) -> tuple[int, dict[str, str]]:
    """How many it is for; of chosen ones those that are no dead letters, which it leaves out, with why."""
    there = wanted.narrowed(scoped(DeadLetter.objects.all(), principal)).filter(since__lte=counted)
    if wanted.ids is None:
        return there.count(), {}
    known = set(there.values_list("execution_id", flat=True))
    return len(wanted.ids), {str(one): MISSING for one in wanted.ids if one not in known}


def _of_these_terms(running: Replay, terms: Mapping[str, bool]) -> Replay:
    differing = [name for name, value in terms.items() if getattr(running, name) is not value]
    if differing:
        words = {"from_start": "the start", "current_version": "the version"}
        what = " and ".join(words[name] for name in differing)
        raise Conflict(f"the replay {running.id} of the same goes on, which differs in {what}: stop it first, or wait")
    return running


def _record(principal: Principal, found: Replay, act: str, **detail: object) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=f"replay.{act}",
        target_type="replay",
        target_id=found.id,
        detail=detail,
    )
