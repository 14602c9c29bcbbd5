"""Moves replays of dead letters on: a second's worth at each pass."""

import logging
from dataclasses import dataclass
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import dead_letters, feed, ids, services
from apps.executions.models import DeadLetter, Execution, Replay, ReplayState
from apps.executions.store import named_sql
from apps.preloader.epoch import database_now
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.errors import Conflict, NotFound
from chronoweb.runtime.postgres import instants, uuids

logger = logging.getLogger(__name__)


@dataclass
class Replays:
    """Works under one role."""

    role: str

    def move_on(self, epoch: int) -> int:
        """One pass over the replays that run, of which each second brings one; how many dead letters went round.

        Raises LeadershipLost when the epoch is stale.
        """
        running = Replay.objects.filter(state=ReplayState.RUNNING).order_by("id").values_list("id", flat=True)
        return sum(self._move(identity, epoch) for identity in list(running))

    @transaction.atomic
    def _move(self, identity: UUID, epoch: int) -> int:
        now = database_now(self.role, epoch)
        rows = Replay.objects.filter(id=identity, state=ReplayState.RUNNING)
        found = rows.select_for_update(skip_locked=True).first()
        if found is None:
            return 0
        letters = dead_letters.next_letters(found, found.per_second)
        replayed = self._replay(found, letters) if letters else []
        found.replayed += len(replayed)
        found.left_out += len(letters) - len(replayed)
        found.cursor = letters[-1].execution_id if letters else found.cursor
        if len(letters) < found.per_second:
            found.state, found.ended_at = ReplayState.FINISHED, now
            extra = {"replay": str(found.id), "replayed": found.replayed, "left_out": found.left_out}
            logger.info("a replay has ended", extra={"action": "preloader.replay_ended", **extra})
        found.save(update_fields=["replayed", "left_out", "cursor", "state", "ended_at"])
        transaction.on_commit(lambda: feed.changed(found.tenant_id, replayed))
        return len(replayed)

    def _replay(self, found: Replay, letters: list[DeadLetter]) -> list[bytes]:
        """Those that went round: in one statement a day; nodes of runs by way of their runs."""
        reason = f"replayed from the dead letters by {found.id}"
        connection = postgres.raw(django_connection)
        identities = sorted(letter.execution_id.bytes for letter in letters)
        done: list[bytes] = []
        for day, positions in ids.by_day(identities):
            group = [identities[p] for p in positions]
            parameters = {
                "ids": uuids(group),
                "scheduled": instants([ids.milliseconds(i) * 1000 for i in group]),
                "from_start": found.from_start,
                "actor": found.created_by,
                "reason": reason,
            }
            cursor = connection.cursor(binary=True)
            done += [row[0] for row in cursor.execute(named_sql("replay_many", day), parameters)]
        missing = [UUID(bytes=identity) for identity in identities if identity not in set(done)]
        return done + (self._clear_nodes(found, missing) if missing else [])

    def _clear_nodes(self, found: Replay, missing: list[UUID]) -> list[bytes]:
        """Dead letters of runs of DAGs: each clears its node."""
        tenant = Tenant.objects.get(id=found.tenant_id)
        who = Principal.in_tenant(tenant, role=Role.OPERATOR, actor=found.created_by)
        done = []
        for identity in missing:
            row = Execution.objects.with_id(identity).values_list("dag_run_id", flat=True).first()
            if row is None:
                continue
            try:
                services.replay(principal=who, execution_id=identity, from_start=found.from_start)
            except (Conflict, NotFound):
                continue  # somebody else has seen to it
            done.append(identity.bytes)
        return done
