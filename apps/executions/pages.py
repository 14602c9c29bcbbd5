"""The statements of the ledger's pages for people and programs. Each names its tenant; what calls them is selectors.py.

They are the most frequent reading of the ledger, so they are prepared, and their text depends on nothing but which
filters there are.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import connection

from apps.executions import ids
from apps.executions.candidates import Source
from apps.executions.models import Attempt, Execution, ExecutionEvent, Progress, TaskVersion, WorkerState
from chronoweb.runtime import postgres
from chronoweb.runtime.rows import Rows

T = TypeVar("T")

_EXECUTION = Rows(Execution)
_LISTED = Rows(
    Execution,
    without=(
        *("wake_at", "dispatched_at", "overlap", "slot_key", "queue_seconds"),
        *("dag_node", "dag_item", "dag_generation"),
    ),
)
"""What lists say of each."""
_VERSION = Rows(TaskVersion)
_ATTEMPT = Rows(Attempt)
_EVENT = Rows(ExecutionEvent)
_PROGRESS = Rows(Progress)

_ONE = f"""
SELECT {_EXECUTION.columns("e")} FROM executions e
WHERE e.scheduled_at = %s AND e.id = %s AND e.tenant_id = %s
"""  # noqa: S608 - names of columns
_VERSIONS = f"SELECT {_VERSION.columns('v')} FROM task_versions v WHERE v.id = ANY(%s)"  # noqa: S608 - likewise
_ATTEMPTS = f"""
SELECT {_ATTEMPT.columns("a")} FROM attempts a
WHERE a.scheduled_at = %s AND a.execution_id = %s AND a.tenant_id = %s ORDER BY a.token, a.attempt
"""  # noqa: S608 - names of columns
_EVENTS = f"""
SELECT {_EVENT.columns("x")} FROM execution_events x
WHERE x.scheduled_at = %s AND x.execution_id = %s AND x.tenant_id = %s ORDER BY x.at, x.event_id
"""  # noqa: S608 - names of columns
_PROGRESS_OF = f"""
SELECT {_PROGRESS.columns("p")} FROM progress p WHERE p.execution_id = %s AND p.tenant_id = %s
"""  # noqa: S608 - names of columns
FILTERS = {
    "task": "e.task_id = %(task)s",
    "run": "e.dag_run_id = %(run)s",
    "origins": "e.origin = ANY(%(origins)s)",
    "statuses": "e.status = ANY(%(statuses)s)",
    # The name that few rows are asked for, one by one; and for many, which finds all versions of such a name first.
    "named": "(SELECT upper(v.name) LIKE upper(%(named)s) FROM task_versions v WHERE v.id = e.task_version_id)",
    "named_many": "(e.task_version_id IN (SELECT v.id FROM task_versions v"
    " WHERE v.tenant_id = %(tenant)s AND upper(v.name) LIKE upper(%(named)s))) IS TRUE",
    "classes": "e.class = ANY(%(classes)s)",
    "error_type": "e.error ->> 'type' = %(error_type)s",
    "worker": "e.worker_id = %(worker)s",
    "hold": "e.hold = %(hold)s",
    "holds": "e.hold = ANY(%(holds)s)",
    "made_by": "e.created_at <= %(made_by)s",
}
"""No index on executions names the status: the states of two kinds have small tables of their own (candidates)."""
_WORKER = "SELECT w.tenant_id, w.state, w.heartbeat_at FROM workers w WHERE w.id = %s"
_TASKS_NAMED = """
SELECT DISTINCT v.task_id FROM task_versions v
WHERE v.tenant_id = %s AND upper(v.name) LIKE upper(%s) LIMIT %s
"""


@dataclass(frozen=True)
class WorkerStanding:
    """ended_at: when it was last heard of; None: it lives."""

    ended_at: datetime | None


def containing(text: str) -> str:
    """The pattern of LIKE for what has this text somewhere."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


@dataclass(frozen=True)
class Stretch:
    """A stretch of a search: scheduled_at from `since` until before `until`.

    source: whose rows are looked at, at most `size` of them (None: all). filters: names of FILTERS that they pass.
    """

    source: Source
    filters: Sequence[str]
    values: dict[str, Any]
    since: datetime
    until: datetime
    descending: bool
    size: int | None

    @property
    def order(self) -> str:
        return "DESC" if self.descending else "ASC"

    @property
    def bound(self) -> dict[str, Any]:
        """The values that its statements name."""
        lowest, highest = ids.lowest(self.since), ids.lowest(self.until)
        stretch = {"since": self.since, "until": self.until, "lowest": lowest, "highest": highest}
        return {**self.values, **stretch, "size": self.size}


@dataclass(frozen=True)
class Piece(Generic[T]):
    """What a stretch's statement finds. edge: the last id that it has looked at, behind which there may be more; None:
    the page is full, or the stretch is through.
    """

    rows: list[T]
    edge: UUID | None


def page(stretch: Stretch, *, limit: int | None) -> Piece[Execution]:
    """Up to `limit` executions, by id. Their versions are not there yet: with_versions."""
    rows, edge = _read(_LISTED.columns("e"), stretch, limit)
    return Piece(list(_LISTED.made(rows)), edge)


def page_of_ids(stretch: Stretch, *, limit: int | None) -> Piece[UUID]:
    """The ids of the same; of all that are found where limit is None."""
    rows, edge = _read("e.id", stretch, limit)
    return Piece([identity for (identity,) in rows], edge)


def _read(columns: str, stretch: Stretch, limit: int | None) -> tuple[list[Sequence[Any]], UUID | None]:
    """These columns of what is found, and the piece's edge. It is told as a row of its own where the filters do not
    pass it; what comes behind it belongs to another task, of which all that is nearer has not been looked at.
    """
    found: list[Sequence[Any]] = []
    for at, fits, is_edge, *values in postgres.reads(connection).read(
        _page(columns, stretch), {**stretch.bound, "limit": limit}
    ):
        if fits:
            found.append(values)
        if is_edge:
            return found, None if limit is not None and len(found) >= limit else at
    return found, None


def _page(columns: str, stretch: Stretch) -> str:
    """What a filter says of a row is asked once: some look names up."""
    source, order, bounded = stretch.source, stretch.order, stretch.size is not None
    rows = source.rows(stretch.values, order=order, bounded=bounded)
    fits = " AND ".join(FILTERS[name] for name in stretch.filters) or ("e.id IS NOT NULL" if source.table else "true")
    if not bounded:
        return (
            f"SELECT {source.key}, true, false, {columns} FROM {rows} WHERE {fits}"  # noqa: S608 - names
            f" ORDER BY {source.key} {order} LIMIT %(limit)s"
        )
    looked_at = (
        f"SELECT {source.key} AS at, ({fits}) IS TRUE AS fits, {source.number} = %(size)s AS is_edge, {columns}"  # noqa: S608
        f" FROM {rows} ORDER BY {source.key} {order} OFFSET 0"
    )
    return f"SELECT * FROM ({looked_at}) z WHERE fits OR is_edge ORDER BY at {order} LIMIT %(limit)s"  # noqa: S608


def worker_standing(worker_id: int, *, tenant_id: UUID) -> WorkerStanding | None:
    """None: nobody ever was this worker, or it serves another tenant alone."""
    for serves, state, heartbeat_at in postgres.reads(connection).read(_WORKER, (worker_id,)):
        if serves in (None, tenant_id):
            return WorkerStanding(heartbeat_at if state in (WorkerState.STOPPED, WorkerState.LOST) else None)
    return None


def tasks_named(pattern: str, *, tenant_id: UUID, most: int) -> list[UUID]:
    """Up to `most` tasks that ever had a name like it."""
    return [task for (task,) in postgres.reads(connection).read(_TASKS_NAMED, (tenant_id, pattern, most))]


def one(identity: UUID, *, tenant_id: UUID) -> Execution | None:
    """One execution with its version."""
    day = ids.scheduled_at(identity)
    found = [] if day is None else with_versions(_EXECUTION.read(_ONE, (day, identity, tenant_id)))
    return found[0] if found else None


def with_versions(executions: list[Execution]) -> list[Execution]:
    """The same, each with the version that it names."""
    if executions:
        wanted = list({execution.task_version_id for execution in executions})
        versions = {version.id: version for version in _VERSION.read(_VERSIONS, (wanted,))}
        for execution in executions:
            execution.task_version = versions[execution.task_version_id]
    return executions


def attempts(of: Execution) -> list[Attempt]:
    return _ATTEMPT.read(_ATTEMPTS, (of.scheduled_at, of.id, of.tenant_id))


def events(of: Execution) -> list[ExecutionEvent]:
    return _EVENT.read(_EVENTS, (of.scheduled_at, of.id, of.tenant_id))


def progress(of: Execution) -> Progress | None:
    return next(iter(_PROGRESS.read(_PROGRESS_OF, (of.id, of.tenant_id))), None)
