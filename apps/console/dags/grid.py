"""Runs × nodes: a column a run, a row a node, one letter a cell. The page draws only the rows in sight."""

from typing import Any

from apps.console.dags import strips, words
from apps.console.dags.strips import Mark
from apps.executions.dags.models import RunNode
from apps.executions.dags.plan import NodeKind
from apps.executions.dags.states import NodeState
from apps.executions.states import Status
from apps.tenants.principal import Principal

RUNS = 25
LETTERS = {
    NodeState.PENDING: "p",
    NodeState.ACTIVE: "a",
    NodeState.SUCCEEDED: "s",
    NodeState.FAILED: "f",
    NodeState.SKIPPED: "k",
    NodeState.UPSTREAM_FAILED: "u",
    NodeState.CANCELLED: "c",
}
_ASKS = "w"
_NONE = "-"


def read(principal: Principal, names: list[str], marks: list[Mark]) -> dict[str, Any]:
    """names: of the version in force; rows of nodes that only older versions had come behind. One query."""
    columns = {mark.id: at for at, mark in enumerate(marks)}
    rows = RunNode.objects.filter(run_id__in=columns)
    if marks:
        rows = rows.filter(scheduled_at__gte=min(m.at for m in marks) - strips.BACK)
    found: dict[str, list[str]] = {name: [_NONE] * len(marks) for name in names}
    for run, name, state, kind in rows.values_list("run_id", "node_id", "state", "kind") if marks else ():
        asks = kind == NodeKind.APPROVAL and state == NodeState.ACTIVE
        letter = _ASKS if asks else LETTERS[NodeState(state)]
        found.setdefault(name, [_NONE] * len(marks))[columns[run]] = letter
    known = set(names)
    return {
        "states": {_ASKS: Status.WAITING.word} | {letter: words.of_node(s, None) for s, letter in LETTERS.items()},
        "runs": [
            {"id": str(m.id), "state": m.state, "title": m.title, "at": m.at.isoformat(), "version": m.version}
            for m in marks
        ],
        "nodes": [{"name": name, "cells": "".join(cells), "gone": name not in known} for name, cells in found.items()],
    }
