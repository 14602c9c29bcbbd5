"""What a DAG's document becomes: a snapshot in the ledger, rows of nodes and edges, task versions of inline nodes."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db.models import Max

from apps.definitions import json_values
from apps.definitions.dags.document import FIELDS, DagDocument
from apps.definitions.dags.edges import names_and_conditions
from apps.definitions.dags.nodes import Node
from apps.definitions.models import Dag, DagEdge, DagNode, Task
from apps.definitions.versions import document_of as task_document_of
from apps.executions.circuits import key_of
from apps.executions.models import DagVersion, TaskVersion
from apps.tenants.identity import new_uuid
from chronoweb.runtime import postgres

_ROWS = 2000
_COLUMNS = tuple(name for name in FIELDS if name != "nodes")
_NODE_COLUMNS = ("position", "definition", "task_id", "version_id", "based_on")
_INSERT_EDGES = """
INSERT INTO dag_edges (dag_id, parent_id, child_id, condition)
SELECT %(dag)s, v.parent, v.child, v.condition::jsonb
FROM unnest(%(parents)s, %(children)s, %(conditions)s) v(parent, child, condition)
"""


def document_of(dag: Dag) -> dict[str, Any]:
    """The document in force, nodes under the names that their tasks have now."""
    stored = DagVersion.objects.values_list("definition", flat=True).get(id=dag.version_id)
    document = {"notifications": dag.notifications, **stored}  # absent from versions of before there were any
    names = dict(DagNode.objects.filter(dag=dag, task__isnull=False).values_list("key", "task__name"))
    document["nodes"] = [
        {**node, "task": names[node["id"]]} if names.get(node["id"]) else node for node in document["nodes"]
    ]
    return document


def put_document(dag: Dag, document: DagDocument) -> None:
    """Take over the fields that are columns; the caller saves."""
    for name in _COLUMNS:
        setattr(dag, name, document.values[name])
    dag.node_count = len(document.nodes)
    dag.edge_count = document.graph.edges


def write_version(dag: Dag, document: DagDocument, *, actor: str) -> None:
    """Snapshot the document as version `dag.version` and name it in the DAG; the caller saves."""
    version = DagVersion.objects.create(
        dag_id=dag.id,
        tenant_id=dag.tenant_id,
        number=dag.version,
        name=dag.name,
        definition=document.values,
        created_by=actor,
    )
    dag.version_id = version.id


def write_graph(dag: Dag, document: DagDocument, tasks: Mapping[str, Task], *, actor: str) -> None:
    """Replace the DAG's nodes and edges; a node keeps its id while it keeps its key. tasks: by name."""
    before = {node.key: node for node in DagNode.objects.filter(dag=dag)}
    stood = {key: _columns(node) for key, node in before.items()}
    rows = [_row(dag, node, position, before, tasks) for position, node in enumerate(document.nodes)]
    _write_own_versions(dag, rows, document.nodes, actor=actor)
    DagEdge.objects.filter(dag=dag).delete()
    kept = {row.key for row in rows}
    DagNode.objects.filter(dag=dag, key__in=[key for key in before if key not in kept]).delete()
    DagNode.objects.bulk_create([row for row in rows if row.key not in before], batch_size=_ROWS)
    changed = [row for row in rows if row.key in before and _columns(row) != stood[row.key]]
    DagNode.objects.bulk_update(changed, _NODE_COLUMNS, batch_size=_ROWS)
    _write_edges(dag, rows, document.nodes)


def _columns(row: DagNode) -> list[Any]:
    return [getattr(row, name) for name in _NODE_COLUMNS]


def _row(dag: Dag, node: Node, position: int, before: Mapping[str, DagNode], tasks: Mapping[str, Task]) -> DagNode:
    row = before.get(node.id) or DagNode(id=new_uuid(), dag=dag, key=node.id)
    row.position = position
    row.definition = {name: value for name, value in node.stored.items() if name != "depends_on"}
    row.task = None if node.task_name is None else tasks[node.task_name]
    return row


def _write_own_versions(dag: Dag, rows: Sequence[DagNode], nodes: Sequence[Node], *, actor: str) -> None:
    """Task versions of what the nodes define themselves; one is written only where it differs from the last."""
    own = [(row, node.task_document) for row, node in zip(rows, nodes, strict=True) if node.task_document is not None]
    for row, node in zip(rows, nodes, strict=True):
        row.based_on = row.task.version_id if row.task is not None and node.task_document is not None else None
        if node.task_document is None:
            row.version_id = None
    standing = TaskVersion.objects.in_bulk([row.version_id for row, _ in own if row.version_id is not None])
    new = []
    for row, document in own:
        old = None if row.version_id is None else standing.get(row.version_id)
        if old is None or old.definition != document:
            new.append((row, document))
    make_own_versions(dag.tenant_id, new, actor=actor)


def make_own_versions(tenant_id: UUID, documents: Sequence[tuple[DagNode, Mapping[str, Any]]], *, actor: str) -> None:
    """A task version for each node; named in the node, which the caller saves."""
    numbers = dict(
        TaskVersion.objects.filter(task_id__in=[row.id for row, _ in documents])
        .values("task_id")
        .annotate(last=Max("number"))
        .values_list("task_id", "last")
    )
    made = TaskVersion.objects.bulk_create(
        [
            TaskVersion(
                task_id=row.id,
                tenant_id=tenant_id,
                number=numbers.get(row.id, 0) + 1,
                name=document["name"],
                definition=document,
                circuit_key=key_of(document["handler"]),
                created_by=actor,
            )
            for row, document in documents
        ],
        batch_size=_ROWS,
    )
    for (row, _), version in zip(documents, made, strict=True):
        row.version_id = version.id


def overriding_document(task: Task, definition: Mapping[str, Any]) -> dict[str, Any]:
    """The task's document in force with what the node says instead."""
    base = task_document_of(task)
    return {**base, **{name: value for name, value in definition.items() if name in base}}


def _write_edges(dag: Dag, rows: Sequence[DagNode], nodes: Sequence[Node]) -> None:
    identities = {row.key: row.id.bytes for row in rows}
    parents: list[bytes] = []
    children: list[bytes] = []
    conditions: list[bytes | None] = []
    for row, node in zip(rows, nodes, strict=True):
        for parent, condition in names_and_conditions(node.stored.get("depends_on", [])):
            parents.append(identities[parent])
            children.append(row.id.bytes)
            conditions.append(None if condition is None else json_values.compact(condition))
    parameters = {
        "dag": dag.id,
        "parents": postgres.uuids(parents),
        "children": postgres.uuids(children),
        "conditions": postgres.texts(conditions),
    }
    postgres.raw(django_connection).execute(_INSERT_EDGES, parameters)
