"""From a task's occurrences to rows of the ledger: pure, no clock, no database.

The preloader, edits, resumes and triggers all make their rows here, so a row of an occurrence looks the same whoever
made it: same key, same run_at, same slot.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from apps.definitions.models import Dag, Task
from apps.definitions.occurrences import Schedule, next_occurrence, occurrences, smallest_gap
from apps.executions import ids
from apps.executions.concurrency import key_of
from apps.executions.rows import NewExecution
from apps.executions.states import ExecutionClass, Origin, Overlap, Status
from chronoweb.runtime.config import config

ONE_SHOT_GRACE = timedelta(seconds=60)
"""A one-shot or a trigger this far in the past still fires; an older one is refused at the door."""

SKIPPED_ROWS = 100
"""Misfires of one pass that become rows; older ones are only counted."""

_COUNTED = 10_000  # misfires counted one by one; beyond it "at least" is said
_TICK = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class Materialised(NamedTuple):
    """executions: rows to insert. skipped: misfires as rows of status SKIPPED, each with its reason, oldest first.

    next_fire_at: what to store in the task; None when the schedule has no occurrence left.
    """

    executions: list[NewExecution]
    skipped: list[tuple[NewExecution, str]]
    next_fire_at: datetime | None


def plan_of(task: Task) -> dict[str, Any]:
    """The fields that every row of the task's version in force shares, by their names in NewExecution.

    concurrency_key is that of the task's own parameters: a row with others has its own.
    """
    overlap = Overlap[task.overlap_policy.upper()]
    return {
        "tenant_id": task.tenant_id.bytes,
        "task_id": task.id.bytes,
        "version_id": task.version_id,
        "max_attempts": task.retry_policy["max_attempts"],
        "class_index": int(ExecutionClass.of_priority(task.priority)),
        "priority": task.priority,
        "overlap": overlap,
        "queue_seconds": task.timeouts.get("queue_seconds"),
        "route_id": task.route_id,
        "slot_key": None if overlap is Overlap.ALLOW_ALL else f"task:{task.id}",
        "concurrency_key": key_of(task.concurrency, task.parameters, tenant_id=task.tenant_id.bytes),
    }


def run_at_of(task: Task | Dag, nominal: datetime, *, now: datetime) -> datetime:
    """When an occurrence is due in fact: shifted by the task's jitter, never before `now`."""
    return max(now, nominal + task.jitter_ms * _MILLISECOND)


def new_executions(
    task: Task, nominals: Sequence[datetime], *, now: datetime, status: Status = Status.SCHEDULED
) -> list[NewExecution]:
    """A row for each occurrence (aware UTC, whole milliseconds). The key names it, so it is one row for ever."""
    plan = plan_of(task)
    identities = ids.new_ids((ids.to_ms(nominal) for nominal in nominals), of=plan["task_id"])
    return [
        NewExecution(
            id=identity,
            scheduled_us=ids.to_us(nominal),
            run_us=ids.to_us(run_at_of(task, nominal, now=now)),
            nominal_us=ids.to_us(nominal),
            origin=Origin.SCHEDULE,
            idempotency_key=f"{task.id}@{nominal.astimezone(UTC).isoformat()}",
            status=status,
            **plan,
        )
        for identity, nominal in zip(identities, nominals, strict=True)
    ]


def misfire_window(task: Task | Dag, schedule_type: str) -> timedelta:
    """How late an occurrence may be and still run."""
    window = timedelta(seconds=max(task.catchup_seconds, config().misfire_grace_seconds))
    return max(window, ONE_SHOT_GRACE) if schedule_type == "one_shot" else window


def earliest_still_due(task: Task | Dag, schedule_type: str, *, now: datetime) -> datetime:
    """Occurrences from here on run when they are met at `now`; earlier ones are misfires.

    Also bounded by the partitions that are made behind. A task whose jitter delays it is not late before that delay.
    """
    window = misfire_window(task, schedule_type) + max(task.jitter_ms, 0) * _MILLISECOND
    return max(now - window, oldest_partition(now))


def oldest_partition(now: datetime) -> datetime:
    """The first instant that surely has a partition behind `now`."""
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight - timedelta(days=config().partition_days_back)


def materialise_task(task: Task, *, now: datetime, horizon: datetime, limit: int) -> Materialised:
    """What becomes of the task's occurrences from its next_fire_at on, strictly before `horizon`.

    At most `limit` rows are due; next_fire_at then is the first that was left out. now: the database's, aware.
    """
    if task.next_fire_at is None:
        return Materialised([], [], None)
    schedule = Schedule.parse(task.schedule)
    edge = earliest_still_due(task, schedule.type, now=now)
    begin = max(task.next_fire_at, edge)
    due = list(occurrences(schedule, after=begin - _TICK, before=horizon, limit=limit + 1))
    if len(due) > limit:
        following: datetime | None = due.pop()
    else:
        following = next_occurrence(schedule, after=max(horizon, begin) - _TICK)
    skipped = _misfires(task, schedule, before=edge, now=now) if task.next_fire_at < edge else []
    return Materialised(new_executions(task, due, now=now), skipped, following)


def _misfires(task: Task, schedule: Schedule, *, before: datetime, now: datetime) -> list[tuple[NewExecution, str]]:
    assert task.next_fire_at is not None
    newest = newest_occurrences(schedule, begin=task.next_fire_at, before=before, count=SKIPPED_ROWS)
    shown = [nominal for nominal in newest if nominal >= oldest_partition(now)]
    if not shown:
        return []
    reason = f"misfire: later than {misfire_window(task, schedule.type).total_seconds():g} s"
    reasons = [reason for _ in shown]
    rest = sum(1 for _ in islice(_between(schedule, task.next_fire_at, shown[0]), _COUNTED))
    if rest:
        least = "at least " if rest == _COUNTED else ""
        reasons[-1] += f"; {least}{rest} earlier ones have no row"
    rows = new_executions(task, shown, now=now, status=Status.SKIPPED)
    return list(zip(rows, reasons, strict=True))


def newest_occurrences(schedule: Schedule, *, begin: datetime, before: datetime, count: int) -> list[datetime]:
    """The last `count` occurrences in [begin, before), found by looking back ever farther from the end."""
    span = (smallest_gap(schedule) or timedelta(days=1)) * (count + 1)
    while True:
        start = max(begin, before - span) if span < before - begin else begin
        found = list(_between(schedule, start, before))
        if len(found) >= count or start == begin:
            return found[-count:]
        span *= 4


def _between(schedule: Schedule, begin: datetime, before: datetime) -> Iterator[datetime]:
    return occurrences(schedule, after=begin - _TICK, before=before)
