"""A DAG's page: the graph of the version in force, its versions and how they differ, and how to do this elsewhere."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.safestring import SafeString

from apps.console.dags import parameters, strips, svg, words
from apps.console.dags.drawing import draw
from apps.console.dags.listing import schedule_words
from apps.console.dags.nodes import NodeView
from apps.console.dags.parameters import Field
from apps.console.dags.run_page import Folding
from apps.console.dags.strips import Mark
from apps.definitions.confidential import masked_dag
from apps.definitions.dags import selectors
from apps.definitions.dags.differences import differences
from apps.definitions.dags.edges import names_and_conditions
from apps.definitions.dags.files import write
from apps.definitions.models import Dag
from apps.executions.models import DagVersion
from apps.tenants.principal import Principal

_VERSIONS = 10
_LINES = 12
_SHOWN_AS_YAML = 100
"""Nodes; the text of larger ones is an address of its own, for writing YAML takes long."""


@dataclass(frozen=True)
class Change:
    """One version. lines: how it differs from the one before, as (sign, words)."""

    version: DagVersion
    lines: list[tuple[str, str]]
    left_out: int


@dataclass(frozen=True)
class Picture:
    """A graph, as `_graph.html` shows it. width, height: pixels at its natural size."""

    boxes: SafeString
    edges: SafeString
    width: float
    height: float
    is_folded: bool
    may_fold: bool


@dataclass(frozen=True)
class Definition:
    """What `dag.html` shows."""

    dag: Dag
    schedule: str
    repeats: bool
    """Whether its schedule has occurrences that a backfill could fill in."""
    marks: list[Mark]
    picture: Picture
    changes: list[Change]
    fields: list[Field]
    yaml: str
    curl: str


def read(principal: Principal, dag: Dag, folding: Folding, *, now: datetime, origin: str) -> Definition:
    """Three queries. The document is shown as the principal's role may see it."""
    rows = selectors.versions(principal, dag.id).defer(None)[: _VERSIONS + 1]
    versions = list(rows)
    document = masked_dag(versions[0].definition, role=principal.role)
    nodes = document["nodes"]
    return Definition(
        dag=dag,
        repeats=dag.schedule.get("type") in ("cron", "interval"),
        schedule=schedule_words(dag),
        marks=strips.of_dags(principal, [dag.id], now=now)[dag.id],
        picture=picture(nodes, folding),
        changes=_changes(principal, versions),
        fields=parameters.form_of(dag),
        yaml=write(document) if len(nodes) <= _SHOWN_AS_YAML else "",
        curl=_curl(dag, origin),
    )


def picture(nodes: Sequence[Mapping[str, Any]], folding: Folding) -> Picture:
    """The graph of a document's nodes."""
    at = {node["id"]: position for position, node in enumerate(nodes)}
    found = [
        ((at[parent], child), condition)
        for child, node in enumerate(nodes)
        for parent, condition in names_and_conditions(node.get("depends_on", []))
    ]
    titles = {edge: words.condition(condition) for edge, condition in found if condition}
    drawn = draw(len(nodes), [edge for edge, _ in found], folded=folding.folded, opened=folding.opened)
    views = {position: _view(position, node) for position, node in enumerate(nodes)}
    return Picture(
        boxes=svg.boxes(drawn.boxes(views, {}), of_run=False),
        edges=svg.edges(drawn.edges({}, titles)),
        width=drawn.layout.width,
        height=drawn.layout.height,
        is_folded=drawn.is_folded,
        may_fold=drawn.may_fold,
    )


def _view(at: int, node: Mapping[str, Any]) -> NodeView:
    name = f"{node['id']} × n" if node.get("map_over") else str(node["id"])
    return NodeView(at, str(node["id"]), name, "defined", (0, 0), _runs(node))


def _runs(node: Mapping[str, Any]) -> str:
    """What a node runs, in a line."""
    if node.get("approval") is not None:
        return "a person decides"
    if node.get("task"):
        return f"task {node['task']}"
    handler = node.get("handler") or {}
    kind = str(handler.get("type", ""))
    if kind == "python":
        return str(handler.get("name", kind))
    argv = handler.get("argv")
    what = handler.get("url") or handler.get("image") or (" ".join(map(str, argv)) if isinstance(argv, list) else "")
    return f"{kind} {what}".strip()


def _changes(principal: Principal, versions: list[DagVersion]) -> list[Change]:
    """The last of `versions` is only there to be compared with."""
    made = []
    for at, version in enumerate(versions[:_VERSIONS]):
        lines: list[tuple[str, str]] = []
        if at + 1 < len(versions):
            before, after = (masked_dag(v.definition, role=principal.role) for v in (versions[at + 1], version))
            lines = [(text[0], text[2:]) for text in (one.line() for one in differences(before, after))]
        made.append(Change(version, lines[:_LINES], max(0, len(lines) - _LINES)))
    return made


def _curl(dag: Dag, origin: str) -> str:
    body = shlex.quote(json.dumps({"parameters": dag.parameters}, ensure_ascii=False))
    return (
        f"curl -X POST {origin}/api/v1/dags/{dag.id}/trigger \\\n"
        '  -H "Authorization: Bearer $CHRONOWEB_API_KEY" -H "Content-Type: application/json" \\\n'
        f"  -d {body}"
    )
