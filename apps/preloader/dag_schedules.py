"""From DAGs' schedules to runs: each occurrence is started shortly before it is due, if its overlap policy lets it.

A DAG is one transaction: its run made, or not, and next_fire_at moved together, so a crash between the two leaves
neither.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction
from django.db.models import DurationField, ExpressionWrapper, F, Value
from prometheus_client import Counter

from apps.definitions.dags import schedule
from apps.definitions.dags.planning import plan_of
from apps.definitions.dags.schedule import Act, Decision
from apps.definitions.dags.triggering import nominal_key, run_parameters
from apps.definitions.models import Dag
from apps.executions import feed
from apps.executions.dags import stopping
from apps.executions.dags.models import DagRun
from apps.executions.dags.runs import active_runs, begin_queued, dags_that_wait, start_run
from apps.executions.dags.states import RunStatus
from apps.executions.states import Origin
from apps.preloader.epoch import database_now
from apps.tenants import audit
from chronoweb.runtime import postgres
from chronoweb.runtime.away import is_away
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost

logger = logging.getLogger(__name__)

_DAGS_A_PASS = 50
_MOST_DAGS = 1000
"""Of which runs wait: so many are looked at, those first whose runs have waited longest."""
_RUNS_A_PASS = 20
_SECONDS_A_PASS = 0.25
_SET_ASIDE_SECONDS = 60.0
_STARTS = (Act.START, Act.START_AND_CANCEL)

STARTED = Counter("chronoweb_dag_runs_started_total", "Runs that schedules have started")
DEQUEUED = Counter("chronoweb_dag_runs_dequeued_total", "Runs that waited for others of their DAG and have begun")
SKIPPED = Counter("chronoweb_dag_occurrences_skipped_total", "Occurrences of DAGs that did not become runs", ["why"])


@dataclass
class DagSchedules:
    """Works under one role. A DAG that cannot be started is set aside for a minute and stops nobody else."""

    config: Config
    role: str
    clock: Clock = SYSTEM_CLOCK
    some_wait: bool = False
    """Whether runs waited in the queue when it was looked at last."""
    _aside: dict[UUID, float] = field(default_factory=dict)

    def start_due(self, epoch: int) -> int:
        """Look at DAGs whose next occurrence is near; returns how many were moved on. Raises LeadershipLost."""
        monotonic = self.clock.monotonic()
        self._aside = {dag: until for dag, until in self._aside.items() if until > monotonic}
        looked_at = 0
        for identity in self._near():
            looked_at += self._look(identity, epoch)
            if self.clock.monotonic() > monotonic + _SECONDS_A_PASS:
                break  # the hot tier shall not wait; the next pass goes on
        return looked_at

    def begin_queued(self, epoch: int) -> int:
        """Let runs begin that waited until fewer of their DAG were active; returns how many. Raises LeadershipLost."""
        waiting = dags_that_wait(postgres.raw(django_connection), limit=_MOST_DAGS)
        self.some_wait = bool(waiting)
        if not waiting:
            return 0
        limits = dict(Dag.objects.filter(id__in=list(waiting)).values_list("id", "max_active_runs"))
        # Those without room do not keep others from their turn, however long they have waited.
        full = {dag for dag, most in limits.items() if most is not None and waiting[dag] >= most}
        free = [dag for dag in waiting if dag in limits and dag not in full]
        return sum(self._begin_queued(dag, epoch) for dag in free[:_DAGS_A_PASS])

    @transaction.atomic
    def _begin_queued(self, identity: UUID, epoch: int) -> int:
        database_now(self.role, epoch)
        # Whoever triggers holds this lock, too. A DAG that is paused or deleted lets its runs go on.
        dag = Dag.objects.filter(id=identity).select_for_update(skip_locked=True).first()
        if dag is None:
            return 0
        connection = postgres.raw(django_connection)
        runs = active_runs(connection, dag_id=dag.id)
        room = runs.queued if dag.max_active_runs is None else max(0, dag.max_active_runs - runs.begun)
        outcome = begin_queued(connection, dag_id=dag.id, most=min(room, _RUNS_A_PASS))
        transaction.on_commit(lambda: feed.changed_many(outcome.changed))
        if outcome.started:
            extra = {"dag": str(dag.id), "runs": len(outcome.started)}
            logger.info("runs have left the queue", extra={"action": "preloader.dag_dequeued", **extra})
            DEQUEUED.inc(len(outcome.started))
        return len(outcome.started)

    def _near(self) -> list[UUID]:
        """Jitter may put a run before its nominal time: next_fire_at + jitter decides, what can be is the index's."""
        jitter = ExpressionWrapper(F("jitter_ms") * Value(timedelta(milliseconds=1)), output_field=DurationField())
        now = _clock()
        widest = now + schedule.LEAD + timedelta(seconds=self.config.jitter_seconds)
        rows = Dag.objects.filter(next_fire_at__lte=widest, paused_at=None, deleted_at=None)
        rows = rows.annotate(run_at=F("next_fire_at") + jitter).filter(run_at__lte=now + schedule.LEAD)
        rows = rows.exclude(id__in=list(self._aside)).order_by("run_at", "id")
        return list(rows.values_list("id", flat=True)[:_DAGS_A_PASS])

    def _look(self, identity: UUID, epoch: int) -> bool:
        try:
            return self._decide(identity, epoch)
        except LeadershipLost:
            raise
        except Exception as error:
            if is_away(error):
                raise
            # One definition that cannot be run must not stop every other schedule.
            logger.exception("a DAG was set aside", extra={"action": "preloader.dag_set_aside", "dag": str(identity)})
            self._aside[identity] = self.clock.monotonic() + _SET_ASIDE_SECONDS
            return False

    @transaction.atomic
    def _decide(self, identity: UUID, epoch: int) -> bool:
        now = database_now(self.role, epoch, hold=False)
        rows = Dag.objects.filter(id=identity, next_fire_at__isnull=False, paused_at=None, deleted_at=None)
        dag = rows.select_for_update(skip_locked=True).first()
        if dag is None:
            return False
        connection = postgres.raw(django_connection)
        # Runs that wait were asked for earlier, unless it is for later.
        made = schedule.decide(dag, now=now, active=lambda: active_runs(connection, dag_id=dag.id).asked)
        if made.act is Act.NOT_YET:
            return False
        if made.act in _STARTS:
            self._start(dag, made)
        moved = (dag.next_fire_at, dag.waiting_since) != (made.next_fire_at, made.waiting_since)
        if moved:
            self._tell(dag, made)
            dag.next_fire_at, dag.waiting_since = made.next_fire_at, made.waiting_since
            dag.save(update_fields=["next_fire_at", "waiting_since"])
            # A run may take seconds to write, in which the lease must be renewed: it is held from here on.
            database_now(self.role, epoch)
        return made.act is not Act.WAIT

    def _start(self, dag: Dag, made: Decision) -> None:
        connection = postgres.raw(django_connection)
        if made.act is Act.START_AND_CANCEL:
            self._cancel_oldest(dag, leave=(schedule.limit_of(dag) or 1) - 1)
        run = start_run(
            connection,
            plan_of(dag),
            parameters=run_parameters(dag, None),
            origin=Origin.SCHEDULE,
            nominal_at=made.nominal,
            run_at=made.run_at,
            idempotency_key=nominal_key(dag, made.nominal),
            actor=self.role,
        )
        transaction.on_commit(lambda: feed.changed(dag.tenant_id, [run]))
        STARTED.inc()

    def _cancel_oldest(self, dag: Dag, *, leave: int) -> None:
        """Stop what is active but for the newest `leave` runs; they end when what they run has heard of it."""
        connection = postgres.raw(django_connection)
        active = DagRun.objects.filter(dag_id=dag.id, status=RunStatus.RUNNING, ending=None).order_by("-id")
        active = active.filter(run_at__lte=_clock() + schedule.LEAD)  # the others wait for their time
        reason = "a later run of its DAG was due (overlap_policy cancel_other)"
        changed: list[tuple[bytes, bytes]] = []
        for identity in list(active.values_list("id", flat=True))[leave:]:
            outcome = stopping.stop_run(
                connection, identity.bytes, ending=RunStatus.CANCELLED, actor=self.role, reason=reason
            )
            changed += outcome.changed
        transaction.on_commit(lambda: feed.changed_many(changed))

    def _tell(self, dag: Dag, made: Decision) -> None:
        extra = {"dag": str(dag.id), "nominal_at": made.nominal.isoformat(), "act": made.act.name.lower()}
        logger.info("a DAG's occurrence", extra={"action": "preloader.dag_occurrence", **extra})
        if made.act in (Act.SKIP, Act.MISFIRE):
            SKIPPED.labels(made.act.name.lower()).inc()
            audit.record(
                tenant_id=dag.tenant_id,
                actor=self.role,
                action="dag.skip",
                target_type="dag",
                target_id=dag.id,
                detail={"nominal_at": made.nominal.isoformat(), "reason": made.act.value},
            )


def _clock() -> datetime:
    with django_connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]
