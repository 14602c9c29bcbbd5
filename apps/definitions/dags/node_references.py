"""References in what the nodes of a DAG run: each must lead to a node that has ended by then."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from apps.definitions import graph
from apps.definitions.dags.nodes import Node
from apps.executions.dags import references
from apps.executions.dags.plan import NodeKind
from chronoweb.runtime.errors import InvalidInput

_MOST_ERRORS = 100


def wrong_references(
    nodes: Sequence[Node], built: graph.Graph, tasks: Mapping[str, Mapping[str, Any]]
) -> list[InvalidInput]:
    """What does not parse, names no node above, or asks for an item where nothing is mapped; pointers as graph's.

    A reference in a task that a node refers to is told at the node.
    """
    errors: list[InvalidInput] = []
    positions = {node.id: position for position, node in enumerate(nodes)}
    above: list[int] | None = None
    for position, node in enumerate(nodes):
        for pointer, reference in _references(node, tasks, errors, position):
            at = f"/{position}{pointer}"
            name, shown = reference.node, f"{{{{ {reference.expression} }}}}"
            if name is None:
                if reference.steps[0] in ("item", "index") and node.kind is not NodeKind.MAPPED:
                    errors.append(InvalidInput(at, shown, "stands in a node without map_over", references.LEGAL))
                continue
            source = positions.get(name)
            if source is None:
                legal = graph.unknown(name, [one.id for one in nodes])
                errors.append(InvalidInput(at, shown, f"reads {name}, which is no node of this DAG", legal))
            elif source not in built.parents[position]:
                above = graph.ancestors(built) if above is None else above
                if not above[position] >> source & 1:
                    problem = f"reads {name}, which need not have ended before {node.id} begins"
                    errors.append(InvalidInput(at, shown, problem, f"a node that {node.id} depends on"))
        if len(errors) >= _MOST_ERRORS:
            break
    return errors


def _references(
    node: Node, tasks: Mapping[str, Mapping[str, Any]], errors: list[InvalidInput], position: int
) -> Iterator[tuple[str, references.Reference]]:
    document = node.task_document
    base = tasks.get(node.stored.get("task", ""))
    runs = document or base or {}
    for field in ("handler", "parameters"):
        pointer = f"/{field}" if field in node.stored else "/task"
        if node.kind is NodeKind.APPROVAL:
            pointer = "/approval"
        for below, expression in references.find(runs.get(field)):
            at = pointer + (below if pointer != "/task" else "")
            try:
                yield at, references.parse(expression)
            except references.ReferenceProblem as problem:
                shown = f"{{{{ {expression} }}}}"
                errors.append(InvalidInput(f"/{position}{at}", shown, problem.problem, references.LEGAL))
