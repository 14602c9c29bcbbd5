"""What nodes of runs are given goes into their assignments: references are put in, the rest is handed over."""

import json
from collections.abc import Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

import psycopg

from apps.executions.dags import handler_references, inputs, references
from apps.executions.dags.inputs import Inputs, Place
from apps.executions.dags.references import ReferenceProblem
from apps.executions.failure import FailureClass
from apps.executions.rows import Claimed
from apps.executions.secret_references import marked
from apps.worker.jobs import Assignment


def complete(
    connection: psycopg.Connection, claimed: Sequence[Claimed], assignments: Sequence[Assignment]
) -> list[Assignment]:
    """The assignments of what was claimed, those of runs completed; others are as they were."""
    of_runs = [n for n, one in enumerate(claimed) if one.dag_run is not None]
    if not of_runs:
        return list(assignments)
    places = [_place(claimed[n], assignments[n]) for n in of_runs]
    done = list(assignments)
    for n, given in zip(of_runs, inputs.read(connection, places), strict=True):
        done[n] = _completed(assignments[n], given)
    return done


def _place(claimed: Claimed, assignment: Assignment) -> Place:
    assert claimed.dag_run is not None
    assert claimed.dag_node is not None
    try:
        names = frozenset(references.nodes_in([assignment.handler, _parameters(assignment)]))
    except ReferenceProblem:
        names = frozenset()  # said when it is resolved
    return Place(claimed.dag_run, claimed.dag_node, claimed.dag_item, names)


def _completed(assignment: Assignment, given: Inputs) -> Assignment:
    try:
        if given.problem is not None:
            raise given.problem
        parameters = assignment.parameters_json
        if parameters and b"{{" in parameters:
            parameters = json.dumps(references.resolve(_parameters(assignment), given.scope)).encode()
        # What results bring along is text, whatever it looks like: only the definition refers to secrets.
        mark, own = "", assignment.handler
        if assignment.secrets or assignment.distant:
            mark = f"#{token_hex(8)}"
            own = marked(own, mark)
        handler = handler_references.resolve(own, given.scope)
    except ReferenceProblem as problem:
        return replace(assignment, problem=_error(problem))
    document = json.dumps(given.document()).encode() if handler.get("type") == "python" else None
    return replace(assignment, handler=handler, parameters_json=parameters, run_json=document, secret_mark=mark)


def _parameters(assignment: Assignment) -> Any:
    return json.loads(assignment.parameters_json) if assignment.parameters_json else {}


def _error(problem: ReferenceProblem) -> dict[str, Any]:
    return {
        "type": "ReferenceProblem",
        "message": str(problem),
        "expression": problem.expression,
        "class": FailureClass.PERMANENT.value,
        "permanent": True,
    }
