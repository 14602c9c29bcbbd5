"""Moves backfills on: what has ended makes room for what comes next in the range."""

import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.backfills import PRIORITY, following
from apps.definitions.dags.planning import plan_of as dag_plan_of
from apps.definitions.dags.triggering import run_parameters
from apps.definitions.json_values import compact
from apps.definitions.models import Backfill, BackfillState, Dag, Task
from apps.definitions.occurrences import Schedule
from apps.definitions.plans import plan_of
from apps.executions import feed, ids, store
from apps.executions.concurrency import key_of
from apps.executions.dags.models import DagRun
from apps.executions.dags.runs import start_run
from apps.executions.dags.states import RunStatus
from apps.executions.models import Execution
from apps.executions.rows import NewExecution
from apps.executions.states import RESTING, ExecutionClass, Origin, Overlap
from apps.preloader.epoch import database_now
from apps.preloader.set_aside import SetAside
from chronoweb.runtime import postgres
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import InvalidInputs

logger = logging.getLogger(__name__)

ACTOR = "backfill"
_NODES_A_PASS = 2000
"""Of the runs of one backfill: the pass shall not keep the hot tier waiting."""


@dataclass
class Backfills:
    """Works under one role. A backfill that cannot go on is set aside for a minute and stops nothing else."""

    role: str
    clock: Clock = SYSTEM_CLOCK

    def __post_init__(self) -> None:
        self._aside = SetAside("backfill", self.clock)

    def move_on(self, epoch: int) -> int:
        """One pass over the backfills that run; returns how many executions and runs were made.

        Raises LeadershipLost when the epoch is stale.
        """
        running = Backfill.objects.filter(state=BackfillState.RUNNING).exclude(id__in=self._aside.now())
        identities = list(running.order_by("id").values_list("id", flat=True))
        return sum(
            self._aside.guarded(identity, partial(self._move_or_stop, identity, epoch)) for identity in identities
        )

    def _move_or_stop(self, identity: UUID, epoch: int) -> int:
        """One whose parameters the DAG no longer takes is stopped: it would fail at each pass."""
        try:
            return self._move(identity, epoch)
        except InvalidInputs as error:
            logger.warning(
                "a backfill was stopped",
                extra={"action": "preloader.backfill_stopped", "backfill": str(identity), "error": str(error)},
            )
            with transaction.atomic():
                now = database_now(self.role, epoch)
                return self._end(
                    Backfill.objects.select_for_update().get(id=identity), BackfillState.STOPPED, now, epoch
                )

    @transaction.atomic
    def _move(self, identity: UUID, epoch: int) -> int:
        now = database_now(self.role, epoch, hold=False)
        rows = Backfill.objects.filter(id=identity, state=BackfillState.RUNNING).select_related("task", "dag")
        backfill = rows.select_for_update(skip_locked=True, of=("self",)).first()
        if backfill is None:
            return 0
        if (backfill.task or backfill.dag).deleted_at is not None:  # type: ignore[union-attr]
            return self._end(backfill, BackfillState.STOPPED, now, epoch)
        before = backfill.under_way
        backfill.under_way = _not_ended(before, of_dag=backfill.dag is not None)
        nominals = _next(backfill)
        if not nominals and not backfill.under_way and backfill.made >= backfill.total:
            return self._end(backfill, BackfillState.FINISHED, now, epoch)
        made = _make(backfill, nominals, now)
        if made or backfill.under_way != before:
            backfill.under_way = [*backfill.under_way, *made]
            backfill.made += len(made)
            backfill.cursor = nominals[-1] if nominals else backfill.cursor
            backfill.save(update_fields=["under_way", "made", "cursor"])
            database_now(self.role, epoch)  # runs may take long to write; the lease is held from here on
        return len(made)

    def _end(self, backfill: Backfill, state: BackfillState, now: datetime, epoch: int) -> int:
        database_now(self.role, epoch)
        backfill.state, backfill.ended_at, backfill.under_way = state, now, []
        backfill.save(update_fields=["state", "ended_at", "under_way"])
        extra = {"backfill": str(backfill.id), "state": state.value, "made": backfill.made}
        logger.info("a backfill has ended", extra={"action": "preloader.backfill_ended", **extra})
        return 0


def _next(backfill: Backfill) -> list[datetime]:
    room = min(backfill.at_once - len(backfill.under_way), backfill.total - backfill.made)
    if backfill.dag is not None:
        room = min(room, max(1, _NODES_A_PASS // max(1, backfill.dag.node_count)))
    return following(
        Schedule.parse(backfill.schedule),
        start=backfill.start_at,
        end=backfill.end_at,
        newest_first=backfill.newest_first,
        cursor=backfill.cursor,
        count=room,
    )


def _not_ended(identities: list[UUID], *, of_dag: bool) -> list[UUID]:
    if not identities:
        return []
    times = [moment for identity in identities if (moment := ids.scheduled_at(identity)) is not None]
    where: dict[str, Any] = {"id__in": identities, "scheduled_at__range": (min(times), max(times))}
    if of_dag:
        open_runs = DagRun.objects.filter(**where, status=RunStatus.RUNNING)
        found = set(open_runs.values_list("id", flat=True))
    else:
        ended = [int(status) for status in RESTING]
        found = set(Execution.objects.filter(**where).exclude(status__in=ended).values_list("id", flat=True))
    return [identity for identity in identities if identity in found]


def _make(backfill: Backfill, nominals: list[datetime], now: datetime) -> list[UUID]:
    if not nominals:
        return []
    if backfill.task is not None:
        return _executions(backfill, backfill.task, nominals, now)
    assert backfill.dag is not None  # a constraint of the table
    return _runs(backfill, backfill.dag, nominals)


def _executions(backfill: Backfill, task: Task, nominals: list[datetime], now: datetime) -> list[UUID]:
    """Scheduled now, since the days of the past may have no partition any more; nominal_at says what they stand for."""
    # A millisecond apart, so that they begin in the order of the backfill.
    first_ms = ids.to_ms(now) - len(nominals)
    moments = [ids.from_ms(first_ms + position) for position in range(len(nominals))]
    terms = {
        **plan_of(task),
        "class_index": int(ExecutionClass.of_priority(PRIORITY)),
        "priority": PRIORITY,
        "overlap": Overlap.ALLOW_ALL,
        "slot_key": None,
        "concurrency_key": key_of(task.concurrency, _given(backfill, task), tenant_id=task.tenant_id.bytes),
    }
    identities = ids.new_ids(map(ids.to_ms, moments), of=task.id.bytes)
    payload = None if backfill.parameters is None else compact(backfill.parameters)
    rows = [
        NewExecution(
            id=identity,
            scheduled_us=ids.to_us(moment),
            run_us=ids.to_us(moment),
            nominal_us=ids.to_us(nominal),
            origin=Origin.BACKFILL,
            idempotency_key=f"{task.id}%{backfill.id}@{nominal.isoformat()}",
            payload=payload,
            **terms,
        )
        for identity, moment, nominal in zip(identities, moments, nominals, strict=True)
    ]
    store.insert(postgres.raw(django_connection), rows)
    transaction.on_commit(lambda: feed.changed(task.tenant_id, identities))
    return [UUID(bytes=identity) for identity in identities]


def _given(backfill: Backfill, task: Task) -> dict[str, Any]:
    return task.parameters if backfill.parameters is None else backfill.parameters


def _runs(backfill: Backfill, dag: Dag, nominals: list[datetime]) -> list[UUID]:
    plan = dag_plan_of(dag, priority=PRIORITY)
    parameters = run_parameters(dag, backfill.parameters)
    return [
        start_run(
            postgres.raw(django_connection),
            plan,
            parameters=parameters,
            origin=Origin.BACKFILL,
            nominal_at=nominal,
            idempotency_key=f"{dag.id}%{backfill.id}@{nominal.isoformat()}",
            actor=ACTOR,
        )
        for nominal in nominals
    ]
