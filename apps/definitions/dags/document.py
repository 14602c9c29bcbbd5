"""A DAG's document, read as a whole before anything is saved: every error told at once, defaults filled in.

    {"name": "document-processing", "schedule": {"type": "manual"}, "failure_policy": "skip_downstream", …,
     "nodes": [{"id": "classify", "handler": {…}}, {"id": "invoice", "task": "read-invoice", "depends_on": […]}]}

`dag` may stand for `name` and `tasks` for `nodes`; a handler may be the name of a Python handler alone.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from apps.definitions import graph
from apps.definitions.dags import parameters_schema
from apps.definitions.dags.node_references import wrong_references
from apps.definitions.dags.nodes import FIELDS as NODE_FIELDS
from apps.definitions.dags.nodes import Node, NodeReader
from apps.definitions.models import OVERLAP_POLICIES
from apps.definitions.notifications import read_notifications
from apps.definitions.reading import OWN
from apps.definitions.schedules import Schedule
from apps.definitions.validation import (
    DESCRIPTION_CHARACTERS,
    MAX_CATCHUP_SECONDS,
    ScheduleReader,
    check_parameters,
)
from apps.executions.dags.plan import FailurePolicy
from chronoweb.runtime.errors import InvalidInput, InvalidInputs
from chronoweb.runtime.outbound import Resolve, system_resolve

FIELDS = (
    *("name", "description", "tags", "schedule", "strict_timing", "catchup_seconds", "overlap_policy"),
    *("max_active_runs", "run_timeout_seconds", "failure_policy", "parameters", "parameters_schema"),
    *("notifications", "nodes"),
)
"""In the order in which the API and files show them."""
SPELLINGS = {"dag": "name", "tasks": "nodes"}
DEFAULTS: dict[str, Any] = {
    "description": "",
    "tags": [],
    "schedule": {"type": "manual"},
    "strict_timing": False,
    "catchup_seconds": 3600,
    "overlap_policy": "skip",
    "max_active_runs": None,
    "run_timeout_seconds": None,
    "failure_policy": FailurePolicy.SKIP_DOWNSTREAM.word,
    "parameters": {},
    "parameters_schema": None,
    "notifications": {},
}
POLICIES = tuple(policy.word for policy in FailurePolicy)
SCHEDULE_FIELDS = tuple(Schedule.__dataclass_fields__)
_FIRST = ("id", "task", "handler", "approval", "map_over", "parameters", "depends_on", "trigger_rule")
NODE_ORDER = (*_FIRST, *(name for name in NODE_FIELDS if name not in _FIRST))
MOST_ACTIVE_RUNS = 10_000
LONGEST_RUN_SECONDS = 90 * 86_400
_MOST_ERRORS = 100
_HINTS = OWN | dict.fromkeys(
    ("edges", "dependencies", "depends_on"), '; each node names what it waits for, such as "depends_on": ["load"]'
)

Tasks = Mapping[str, Mapping[str, Any]]
"""The documents of tasks by the words (names, ids) that nodes use for them."""


@dataclass(frozen=True)
class DagDocument:
    """values: every field of FIELDS. nodes: as read, in the document's order. graph: their edges."""

    values: dict[str, Any]
    nodes: list[Node]
    graph: graph.Graph


def read_dag(
    data: Any,
    *,
    now: datetime,
    find_tasks: Callable[[Iterable[str]], Tasks],
    before: Mapping[str, Any] | None = None,
    resolve: Resolve = system_resolve,
) -> DagDocument:
    """The document, checked. find_tasks: the tenant's tasks of these names or ids.

    before: the document in force, when it is an edit: its schedule, if unchanged, is not judged anew.
    Raises InvalidInputs; pointers are those of `data` as it was given ("/tasks/3/depends_on/0").
    """
    given, spelt = _respelt(data)
    reader = ScheduleReader(
        given, what="a DAG", fields=FIELDS, required=("name", "nodes"), defaults=DEFAULTS, hints=_HINTS
    )
    values = _plain_values(reader, now, before)
    errors = reader.errors
    whole = all(error.pointer for error in errors)  # else what is wrong is the document, such as its depth
    nodes, built = _nodes(reader.get("nodes") if whole else None, str(values["name"]), now, find_tasks, resolve, errors)
    if errors:
        raise InvalidInputs([_spelt(error, spelt) for error in errors[:_MOST_ERRORS]])
    assert built is not None
    return DagDocument({**values, "nodes": [node.stored for node in nodes]}, nodes, built)


def _respelt(data: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The document in chronoweb's own words, and which other words it used."""
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "a DAG is a JSON object", ", ".join(FIELDS))])
    refuse_both_spellings(data)
    spelt = {own: other for other, own in SPELLINGS.items() if other in data}
    return {SPELLINGS.get(str(name), str(name)): value for name, value in data.items()}, spelt


def refuse_both_spellings(data: Mapping[str, Any]) -> None:
    """Raise InvalidInputs where a field is given under both its names."""
    both = [other for other, own in SPELLINGS.items() if other in data and own in data]
    if both:
        raise InvalidInputs(
            [InvalidInput(f"/{name}", None, f"means the same as {SPELLINGS[name]}", "one of them") for name in both]
        )


def _plain_values(reader: ScheduleReader, now: datetime, before: Mapping[str, Any] | None) -> dict[str, Any]:
    values = {
        "name": reader.name(),
        "description": reader.text("description", DESCRIPTION_CHARACTERS),
        "tags": reader.tags(),
        "schedule": reader.kept("schedule", before) or reader.schedule(now),
        "strict_timing": reader.boolean("strict_timing"),
        "catchup_seconds": reader.whole("catchup_seconds", 0, MAX_CATCHUP_SECONDS),
        "overlap_policy": reader.choice("overlap_policy", OVERLAP_POLICIES),
        "max_active_runs": reader.whole("max_active_runs", 1, MOST_ACTIVE_RUNS),
        "run_timeout_seconds": reader.whole("run_timeout_seconds", 1, LONGEST_RUN_SECONDS),
        "failure_policy": reader.choice("failure_policy", POLICIES),
        "parameters": reader.get("parameters"),
        "parameters_schema": reader.get("parameters_schema"),
        "notifications": reader.nested("notifications", read_notifications),
    }
    reader.errors += _parameter_errors(values)
    return values


def _parameter_errors(values: Mapping[str, Any]) -> list[InvalidInput]:
    parameters, schema = values["parameters"], values["parameters_schema"]
    if parameters is not None and (error := check_parameters(parameters, "/parameters")):
        return [error]
    if schema is None:
        return []
    if problem := parameters_schema.schema_problem(schema):
        return [_below("/parameters_schema", problem)]
    if (values["schedule"] or {}).get("type") in ("manual", "event"):
        return []  # a trigger may bring what is missing
    return [_below("/parameters", error) for error in parameters_schema.misfits(schema, parameters)]


def _nodes(
    data: Any,
    dag_name: str,
    now: datetime,
    find_tasks: Callable[[Iterable[str]], Tasks],
    resolve: Resolve,
    errors: list[InvalidInput],
) -> tuple[list[Node], graph.Graph | None]:
    if data is None:
        return [], None
    if not isinstance(data, list):
        errors.append(InvalidInput("/nodes", data, "must be a list of nodes", "a list of objects"))
        return [], None
    named = {n["task"] for n in data if isinstance(n, Mapping) and isinstance(n.get("task"), str)}
    node_reader = NodeReader(dag_name=dag_name, tasks=find_tasks(named), now=now, resolve=lru_cache(1000)(resolve))
    nodes: list[Node] = []
    for position, given in enumerate(data[: graph.MOST_NODES + 1]):
        found: list[InvalidInput] = []
        node = node_reader.read(given, found)
        errors += [_below(f"/nodes/{position}", error) for error in found]
        if node is not None:
            nodes.append(node)
        if len(errors) >= _MOST_ERRORS:
            break
    if errors:
        return nodes, None
    try:
        built = graph.build([node.id for node in nodes], [node.edges.names for node in nodes])
    except InvalidInputs as several:
        errors += [_below("/nodes", error) for error in several.errors]
        return nodes, None
    errors += [_below("/nodes", error) for error in wrong_references(nodes, built, node_reader.tasks)]
    return nodes, built


def _below(pointer: str, error: InvalidInput) -> InvalidInput:
    return InvalidInput(pointer + error.pointer, error.value, error.problem, error.legal)


def _spelt(error: InvalidInput, spelt: Mapping[str, str]) -> InvalidInput:
    _, first, *rest = error.pointer.split("/") if error.pointer else ("", "")
    pointer = "/".join(["", spelt.get(first, first), *rest]) if first else error.pointer
    return InvalidInput(pointer, error.value, error.problem, error.legal)


def sparse(values: Mapping[str, Any]) -> dict[str, Any]:
    """The document without what is default: what files hold and people compare."""
    schedule = {name: values["schedule"][name] for name in SCHEDULE_FIELDS if values["schedule"].get(name) is not None}
    shown = {name: values[name] for name in FIELDS if name in values and values[name] != DEFAULTS.get(name)}
    shown["nodes"] = [_in_order(node) for node in values["nodes"]]
    if schedule.get("type") == "manual":
        shown.pop("schedule", None)
    elif "schedule" in shown:
        usual = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}
        shown["schedule"] = {name: value for name, value in schedule.items() if usual.get(name) != value}
    return shown


def _in_order(node: Mapping[str, Any]) -> dict[str, Any]:
    """As people write a node, whatever order it was stored in."""
    shown = {name: node[name] for name in NODE_ORDER if name in node}
    if isinstance(shown.get("handler"), Mapping):
        handler = shown["handler"]
        shown["handler"] = {"type": handler["type"], **handler}
    if "depends_on" in shown:
        shown["depends_on"] = [
            edge
            if isinstance(edge, str)
            else {
                "node": edge["node"],
                "condition": {name: edge["condition"][name] for name in ("path", "op", "value")},
            }
            for edge in shown["depends_on"]
        ]
    return shown
