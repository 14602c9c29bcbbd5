"""Runs of DAGs: what is released when, how nodes and runs end, and what each child is given."""

import pytest

from apps.executions.dags.plan import FailurePolicy
from apps.executions.states import Status
from tests.dag_tools import Runs, node, plan, when
from tests.stack import Ledger

DIAMOND = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]


@pytest.fixture
def runs(ledger: Ledger) -> Runs:
    return Runs(ledger)


def test_a_diamond_runs_in_order_and_each_node_once(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    assert runs.waiting(run) == ["a"]
    runs.end(run, a={"n": 1})
    assert runs.waiting(run) == ["b", "c"]
    runs.end(run, b=1)
    assert runs.waiting(run) == ["c"]
    runs.end(run, c=2)
    assert runs.waiting(run) == ["d"]
    runs.end(run, d=3)
    assert runs.states(run) == dict.fromkeys("abcd", "succeeded")
    assert runs.status(run) == "succeeded"
    assert runs.run(run)["open_nodes"] == 0
    assert [row["status"] for row in runs.executions(run)] == [Status.COMPLETED] * 4


def test_parents_that_end_in_one_batch_release_the_child_once(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "abcd", DIAMOND))
    runs.end(run, a=1)
    runs.end(run, b=1, c=2)
    assert runs.waiting(run) == ["d"]


def test_what_depends_on_a_failure_does_not_run_and_the_rest_does(runs: Runs) -> None:
    made = plan(runs.ledger, ["a", "b", "c", "d", node("clean", rule="one_failed")], [*DIAMOND, ("b", "clean")])
    run = runs.start(made)
    runs.end(run, a=1)
    runs.end(run, b=Status.DEAD_LETTER)
    assert runs.waiting(run) == ["c", "clean"]
    runs.end(run, c=1, clean=1)
    assert runs.states(run) == {
        "a": "succeeded",
        "b": "failed",
        "c": "succeeded",
        "d": "upstream_failed",
        "clean": "succeeded",
    }
    assert runs.status(run) == "partially_completed"


def test_conditions_choose_the_branch_at_run_time(runs: Runs) -> None:
    edges = [
        ("classify", "invoice", when("classify", "equals", "invoice", "$.type")),
        ("classify", "receipt", when("classify", "equals", "receipt", "$.type")),
        ("invoice", "done"),
        ("receipt", "done"),
    ]
    nodes = ["classify", "invoice", "receipt", node("done", rule="none_failed_min_one_success")]
    run = runs.start(plan(runs.ledger, nodes, edges))
    runs.end(run, classify={"type": "receipt"})
    assert runs.waiting(run) == ["receipt"]
    runs.end(run, receipt=1)
    runs.end(run, done=1)
    assert runs.states(run)["invoice"] == "skipped"
    assert runs.status(run) == "succeeded"


def test_fail_all_cancels_what_has_not_run(runs: Runs) -> None:
    made = plan(runs.ledger, "abcd", [("a", "c"), ("b", "d")], policy=FailurePolicy.FAIL_ALL)
    run = runs.start(made)
    runs.end(run, a=Status.DEAD_LETTER)
    assert runs.states(run) == {"a": "failed", "b": "cancelled", "c": "upstream_failed", "d": "cancelled"}
    assert runs.status(run) == "failed"


def test_the_last_failure_under_fail_all_fails_the_run_too(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")], policy=FailurePolicy.FAIL_ALL))
    runs.end(run, a=1)
    runs.end(run, b=Status.DEAD_LETTER)
    assert runs.status(run) == "failed"
