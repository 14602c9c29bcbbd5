"""Moves replays of dead letters on: a second's worth at each pass, of nodes of runs as many as there is time for."""

import logging
from dataclasses import dataclass
from functools import partial
from itertools import islice
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions import renewing
from apps.executions import dead_letters, feed, ids, services
from apps.executions.models import DeadLetter, Execution, Replay, ReplayState
from apps.executions.states import Status
from apps.executions.store import named_sql
from apps.preloader.epoch import database_now
from apps.preloader.set_aside import SetAside
from apps.tenants.models import Role, Tenant
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import Conflict, NotFound
from chronoweb.runtime.postgres import instants, uuids

logger = logging.getLogger(__name__)

_SECONDS_A_PASS = 0.25
"""For the nodes of runs of one replay: the hot tier shall not wait; the next pass goes on."""


@dataclass
class Replays:
    """Works under one role. A replay that cannot go on is set aside for a minute and stops nothing else."""

    role: str
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        self._aside = SetAside("replay", self.clock)

    def move_on(self, epoch: int) -> int:
        """One pass over the replays that run, of which each second brings one; how many dead letters went round.

        Raises LeadershipLost when the epoch is stale.
        """
        running = Replay.objects.filter(state=ReplayState.RUNNING).exclude(id__in=self._aside.now())
        identities = list(running.order_by("id").values_list("id", flat=True))
        return sum(self._aside.guarded(identity, partial(self._move, identity, epoch)) for identity in identities)

    @transaction.atomic
    def _move(self, identity: UUID, epoch: int) -> int:
        now = database_now(self.role, epoch, hold=False)
        rows = Replay.objects.filter(id=identity, state=ReplayState.RUNNING)
        found = rows.select_for_update(skip_locked=True).first()
        if found is None:
            return 0
        batch = dead_letters.next_batch(found)
        replayed, refused, count = self._clear_nodes(found, batch.letters)
        batch = batch.first(count)
        rest = [one.execution_id for one in batch.letters if one.execution_id not in {*replayed, *refused}]
        if rest:
            others, left = self._replay(found, rest)
            replayed, refused = replayed + others, refused | left
        refused |= dict.fromkeys(batch.gone, dead_letters.MISSING)
        found.replayed += len(replayed)
        found.left_out += len(refused)
        told = {**found.refused, **{str(identity): why for identity, why in refused.items()}}
        found.refused = dict(islice(told.items(), dead_letters.MOST_TOLD))
        found.cursor = batch.cursor
        if batch.is_last:
            found.state, found.ended_at = ReplayState.FINISHED, now
            extra = {"replay": str(found.id), "replayed": found.replayed, "left_out": found.left_out}
            logger.info("a replay has ended", extra={"action": "preloader.replay_ended", **extra})
        found.save(update_fields=["replayed", "left_out", "refused", "cursor", "state", "ended_at"])
        database_now(self.role, epoch)  # nodes may take long to clear; the lease is held from here on
        transaction.on_commit(lambda: feed.changed(found.tenant_id, [one.bytes for one in replayed]))
        return len(replayed)

    def _replay(self, found: Replay, letters: list[UUID]) -> tuple[list[UUID], dict[UUID, str]]:
        """Those that went round of what is no node of a run, in one statement a day; and who did not, and why."""
        connection = postgres.raw(django_connection)
        renewal = renewing.read(found.tenant_id, letters) if found.current_version else renewing.NONE
        identities = sorted(one.bytes for one in letters if one not in renewal.refused)
        done: list[bytes] = []
        for day, positions in ids.by_day(identities):
            group = [identities[p] for p in positions]
            parameters = {
                "ids": uuids(group),
                "scheduled": instants([ids.milliseconds(i) * 1000 for i in group]),
                "from_start": found.from_start,
                "actor": found.created_by,
                "reason": f"replayed from the dead letters by {found.id}",
            }
            cursor = connection.cursor(binary=True)
            done += [row[0] for row in cursor.execute(named_sql("replay_many", day), parameters)]
        renewing.write(connection, renewal, done, tenant_id=found.tenant_id, actor=found.created_by)
        replayed = [UUID(bytes=one) for one in done]
        return replayed, renewal.refused | _why_not(set(letters) - {*replayed, *renewal.refused})

    def _clear_nodes(self, found: Replay, letters: list[DeadLetter]) -> tuple[list[UUID], dict[UUID, str], int]:
        """Dead letters of runs of DAGs: each clears its node. What went round; who did not, and why; how many letters
        there was time for.
        """
        of_runs = set(
            Execution.objects.with_ids(letter.execution_id for letter in letters)
            .filter(dag_run_id__isnull=False)
            .values_list("id", flat=True)
        )
        if not of_runs:
            return [], {}, len(letters)
        tenant = Tenant.objects.get(id=found.tenant_id)
        who = Principal.in_tenant(tenant, role=Role.OPERATOR, actor=found.created_by)
        until = self.clock.monotonic() + _SECONDS_A_PASS
        done: list[UUID] = []
        refused: dict[UUID, str] = {}
        for position, letter in enumerate(letters):
            identity = letter.execution_id
            if identity not in of_runs:
                continue
            if done and self.clock.monotonic() > until:
                return done, refused, position
            try:
                services.replay(principal=who, execution_id=identity, from_start=found.from_start)
            except (Conflict, NotFound) as error:
                refused[identity] = str(error)  # somebody else has seen to it
            else:
                done.append(identity)
        return done, refused, len(letters)


def _why_not(missing: set[UUID]) -> dict[UUID, str]:
    """Of what is no node of a run and did not go round. One query, and none where nothing is missing."""
    found = dict(Execution.objects.with_ids(missing).values_list("id", "status")) if missing else {}
    dead, gone = "its task is deleted: nothing of it runs again", dead_letters.MISSING
    return {one: dead if found.get(one) == Status.DEAD_LETTER else gone for one in sorted(missing)}
