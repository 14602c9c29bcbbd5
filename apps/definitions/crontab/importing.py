"""Importing a crontab: compare with what is there, and write the difference in one transaction.

A task is known by the tag that names its line's key, so it may be renamed, tagged, retried and limited as its owners
like: an import changes what the crontab says, and nothing else.
"""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.crontab.lines import Crontab, Line
from apps.definitions.crontab.naming import name_of, prefix_of
from apps.definitions.crontab.planning import KEY_TAG, LONGEST_SOURCE, OWNED_TAGS, TAG, Planned, plan, source_tag, told
from apps.definitions.dst_notes import dst_notes
from apps.definitions.edits import update_task
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule, describe, occurrences, smallest_gap
from apps.definitions.standing import delete_task
from apps.definitions.tasks import create_task, live_tasks
from apps.definitions.validation import read_document
from apps.definitions.versions import document_of
from apps.definitions.zones import zone
from apps.executions import person_store
from apps.executions.secret_references import references
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime import postgres
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

CREATED, UPDATED, UNCHANGED, REFUSED, GONE, DELETED = "created", "updated", "unchanged", "refused", "gone", "deleted"
NEXT_TIMES = 3
_OWNED = ("schedule", "strict_timing", "handler", "tags")
_FARTHEST = timedelta(days=366 * 9)


@dataclass(frozen=True)
class Change:
    """A field of a task that an import changes."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Imported:
    """What became of one entry, or of a task whose entry is no longer there (line None).

    next_times: aware UTC. jitter: bounds of the shift; zero: none.
    """

    outcome: str
    line: Line | None = None
    name: str | None = None
    task: Task | None = None
    problem: str | None = None
    schedule: Schedule | None = None
    words: str | None = None
    timezone: str = "UTC"
    next_times: list[datetime] = field(default_factory=list)
    clock_changes: list[str] = field(default_factory=list)
    jitter: timedelta = timedelta(0)
    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Import:
    """The whole: each line of the file is one of `entries`, or a line that is no entry."""

    crontab: Crontab
    source: str
    dry_run: bool
    entries: list[Imported]
    gone: list[Imported]

    def count(self, outcome: str) -> int:
        return sum(1 for each in [*self.entries, *self.gone] if each.outcome == outcome)


@transaction.atomic
def import_crontab(
    *,
    principal: Principal,
    crontab: Crontab,
    source: str,
    timezone: str,
    strict_timing: bool = True,
    prune: bool = False,
    dry_run: bool = False,
) -> Import:
    """Make the tenant's tasks of this source what the crontab says.

    source: what the file is known by, with the tenant. timezone: of lines that no CRON_TZ speaks for. strict_timing: as
    cron, which never starts a line before its time; without it jitter may. prune: delete tasks whose lines are gone.
    dry_run: write nothing and say what would be. Entries that cannot be tasks are refused one by one.
    Raises InvalidInput for an unknown zone.
    """
    zone(timezone)
    _check_source(source)
    now = person_store.database_now(postgres.raw(django_connection))
    job = _Job(principal, source, now, dry_run)
    entries = []
    planned = {
        each.line.number: each for each in plan(crontab, source=source, timezone=timezone, strict_timing=strict_timing)
    }
    for line in crontab.lines:
        each = planned.get(line.number)
        if line.problem is not None:
            entries.append(Imported(REFUSED, line, problem=line.problem))
        elif isinstance(each, Planned):
            entries.append(job.put(each))
        elif each is not None:
            entries.append(Imported(REFUSED, line, problem=each.problem))
    kept = {each.key for each in planned.values() if isinstance(each, Planned)}
    return Import(crontab, source, dry_run, entries, job.gone(kept, prune=prune))


def _check_source(source: str) -> None:
    if not source.strip() or len(source) > LONGEST_SOURCE or not source.isprintable():
        raise InvalidInput("/source", source, "is no name", f"1 to {LONGEST_SOURCE} printable characters")


class _Job:
    """The tenant's tasks that were imported from one source, and the names that are in use."""

    def __init__(self, principal: Principal, source: str, now: datetime, dry_run: bool) -> None:
        self._principal, self._source, self._now, self._dry_run = principal, source, now, dry_run
        tasks = scoped(live_tasks(), principal)
        self._known = {_key_of(task): task for task in tasks.filter(tags__contains=[source_tag(source)])}
        # All names that lines of this source may meet, so that a file of many lines asks once.
        self._names = set(tasks.filter(name__startswith=prefix_of(source)).values_list("name", flat=True))

    def put(self, planned: Planned) -> Imported:
        """Create or edit the entry's task, or say why not."""
        task = self._known.get(planned.key)
        try:
            with nullcontext() if self._dry_run else transaction.atomic():
                outcome, task, name, changes = self._create(planned) if task is None else self._update(planned, task)
        except InvalidInputs as errors:
            return Imported(REFUSED, planned.line, problem="; ".join(map(told, errors.errors)))
        except InvalidInput as error:
            return Imported(REFUSED, planned.line, problem=told(error))
        schedule = Schedule.parse(planned.document["schedule"])
        return Imported(
            outcome,
            planned.line,
            name=name,
            task=task,
            schedule=schedule,
            words=describe(schedule),
            timezone=planned.timezone,
            next_times=list(islice(occurrences(schedule, after=self._now, before=self._now + _FARTHEST), NEXT_TIMES)),
            clock_changes=dst_notes(schedule, after=self._now),
            jitter=_jitter(schedule, strict=planned.document["strict_timing"]),
            changes=changes,
            notes=planned.notes,
        )

    def gone(self, kept: set[str], *, prune: bool) -> list[Imported]:
        """Tasks of this source whose lines are no longer there."""
        lost = [task for key, task in self._known.items() if key not in kept]
        if prune and not self._dry_run:
            for task in lost:
                delete_task(principal=self._principal, task_id=task.id)
        return [Imported(DELETED if prune else GONE, name=task.name, task=task) for task in lost]

    def _create(self, planned: Planned) -> tuple[str, Task | None, str, list[Change]]:
        name = name_of(
            planned.entry.command, source=self._source, number=planned.line.number, taken=self._names.__contains__
        )
        document = {"name": name, **planned.document}
        if self._dry_run:
            read_document(document, now=self._now)
            task = None
        else:
            task = create_task(principal=self._principal, data=document)
        self._names.add(name)
        return CREATED, task, name, []

    def _update(self, planned: Planned, task: Task) -> tuple[str, Task, str, list[Change]]:
        before = document_of(task)
        owned = {name: planned.document[name] for name in _OWNED}
        theirs = [tag for tag in before["tags"] if tag != TAG and not tag.startswith(OWNED_TAGS)]
        owned["tags"] = [*owned["tags"], *theirs]
        owned["handler"] = _keeping_secrets(owned["handler"], before["handler"])
        wanted = read_document({**before, **owned}, now=self._now, before=before)
        changes = [
            Change(name, before[name], wanted[name]) for name in _OWNED if _differs(name, before[name], wanted[name])
        ]
        if changes and not self._dry_run:
            given = {change.field: change.after for change in changes}
            task = update_task(principal=self._principal, task_id=task.id, data=given, partial=True)
        return UPDATED if changes else UNCHANGED, task, task.name, changes


def _key_of(task: Task) -> str:
    return next((tag.removeprefix(KEY_TAG) for tag in task.tags if tag.startswith(KEY_TAG)), f"none:{task.id}")


def _keeping_secrets(handler: dict[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    """References that somebody has put in the place of plain values stay, and so do limits."""
    secret = {reference.pointer.removeprefix("/environment/") for reference in references(before)}
    referred = {
        name: value
        for name, value in (before.get("environment") or {}).items()
        if name in handler["environment"] and name in secret
    }
    limits = {"limits": before["limits"]} if before.get("limits") else {}
    return {**handler, "environment": {**handler["environment"], **referred}, **limits}


def _differs(name: str, before: Any, after: Any) -> bool:
    return sorted(before) != sorted(after) if name == "tags" else before != after


def _jitter(schedule: Schedule, *, strict: bool) -> timedelta:
    if schedule.type != "cron" or strict:
        return timedelta(0)
    most = timedelta(seconds=config().jitter_seconds)
    gap = smallest_gap(schedule)
    return most if gap is None else min(most, gap / 4)
