"""Moves replays of dead letters on: a second's worth at each pass, of nodes of runs as many as there is time for."""

import logging
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.executions import dead_letters, feed, ids, services
from apps.executions.models import DeadLetter, Execution, Replay, ReplayState
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
        letters = dead_letters.next_letters(found, found.per_second)
        is_last = len(letters) < found.per_second
        cleared, count = self._clear_nodes(found, letters)
        is_last, letters = is_last and count == len(letters), letters[:count]
        replayed = cleared + (self._replay(found, letters) if letters else [])
        found.replayed += len(replayed)
        found.left_out += len(letters) - len(replayed)
        found.cursor = letters[-1].execution_id if letters else found.cursor
        if is_last:
            found.state, found.ended_at = ReplayState.FINISHED, now
            extra = {"replay": str(found.id), "replayed": found.replayed, "left_out": found.left_out}
            logger.info("a replay has ended", extra={"action": "preloader.replay_ended", **extra})
        found.save(update_fields=["replayed", "left_out", "cursor", "state", "ended_at"])
        database_now(self.role, epoch)  # nodes may take long to clear; the lease is held from here on
        transaction.on_commit(lambda: feed.changed(found.tenant_id, replayed))
        return len(replayed)

    def _replay(self, found: Replay, letters: list[DeadLetter]) -> list[bytes]:
        """Those that went round of what is no node of a run: in one statement a day."""
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
        return done

    def _clear_nodes(self, found: Replay, letters: list[DeadLetter]) -> tuple[list[bytes], int]:
        """Dead letters of runs of DAGs: each clears its node. (what went round, how many letters there was time for)"""
        of_runs = set(
            Execution.objects.with_ids(letter.execution_id for letter in letters)
            .filter(dag_run_id__isnull=False)
            .values_list("id", flat=True)
        )
        if not of_runs:
            return [], len(letters)
        tenant = Tenant.objects.get(id=found.tenant_id)
        who = Principal.in_tenant(tenant, role=Role.OPERATOR, actor=found.created_by)
        until = self.clock.monotonic() + _SECONDS_A_PASS
        done: list[bytes] = []
        for position, letter in enumerate(letters):
            if letter.execution_id not in of_runs:
                continue
            if done and self.clock.monotonic() > until:
                return done, position
            try:
                services.replay(principal=who, execution_id=letter.execution_id, from_start=found.from_start)
            except (Conflict, NotFound):
                continue  # somebody else has seen to it
            done.append(letter.execution_id.bytes)
        return done, len(letters)
