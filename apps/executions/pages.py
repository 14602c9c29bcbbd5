"""The statements of the ledger's pages for people and programs. Each names its tenant; what calls them is selectors.py.

They are the most frequent reading of the ledger, so they are prepared, and their text depends on nothing but which
filters there are.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from apps.executions import ids
from apps.executions.models import Attempt, Execution, ExecutionEvent, Progress, TaskVersion
from chronoweb.runtime import postgres
from chronoweb.runtime.rows import Rows

_EXECUTION = Rows(Execution)
_LISTED = Rows(
    Execution,
    without=(
        *("wake_at", "dispatched_at", "overlap", "slot_key", "queue_seconds", "route_id"),
        *("dag_node", "dag_item", "dag_generation", "traceparent"),
    ),
)
"""What lists say of each."""
_VERSION = Rows(TaskVersion)
_ATTEMPT = Rows(Attempt)
_EVENT = Rows(ExecutionEvent)
_PROGRESS = Rows(Progress)

# scheduled_at chooses the partitions. The same bounds on the id make the index whose order is the page's order the
# better choice even where statistics are missing: else a day's rows are read and sorted for one page.
_BOUNDS = """
FROM executions e
WHERE e.tenant_id = %(tenant)s AND e.scheduled_at >= %(since)s AND e.scheduled_at < %(until)s
    AND e.id >= %(lowest)s AND e.id < %(highest)s
"""
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
    # No index on executions names the status; two states have small tables of their own.
    "active": "e.id IN (SELECT o.execution_id FROM outstanding o WHERE o.tenant_id = %(tenant)s)",
    "dead": "e.id IN (SELECT d.execution_id FROM dead_letters d WHERE d.tenant_id = %(tenant)s)",
    "tasks": "e.task_id = ANY(%(tasks)s)",
    "named": "e.task_version_id IN (SELECT v.id FROM task_versions v"
    " WHERE v.tenant_id = %(tenant)s AND upper(v.name) LIKE upper(%(named)s))",
    "classes": "e.class = ANY(%(classes)s)",
    "error_type": "e.error ->> 'type' = %(error_type)s",
    "worker": "e.worker_id = %(worker)s",
    "holds": "e.hold = ANY(%(holds)s)",
    "made_by": "e.created_at <= %(made_by)s",
    "below": "e.id < %(below)s",
    "above": "e.id > %(above)s",
}


def containing(text: str) -> str:
    """The pattern of LIKE for what has this text somewhere."""
    return "%" + re.sub(r"([\\%_])", r"\\\1", text) + "%"


def page(
    filters: Sequence[str], values: dict[str, Any], *, since: datetime, until: datetime, descending: bool, limit: int
) -> list[Execution]:
    """Up to `limit` executions with scheduled_at from `since` until before `until`, by id. filters: names of FILTERS.

    Their versions are not there yet: with_versions.
    """
    query, bounds = _page(_LISTED.columns("e"), filters, since=since, until=until, descending=descending)
    return _LISTED.read(query, {**values, **bounds, "limit": limit})


def page_of_ids(
    filters: Sequence[str],
    values: dict[str, Any],
    *,
    since: datetime,
    until: datetime,
    descending: bool,
    limit: int | None,
) -> list[UUID]:
    """The ids of the same; of all that are found where limit is None."""
    query, bounds = _page("e.id", filters, since=since, until=until, descending=descending)
    found = postgres.reads(connection).read(query, {**values, **bounds, "limit": limit})
    return [identity for (identity,) in found]


def _page(
    columns: str, filters: Sequence[str], *, since: datetime, until: datetime, descending: bool
) -> tuple[str, dict[str, Any]]:
    """The statement, and the values that its bounds name."""
    conditions = "".join(f" AND {FILTERS[name]}" for name in filters)
    order = "DESC" if descending else "ASC"
    query = f"SELECT {columns} {_BOUNDS}{conditions} ORDER BY e.id {order} LIMIT %(limit)s"
    return query, {"since": since, "until": until, "lowest": ids.lowest(since), "highest": ids.lowest(until)}


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
