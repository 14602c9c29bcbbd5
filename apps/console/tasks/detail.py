"""A task's page: how its last executions went, what fails, what comes next, how it came to be what it is."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.urls import reverse
from django.utils.safestring import SafeString

from apps.console.detail import readable
from apps.console.rows import label
from apps.console.tasks import changes, preview, trend
from apps.console.tasks.preview import Preview
from apps.console.tasks.trend import Trend
from apps.definitions.confidential import masked_handler
from apps.definitions.models import Task
from apps.definitions.occurrences import Schedule
from apps.definitions.versions import document_of
from apps.executions.models import TaskVersion
from apps.executions.states import Status
from apps.executions.task_history import ExecutionLine, Fault, faults_of, latest_of_tasks
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

HISTORY = 100
BACK = timedelta(days=35)
_NOBODY = UUID(int=0)
_VERSIONS = 10
_LINES = 12


@dataclass(frozen=True)
class Count:
    """How many of the last executions are in a state."""

    state: str
    label: str
    number: int


@dataclass(frozen=True)
class Failure:
    """One type of error. share: hundredths of the failed attempts."""

    fault: Fault
    name: str
    share: int


@dataclass(frozen=True)
class Change:
    """One version. lines: how it differs from the one before, as (sign, words)."""

    version: TaskVersion
    lines: list[tuple[str, str]]
    left_out: int


@dataclass(frozen=True)
class Detail:
    """What `task.html` shows."""

    task: Task
    handler: str
    upcoming: Preview
    history: SafeString
    lines: list[ExecutionLine]
    counts: list[Count]
    took: Trend | None
    late: Trend | None
    failures: list[Failure]
    changes: list[Change]
    parameters: str
    yaml: str
    run_as_curl: str
    make_as_curl: str


def read(principal: Principal, task: Task, *, now: datetime, origin: str) -> Detail:
    """Four queries at most. Documents are shown as the principal's role may see them."""
    latest = latest_of_tasks(principal, [task.id], each=HISTORY, since=now - BACK, now=now)
    lines = latest[::-1]
    document = document_of(task) | {"handler": masked_handler(task.handler, role=principal.role)}
    schedule = Schedule.parse(task.schedule)
    address = reverse("console:execution", kwargs={"slug": principal.tenant_slug, "identity": _NOBODY})
    return Detail(
        task=task,
        handler=runs(document["handler"]),
        upcoming=preview.of(principal, schedule, now=now, own=task, is_strict=task.strict_timing),
        history=trend.strip(lines, address),
        lines=lines,
        counts=_counts(lines),
        took=trend.took(lines),
        late=trend.late(lines),
        failures=_failures(faults_of(principal, lines)),
        changes=_changes(principal, task),
        parameters=readable(task.parameters),
        yaml=changes.as_yaml(document),
        run_as_curl=changes.run_as_curl(task, origin),
        make_as_curl=changes.make_as_curl(document, origin),
    )


def runs(handler: dict[str, object]) -> str:
    """What a handler runs, in a line."""
    argv = handler.get("argv")
    program = " ".join(map(str, argv)) if isinstance(argv, list) else ""
    what = handler.get("name") or handler.get("url") or handler.get("image") or program
    return f"{handler.get('type')} {what}"


def _counts(lines: list[ExecutionLine]) -> list[Count]:
    numbers = {status: sum(line.status == status for line in lines) for status in Status}
    return [Count(status.word, label(status), number) for status, number in numbers.items() if number]


def _failures(faults: list[Fault]) -> list[Failure]:
    whole = sum(fault.attempts for fault in faults)
    return [Failure(fault, fault.type or "no type told", round(100 * fault.attempts / whole)) for fault in faults]


def _changes(principal: Principal, task: Task) -> list[Change]:
    """One version more than is shown is read, to be compared with."""
    rows = scoped(TaskVersion.objects.all(), principal).filter(task_id=task.id).order_by("-number")
    versions = list(rows[: _VERSIONS + 1])
    documents = [_seen(version, principal.role) for version in versions]
    made = []
    for at, version in enumerate(versions[:_VERSIONS]):
        found = changes.lines(documents[at + 1], documents[at]) if at + 1 < len(versions) else []
        made.append(Change(version, found[:_LINES], max(0, len(found) - _LINES)))
    return made


def _seen(version: TaskVersion, role: Role) -> dict[str, object]:
    document = version.definition
    return document | {"handler": masked_handler(document.get("handler") or {}, role=role)}
