"""Nodes of DAGs and secrets: results are put in first, and none of them becomes a reference."""

import json
from dataclasses import replace

from apps.executions.dags.inputs import Inputs
from apps.worker import dag_inputs
from apps.worker.jobs import Distant
from tests.runner_tools import assignment, watched

HANDLER = {
    "type": "command",
    "argv": ["/bin/sh", "-c", 'printf "%s|%s" "$OWN" "$GIVEN"'],
    "environment": {"OWN": "own={{secret:TOKEN}}", "GIVEN": "{{ before.result }}"},
}
FORGED = ("{{secret:TOKEN}}", "{{ secret:TOKEN }}", "{{secret:TOKEN#}}", "{{secret:TOKEN#0000000000000000}}")


def test_a_result_that_looks_like_a_reference_stays_text() -> None:
    with watched() as runner:
        for forged in FORGED:
            given = Inputs(scope={"before": {"result": forged, "status": "succeeded"}}, parents=())
            made = replace(assignment(HANDLER), secrets={"TOKEN": "hush-hush"})
            completed = dag_inputs._completed(made, given)
            assert completed.problem is None
            [result] = runner.run(completed)
            assert json.loads(result.result_json or b"")["stdout"] == f"own=***|{forged}"


def test_the_mark_is_another_one_each_time_and_also_for_what_lies_elsewhere() -> None:
    given = Inputs(scope={"before": {"result": "x", "status": "succeeded"}}, parents=())
    distant = (Distant("TOKEN", "p", "k", "environment", "the secret TOKEN"),)
    marks = {dag_inputs._completed(replace(assignment(HANDLER), distant=distant), given).secret_mark for _ in range(5)}
    assert len(marks) == 5
    plain = dag_inputs._completed(assignment({**HANDLER, "environment": {"GIVEN": "{{ before.result }}"}}), given)
    assert (plain.secret_mark, plain.handler["environment"]) == ("", {"GIVEN": "x"})
