"""What changes from one version of a DAG to another, for people and programs. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from apps.definitions import json_values
from apps.definitions.dags.document import sparse

_SHOWN = 200


@dataclass(frozen=True)
class Difference:
    """pointer: into the document, nodes by id ("/nodes/classify/handler/name"). change: added, removed, changed."""

    pointer: str
    change: str
    before: Any = None
    after: Any = None

    def to_json(self) -> dict[str, Any]:
        return {"pointer": self.pointer, "change": self.change, "before": self.before, "after": self.after}

    def line(self) -> str:
        """As `dag apply` prints it."""
        if self.change == "added":
            return f"+ {self.pointer}: {_short(self.after)}"
        if self.change == "removed":
            return f"- {self.pointer}: {_short(self.before)}"
        return f"~ {self.pointer}: {_short(self.before)} → {_short(self.after)}"


def differences(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[Difference]:
    """From document to document (before None: there was none), in the document's order; defaults are not told."""
    return list(_between("", _by_node(before), _by_node(after)))


def values_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """Between any two JSON objects, field by field."""
    return list(_between("", before, after))


def _by_node(document: Mapping[str, Any] | None) -> dict[str, Any]:
    if document is None:
        return {}
    shown = sparse(document)
    shown["nodes"] = {node["id"]: _readable(node) for node in shown.get("nodes", [])}
    return shown


def _readable(node: Mapping[str, Any]) -> dict[str, Any]:
    """Edges by their parents, so that one more does not look like a change of the others."""
    edges = {
        (edge if isinstance(edge, str) else edge["node"]): (True if isinstance(edge, str) else edge["condition"])
        for edge in node.get("depends_on", [])
    }
    rest = {name: value for name, value in node.items() if name not in ("id", "depends_on")}
    return {**rest, "depends_on": edges} if edges else rest


def _between(pointer: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys([*after, *before]):
        at = f"{pointer}/{json_values.escape(str(name))}"
        if name not in before:
            if pointer == "" and name == "nodes" and isinstance(after[name], Mapping):
                yield from _between(at, {}, after[name])
            else:
                yield Difference(at, "added", after=after[name])
        elif name not in after:
            yield Difference(at, "removed", before=before[name])
        elif isinstance(before[name], Mapping) and isinstance(after[name], Mapping):
            yield from _between(at, before[name], after[name])
        elif json_values.canonical(before[name]) != json_values.canonical(after[name]):
            yield Difference(at, "changed", before[name], after[name])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
