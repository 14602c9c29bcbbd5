"""Whoever ends an attempt dies at a random statement of the transaction that ends it: nothing is half done."""

import random
from typing import Any

import psycopg
import pytest

from apps.executions import store
from apps.executions.dags.completion import finish_of_runs
from apps.executions.states import Outcome
from chronoweb.runtime import postgres
from tests.dag_tools import WORKER, Runs, node, plan
from tests.stack import Ledger

DEATHS = 200


class Death(Exception):
    """The process is gone."""


@pytest.fixture
def runs(ledger: Ledger) -> Runs:
    return Runs(ledger)


def test_two_hundred_deaths_between_an_end_and_its_commit(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)  # noqa: S311 - draws test cases
    left = {"statements": 0}
    execute = psycopg.Cursor.execute

    def mortal(self: Any, *args: Any, **more: Any) -> Any:
        answer = execute(self, *args, **more)
        left["statements"] -= 1
        if left["statements"] == 0:
            self.connection.close()
            raise Death
        return answer

    started, deaths = [], 0
    while deaths < DEATHS:
        started += [runs.start(_plan(runs.ledger)) for _ in range(3)]
        while waiting := [row["id"].bytes for run in started[-3:] for row in runs.executions(run, waiting=True)]:
            chosen = sorted(draw.sample(waiting, draw.randint(1, len(waiting))))
            runs.begin(chosen)
            results = {identity: [1, 2] for identity in chosen}
            with postgres.connect("mortal", url=runs.ledger.url) as connection, monkeypatch.context() as patched:
                ends = runs.ends(results)
                patched.setattr(psycopg.Cursor, "execute", mortal)
                left["statements"] = draw.randint(1, 12)
                try:
                    finish_of_runs(connection, ends, worker_id=WORKER)
                except Death:
                    deaths += 1
            left["statements"] = 0
            runs.take_back(chosen)
    for run in started:
        assert runs.status(run) == "succeeded"
        rows = runs.executions(run)
        places = [(row["dag_node"], row["dag_item"]) for row in rows]
        assert len(places) == len(set(places))
        for row in rows:
            outcomes = runs.ledger.outcomes(row["id"].bytes)
            assert outcomes.count(Outcome.SUCCEEDED) == 1, outcomes


def _plan(ledger: Ledger) -> Any:
    nodes = [node(name, max_attempts=1000) for name in "abcdz"]
    nodes.append(node("m", max_attempts=1000, map_over="a.result"))
    return plan(ledger, nodes, [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("a", "m"), ("m", "z"), ("d", "z")])


def test_an_end_that_is_told_twice_counts_once(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "ab", [("a", "b")]))
    [row] = runs.executions(run)
    runs.begin([row["id"].bytes])
    ends = runs.ends({row["id"].bytes: 1})
    assert finish_of_runs(runs.ledger.connection, ends, worker_id=WORKER)[0] == {row["id"].bytes}
    assert finish_of_runs(runs.ledger.connection, ends, worker_id=WORKER)[0] == set()
    assert store.attempts_written(runs.ledger.connection, ends, worker_id=WORKER)
    assert runs.waiting(run) == ["b"]
