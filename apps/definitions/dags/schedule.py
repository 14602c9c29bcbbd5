"""What is to be done about a DAG's next occurrence. Pure but for what it is told: no clock, no database."""

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import NamedTuple

from apps.definitions.models import Dag
from apps.definitions.occurrences import Schedule, next_occurrence, occurrences
from apps.definitions.plans import earliest_still_due, run_at_of
from apps.executions.dags.runs import LEAD

_TICK = timedelta(microseconds=1)


class Act(Enum):
    """What becomes of the occurrence at next_fire_at."""

    START = "start"
    START_AND_CANCEL = "start, and cancel the oldest active run"
    SKIP = "skip: earlier runs are active"
    MISFIRE = "skip: its time passed too long ago"
    WAIT = "wait for earlier runs to end"
    NOT_YET = "not due yet"


class Decision(NamedTuple):
    """nominal: of the occurrence. run_at: when its run is due. next_fire_at, waiting_since: to store in the DAG."""

    act: Act
    nominal: datetime
    run_at: datetime
    next_fire_at: datetime | None
    waiting_since: datetime | None = None


def limit_of(dag: Dag) -> int | None:
    """How many runs may be active when a scheduled one starts. None: any number.

    An overlap policy other than allow_all means one, unless max_active_runs says more.
    """
    return dag.max_active_runs or (None if dag.overlap_policy == "allow_all" else 1)


def decide(dag: Dag, *, now: datetime, active: Callable[[], int]) -> Decision:
    """About the occurrence at dag.next_fire_at, which is not None. now: the database's.

    active: how many runs are active; asked only where it matters. What waited for earlier runs is not late for that.
    """
    assert dag.next_fire_at is not None
    nominal, schedule = dag.next_fire_at, Schedule.parse(dag.schedule)
    run_at = run_at_of(dag, nominal, now=now)
    if run_at > now + LEAD:
        return Decision(Act.NOT_YET, nominal, run_at, nominal, dag.waiting_since)
    edge = earliest_still_due(dag, schedule.type, now=dag.waiting_since or now)
    if nominal < edge:
        return Decision(Act.MISFIRE, nominal, run_at, next_occurrence(schedule, after=edge - _TICK))
    following = next_occurrence(schedule, after=nominal)
    limit = limit_of(dag)
    if limit is None or active() < limit:
        return Decision(Act.START, nominal, run_at, following)
    if dag.overlap_policy == "skip":
        return Decision(Act.SKIP, nominal, run_at, following)
    if dag.overlap_policy == "cancel_other":
        return Decision(Act.START_AND_CANCEL, nominal, run_at, following)
    waits = _newest_due(schedule, nominal, now) if dag.overlap_policy == "buffer_one" else nominal
    return Decision(Act.WAIT, waits, run_at, waits, dag.waiting_since or now)


def _newest_due(schedule: Schedule, nominal: datetime, now: datetime) -> datetime:
    """Of several occurrences that wait, buffer_one keeps the newest."""
    newest = nominal
    for occurrence in occurrences(schedule, after=nominal, before=now + _TICK, limit=10_000):
        newest = occurrence
    return newest
