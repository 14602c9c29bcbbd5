"""Backfills: a range of a schedule's past run on request, a few occurrences at a time.

A backfill is a row with a cursor. The preloader moves it on: it makes as many executions, or runs, as may be under way
at once, in the class of the least urgent, so what the schedule brings now always goes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction
from django.db.models import QuerySet

from apps.definitions import json_values
from apps.definitions.dags.making import live_dags
from apps.definitions.dags.triggering import run_parameters
from apps.definitions.models import Backfill, BackfillState, Dag, Task
from apps.definitions.occurrences import Schedule, occurrences
from apps.definitions.plans import newest_occurrences
from apps.definitions.schedule_input import Reader
from apps.definitions.tasks import live_tasks
from apps.definitions.validation import check_parameters
from apps.executions import person_store
from apps.executions.concurrency import key_of
from apps.executions.dags import operations
from apps.executions.dags.models import DagRun
from apps.executions.dags.states import RunStatus
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants import audit
from apps.tenants.identity import new_uuid
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

FIELDS = ("start", "end", "at_once", "order", "parameters", "dry_run")
ORDERS = ("oldest_first", "newest_first")
MOST_OCCURRENCES = 100_000
MOST_AT_ONCE = 1000
DEFAULT_AT_ONCE = 10
PRIORITY = 10
"""Of what a backfill makes: the least urgent there is."""

_TICK = timedelta(microseconds=1)
_WAITING = frozenset({Status.SCHEDULED, Status.PRELOADED})
_STOPPED = "its backfill was stopped"


@dataclass(frozen=True)
class Request:
    """What is asked for, read. start: the first instant of the range; end: the first behind it."""

    schedule: Schedule
    start: datetime
    end: datetime
    at_once: int
    newest_first: bool
    parameters: dict[str, Any] | None
    total: int

    def preview(self, count: int) -> list[datetime]:
        """The first `count` occurrences, in the order in which they would be run."""
        return following(
            self.schedule, start=self.start, end=self.end, newest_first=self.newest_first, cursor=None, count=count
        )


def target(principal: Principal, *, task_id: UUID | None = None, dag_id: UUID | None = None) -> Task | Dag:
    """What is to be backfilled. Raises NotFound."""
    if task_id is not None:
        return scoped_get(live_tasks(), principal, what="task", id=task_id)
    return scoped_get(live_dags(), principal, what="DAG", id=dag_id)


def read_request(of: Task | Dag, data: Mapping[str, Any]) -> Request:
    """The range and the terms. Raises InvalidInputs; pointers into `data` ("/start")."""
    schedule = Schedule.parse(of.schedule)
    reader = Reader(data)
    reader.errors += list(json_values.problems(dict(data)))
    for name in data:
        if name not in FIELDS:
            reader.refuse(str(name), "is not a field of a backfill", FIELDS)
    start, end = (reader.moment(name, schedule.timezone, last_pass=False) for name in ("start", "end"))
    for name in ("start", "end"):
        if data.get(name) is None:
            reader.refuse(name, "is required", "a date-time such as 2026-03-01T00:00:00Z")
    if end and end > person_store.database_now(postgres.raw(django_connection)):
        reader.refuse("end", "is in the future, which is the schedule's", "at the latest now")
    at_once = reader.whole("at_once", 1, MOST_AT_ONCE)
    order = reader.choice("order", ORDERS, default=ORDERS[0])
    if schedule.type not in ("cron", "interval"):
        problem = f"the schedule is of type {schedule.type}: it has no occurrences to fill in"
        reader.errors.append(InvalidInput("", schedule.type, problem, ("cron", "interval")))
    if start and end and start >= end:
        reader.refuse("end", "is not after start", "a later date-time")
    _read_parameters(of, data, reader)
    if reader.errors or start is None or end is None:
        raise InvalidInputs(reader.errors)
    total = _total(schedule, start, end)
    given = data.get("parameters")
    newest = order == ORDERS[1]
    return Request(schedule, start, end, at_once or DEFAULT_AT_ONCE, newest, None if given is None else given, total)


@transaction.atomic
def start_backfill(*, principal: Principal, of: Task | Dag, request: Request) -> Backfill:
    """Begin: the preloader does the rest."""
    now = person_store.database_now(postgres.raw(django_connection))
    backfill = Backfill.objects.create(
        id=new_uuid(),
        tenant_id=principal.tenant_id,
        task=of if isinstance(of, Task) else None,
        dag=of if isinstance(of, Dag) else None,
        schedule=request.schedule.to_json(),
        start_at=request.start,
        end_at=request.end,
        newest_first=request.newest_first,
        at_once=request.at_once,
        parameters=request.parameters,
        total=request.total,
        created_at=now,
        created_by=principal.actor,
    )
    _record(principal, backfill, "backfill.start", of=str(of.id), occurrences=request.total)
    transaction.on_commit(wakeup.preloader.wake)
    return backfill


def stop_backfill(*, principal: Principal, backfill_id: UUID) -> Backfill:
    """Make nothing more of it, and cancel what waits still; what has begun goes on to its end.

    Repeating it changes nothing; nor does it for one that has finished. Raises NotFound.
    """
    with transaction.atomic():
        backfill = scoped_get(Backfill.objects.select_for_update(), principal, what="backfill", id=backfill_id)
        if backfill.state == BackfillState.RUNNING:
            backfill.state = BackfillState.STOPPED
            backfill.ended_at = person_store.database_now(postgres.raw(django_connection))
            backfill.save(update_fields=["state", "ended_at"])
            _record(principal, backfill, "backfill.stop", made=backfill.made)
    # In transactions of their own, as locks are taken in the order of executions. Whoever dies here stops it again.
    if backfill.state == BackfillState.STOPPED:
        _cancel_waiting(principal, backfill)
    return backfill


def _cancel_waiting(principal: Principal, backfill: Backfill) -> None:
    if backfill.dag_id is not None:
        begun = Execution.objects.filter(dag_run_id__in=backfill.under_way).exclude(status__in=_WAITING)
        still = DagRun.objects.filter(id__in=backfill.under_way, status=RunStatus.RUNNING)
        for run_id in still.exclude(id__in=begun.values("dag_run_id")).order_by("id").values_list("id", flat=True):
            operations.cancel_run(principal=principal, run_id=run_id, reason=_STOPPED)
        return
    connection = postgres.raw(django_connection)
    with transaction.atomic():
        locked = [
            person_store.lock_one(connection, identity=identity, tenant_id=principal.tenant_id)
            for identity in sorted(backfill.under_way)
        ]
        waiting = [row for row in locked if row is not None and row.status in _WAITING]
        moves = [person_store.Move(row, Status.CANCELLED, reason=_STOPPED) for row in waiting]
        person_store.move(connection, moves, actor=principal.actor)


def backfills(principal: Principal) -> QuerySet[Backfill]:
    """The tenant's backfills."""
    return scoped(Backfill.objects.all(), principal)


def of_one(principal: Principal, of: Task | Dag) -> QuerySet[Backfill]:
    """Those of one task or DAG, latest first."""
    return backfills(principal).filter(**{"dag_id" if isinstance(of, Dag) else "task_id": of.id})


def backfill(principal: Principal, backfill_id: UUID) -> Backfill:
    """One backfill. Raises NotFound."""
    return scoped_get(Backfill.objects.all(), principal, what="backfill", id=backfill_id)


def following(
    schedule: Schedule, *, start: datetime, end: datetime, newest_first: bool, cursor: datetime | None, count: int
) -> list[datetime]:
    """The next `count` occurrences of [start, end) behind the cursor, in the order of the backfill. Pure."""
    if count < 1:
        return []
    if newest_first:
        before = end if cursor is None else cursor
        return newest_occurrences(schedule, begin=start, before=before, count=count)[::-1]
    after = start - _TICK if cursor is None else cursor
    return list(occurrences(schedule, after=after, before=end, limit=count))


def _read_parameters(of: Task | Dag, data: Mapping[str, Any], reader: Reader) -> None:
    given = data.get("parameters")
    if given is None:
        return
    if error := check_parameters(given, "/parameters"):
        reader.errors.append(error)
    elif isinstance(of, Dag):
        try:
            run_parameters(of, given)
        except InvalidInputs as several:
            reader.errors += several.errors
    else:
        try:
            key_of(of.concurrency, given, tenant_id=of.tenant_id.bytes)
        except InvalidInputs as several:
            reader.errors += [
                InvalidInput(f"/parameters{e.pointer}", e.value, e.problem, e.legal) for e in several.errors
            ]


def _total(schedule: Schedule, start: datetime, end: datetime) -> int:
    found = occurrences(schedule, after=start - _TICK, before=end)
    total = sum(1 for _ in islice(found, MOST_OCCURRENCES + 1))
    if total > MOST_OCCURRENCES:
        raise InvalidInputs(
            [InvalidInput("/end", None, f"there are more than {MOST_OCCURRENCES} occurrences", "a shorter range")]
        )
    if not total:
        raise InvalidInputs([InvalidInput("/end", None, "the range has no occurrence", "a range that has one")])
    return total


def _record(principal: Principal, backfill: Backfill, action: str, **detail: object) -> None:
    audit.record(
        tenant_id=principal.tenant_id,
        actor=principal.actor,
        action=action,
        target_type="backfill",
        target_id=backfill.id,
        detail=detail,
    )
