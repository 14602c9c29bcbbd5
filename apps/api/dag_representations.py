"""How the API shows DAGs, their versions and backfills."""

from collections.abc import Mapping
from typing import Any

from apps.api.representations import moment
from apps.definitions.confidential import masked_dag
from apps.definitions.dags import differences as comparing
from apps.definitions.dags.versions import document_of
from apps.definitions.models import Backfill, Dag
from apps.definitions.scheduling import next_run
from apps.executions.models import DagVersion
from apps.tenants.models import Role
from chronoweb.runtime.clock import SYSTEM_CLOCK


def dag(row: Dag, *, role: Role) -> dict[str, Any]:
    return {"id": str(row.id), **document(document_of(row), role=role), **_standing(row)}


def dag_line(row: Dag, *, role: Role) -> dict[str, Any]:
    """As a list shows it: without nodes, so every role sees the same."""
    return {
        "id": str(row.id),
        "name": row.name,
        "description": row.description,
        "tags": row.tags,
        "schedule": row.schedule,
        "nodes": row.node_count,
        "edges": row.edge_count,
        **_standing(row),
    }


def _standing(row: Dag) -> dict[str, Any]:
    return {
        "version": row.version,
        "paused_at": moment(row.paused_at),
        "paused_note": row.paused_note,
        "next_fire_at": moment(next_run(row, now=SYSTEM_CLOCK.now())),
        "waiting_since": moment(row.waiting_since),
        "created_at": moment(row.created_at),
        "updated_at": moment(row.updated_at),
    }


document = masked_dag


def version_line(row: DagVersion) -> dict[str, Any]:
    return {"number": row.number, "created_at": moment(row.created_at), "created_by": row.created_by}


def version(row: DagVersion, *, role: Role) -> dict[str, Any]:
    return {**version_line(row), "definition": document(row.definition, role=role)}


def differences(before: Mapping[str, Any], after: Mapping[str, Any], *, role: Role) -> list[dict[str, Any]]:
    found = comparing.differences(document(before, role=role), document(after, role=role))
    return [difference.to_json() for difference in found]


def backfill(row: Backfill) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "task_id": None if row.task_id is None else str(row.task_id),
        "dag_id": None if row.dag_id is None else str(row.dag_id),
        "start": moment(row.start_at),
        "end": moment(row.end_at),
        "order": "newest_first" if row.newest_first else "oldest_first",
        "at_once": row.at_once,
        "parameters": row.parameters,
        "state": row.state,
        "total": row.total,
        "made": row.made,
        "under_way": len(row.under_way),
        "created_at": moment(row.created_at),
        "created_by": row.created_by,
        "ended_at": moment(row.ended_at),
    }
