"""depends_on and conditions of one node, in every form that people write them, turned into one.

    depends_on: [fetch, {node: classify, condition: {path: "$.type", equals: invoice}}]
    condition: {field: classify.result.type, equals: invoice}        # of the edge from classify
    condition: {parent: classify, path: "$.type", op: equals, value: invoice}

Stored: a parent's id, or `{"node": id, "condition": {"path": …, "op": …, "value": …}}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.executions.dags import conditions, references
from chronoweb.runtime.errors import InvalidInput, InvalidInputs

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FORMS = '{"field": "node.result.path", "equals": …} or {"parent": …, "path": "$.path", "op": …, "value": …}'
_EDGE = 'a node\'s id, or {"node": id, "condition": {"path": "$.path", "equals": …}}'


@dataclass(slots=True)
class Edges:
    """names: the parents as given, for messages about places; conditions: parent → path, op and value."""

    names: list[str] = field(default_factory=list)
    conditions: dict[str, dict[str, Any]] = field(default_factory=dict)

    def to_json(self) -> list[Any]:
        """The stored form, each parent once."""
        return [
            {"node": name, "condition": self.conditions[name]} if name in self.conditions else name
            for name in dict.fromkeys(self.names)
        ]


def read(depends_on: Any, condition: Any, errors: list[InvalidInput]) -> Edges:
    """The edges into a node. What is wrong goes to `errors`, pointers relative to the node."""
    edges = Edges()
    if depends_on is not None and not isinstance(depends_on, list):
        errors.append(InvalidInput("/depends_on", depends_on, "must be a list of nodes", f"a list of: {_EDGE}"))
        return edges
    for place, given in enumerate(depends_on or ()):
        at = f"/depends_on/{place}"
        if isinstance(given, str):
            edges.names.append(given)
        elif isinstance(given, Mapping) and isinstance(given.get("node"), str) and set(given) <= {"node", "condition"}:
            edges.names.append(given["node"])
            if given.get("condition") is not None:
                _put(edges, f"{at}/condition", given["condition"], given["node"], errors)
        else:
            edges.names.append("")
            errors.append(InvalidInput(at, given, "is no edge", _EDGE))
    several = condition if isinstance(condition, list) else [] if condition is None else [condition]
    for place, given in enumerate(several):
        at = f"/condition/{place}" if isinstance(condition, list) else "/condition"
        _put(edges, at, given, None, errors)
    return edges


def names_and_conditions(stored: list[Any]) -> list[tuple[str, dict[str, Any] | None]]:
    """The parents of a stored node, each with its condition in the canonical form (conditions.py)."""
    return [
        (edge, None) if isinstance(edge, str) else (edge["node"], {"parent": edge["node"], **edge["condition"]})
        for edge in stored
    ]


def _put(edges: Edges, at: str, given: Any, parent: str | None, errors: list[InvalidInput]) -> None:
    try:
        read_condition = _condition(given, parent)
    except InvalidInput as error:
        found = [error]
    except InvalidInputs as several:
        found = several.errors
    else:
        name = read_condition.pop("parent")
        if name not in edges.names:
            legal = ", ".join(edges.names) or "a node that depends_on names"
            errors.append(InvalidInput(at, name, "is a condition on a node that depends_on does not name", legal))
        elif edges.conditions.setdefault(name, read_condition) != read_condition:
            errors.append(InvalidInput(at, name, "is a second condition on the same edge", "one condition an edge"))
        return
    errors += [InvalidInput(f"{at}{e.pointer}", e.value, e.problem, e.legal) for e in found]


def _condition(given: Any, parent: str | None) -> dict[str, Any]:
    """The canonical form. parent: whose edge it stands on; None where the condition must say so."""
    if not isinstance(given, Mapping):
        raise InvalidInput("", given, "is no condition", _FORMS)
    rest = dict(given)
    if "field" in rest:
        rest["parent"], rest["path"] = _of_field(rest.pop("field"), parent)
    elif parent is not None:
        if rest.setdefault("parent", parent) != parent:
            raise InvalidInput("/parent", rest["parent"], "is another node than the edge's", parent)
    elif "parent" not in rest:
        raise InvalidInput("", given, "does not say which node's result it looks at", _FORMS)
    written = [name for name in conditions.OPERATORS if name in rest]
    if "op" not in rest:
        if len(written) != 1:
            problem = f"has {len(written)} operators"
            raise InvalidInput("", given, problem, "exactly one of " + ", ".join(conditions.OPERATORS))
        rest["op"], rest["value"] = written[0], rest.pop(written[0])
        return _renamed(rest, written[0])
    if rest["op"] == "exists":
        rest.setdefault("value", True)
    return conditions.parse(rest)


def _renamed(condition: dict[str, Any], operator: str) -> dict[str, Any]:
    """Parsed; what is wrong with the value is told where it was written."""
    try:
        return conditions.parse(condition)
    except InvalidInputs as several:
        raise InvalidInputs(
            [
                InvalidInput(
                    f"/{operator}" if e.pointer in ("/value", "/op") else e.pointer, e.value, e.problem, e.legal
                )
                for e in several.errors
            ]
        ) from None


def _of_field(text: Any, parent: str | None) -> tuple[str, str]:
    """`classify.result.type` as the node and the JSONPath `$.type`."""
    legal = "node.result.path, such as classify.result.type"
    if not isinstance(text, str):
        raise InvalidInput("/field", text, "is not a text", legal)
    try:
        steps = references.parse(text).steps
    except references.ReferenceProblem as problem:
        raise InvalidInput("/field", text, problem.problem, legal) from None
    if "|" in text or steps[0] in references.RESERVED or steps[1] != "result":
        raise InvalidInput("/field", text, "is not a node's result", legal)
    if parent is not None and steps[0] != parent:
        raise InvalidInput("/field", text, "looks at another node than the edge's", f"{parent}.result.path")
    return str(steps[0]), "$" + "".join(map(_path_step, steps[2:]))


def _path_step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    quoted = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{quoted}']"
