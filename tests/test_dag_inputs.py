"""What a node of a run is given: references become values, handlers see parents, parameters and their item."""

import json
from typing import Any

import pytest

from apps.executions import store
from apps.executions.rows import Claimed
from apps.executions.states import Outcome
from apps.worker import dag_inputs
from apps.worker.jobs import Assignment
from apps.worker.versions import Versions
from tests.dag_tools import Runs, node, plan
from tests.runner_tools import assignment, watched
from tests.stack import Ledger

COMMAND = {"type": "command", "argv": ["/bin/echo", "{{ a.result.word }}", "n={{ run.parameters.n }}"]}


@pytest.fixture
def runs(ledger: Ledger) -> Runs:
    return Runs(ledger)


def claim(runs: Runs, run: bytes, name: str) -> tuple[list[Claimed], list[Assignment]]:
    """Claim what waits of a node, as a worker does it; with the assignments as the claimer makes them."""
    identities = sorted(row["id"].bytes for row in runs.executions(run, name, waiting=True))
    runs.begin(identities)
    tokens = [runs.ledger.token(identity) for identity in identities]
    claimed = store.claim(runs.ledger.connection, identities, tokens, worker_id=1)
    assert len(claimed) == len(identities)
    versions = Versions()
    versions.load(runs.ledger.connection, {one.version_id for one in claimed})
    made = [versions.assignment(one) for one in claimed]
    return claimed, dag_inputs.complete(runs.ledger.connection, claimed, made)


def test_references_become_values_in_handler_and_parameters(runs: Runs) -> None:
    version = runs.ledger.define(handler=COMMAND, whole="{{ a.result }}", customer="{{ run.parameters.customer }}")
    run = runs.start(
        plan(runs.ledger, ["a", node("b", version=version)], [("a", "b")]),
        parameters={"n": 7, "customer": {"id": 1}},
    )
    runs.end(run, a={"word": "$(reboot); x"})
    _, [given] = claim(runs, run, "b")
    assert given.handler["argv"] == ["/bin/echo", "$(reboot); x", "n=7"]
    assert json.loads(given.parameters_json or b"") == {"whole": {"word": "$(reboot); x"}, "customer": {"id": 1}}


def test_a_grandparent_may_be_referred_to(runs: Runs) -> None:
    version = runs.ledger.define(handler=COMMAND)
    made = plan(runs.ledger, ["a", "m", node("b", version=version)], [("a", "m"), ("m", "b")])
    run = runs.start(made, parameters={"n": 1})
    runs.end(run, a={"word": "far"})
    runs.end(run, m=1)
    _, [given] = claim(runs, run, "b")
    assert given.handler["argv"][1] == "far"


def test_a_reference_without_a_value_fails_the_execution_for_good(runs: Runs) -> None:
    version = runs.ledger.define(handler=COMMAND)
    run = runs.start(plan(runs.ledger, ["a", node("b", version=version)], [("a", "b")]), parameters={"n": 1})
    runs.end(run, a={"other": 1})
    _, [given] = claim(runs, run, "b")
    assert given.problem is not None
    assert given.problem["permanent"] is True
    assert "a.result.word" in given.problem["message"]
    with watched() as runner:
        (result,) = runner.run(given)
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["type"] == "ReferenceProblem"


def test_a_python_handler_sees_its_parents_the_run_and_its_item(runs: Runs) -> None:
    version = runs.ledger.define(handler={"type": "python", "name": "t.of_run"})
    nodes = ["a", "b", node("m", map_over="a.result.list", version=version, rule="all_done")]
    run = runs.start(plan(runs.ledger, nodes, [("a", "m"), ("b", "m")]), parameters={"n": 7})
    runs.end(run, a={"list": ["x", {"y": 1}]}, b=None)
    claimed, given = claim(runs, run, "m")
    with watched() as runner:
        results = runner.run(*given)
    told: dict[int, Any] = {
        one.dag_item or 0: json.loads(result.result_json or b"null")
        for one, result in zip(claimed, results, strict=True)
    }
    assert [told[item]["item"] for item in (0, 1)] == ["x", {"y": 1}]
    assert [told[item]["index"] for item in (0, 1)] == [0, 1]
    assert told[0]["parents"] == {"a": {"list": ["x", {"y": 1}]}, "b": None}
    assert told[0]["states"] == {"a": "succeeded", "b": "succeeded"}
    assert told[0]["run"]["parameters"] == {"n": 7}


def test_outside_of_runs_nothing_is_read_and_nothing_is_told(runs: Runs) -> None:
    plain = assignment("t.of_run")
    with watched() as runner:
        (result,) = runner.run(plain)
    assert json.loads(result.result_json or b"") == {
        "parents": {},
        "states": {},
        "run": None,
        "item": None,
        "index": None,
    }
