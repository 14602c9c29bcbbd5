"""What has gone wrong in workflow engines, tried on this one: joins, branches, fan-outs, reruns, time limits."""

import itertools
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import psycopg
import pytest
from pytest_django import DjangoDbBlocker

from apps.executions.dags import operations
from apps.executions.dags.inputs import Place, read
from apps.executions.states import Status
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from tests.dag_tools import Runs, node, plan, when
from tests.stack import Ledger, django_uses


@pytest.fixture
def runs(ledger: Ledger, django_db_blocker: DjangoDbBlocker) -> Iterator[Runs]:
    with django_uses(ledger.url, django_db_blocker):
        yield Runs(ledger)


def clear(runs: Runs, run: bytes, name: str) -> None:
    person = Principal(UUID(bytes=runs.ledger.tenant), runs.ledger.slug, Role.OPERATOR, "user:ada")
    operations.clear_node(principal=person, run_id=UUID(bytes=run), node_id=name)


# ---- joins and branches -------------------------------------------------------------------------------------------


def test_a_join_waits_for_all_its_parents_though_one_was_skipped(runs: Runs) -> None:
    nodes = ["x", "a", "b", node("j", rule="none_failed_min_one_success")]
    edges = [("x", "a"), ("x", "b", when("x", "equals", "b")), ("a", "j"), ("b", "j")]
    run = runs.start(plan(runs.ledger, nodes, edges))
    runs.end(run, x="a")
    assert runs.states(run)["b"] == "skipped"
    assert runs.states(run)["j"] == "pending"
    runs.end(run, a=1)
    assert runs.waiting(run) == ["j"]


def test_an_untaken_branch_counts_as_skipped_though_its_parent_succeeded(runs: Runs) -> None:
    nodes = ["b1", "b2", "d", node("p", rule="none_failed_min_one_success")]
    untaken = when("b1", "equals", "never")
    edges = [("b1", "b2"), ("b1", "p", untaken), ("b2", "d", when("b2", "equals", "never")), ("d", "p")]
    run = runs.start(plan(runs.ledger, nodes, edges))
    runs.end(run, b1="b2")
    runs.end(run, b2="nothing")
    assert runs.states(run) == {"b1": "succeeded", "b2": "succeeded", "d": "skipped", "p": "skipped"}
    assert runs.status(run) == "succeeded"


def test_upstream_mended_downstream_goes_on(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, "abc", [("a", "b"), ("b", "c")]))
    runs.end(run, a=Status.DEAD_LETTER)
    assert runs.states(run) == {"a": "failed", "b": "upstream_failed", "c": "upstream_failed"}
    clear(runs, run, "a")
    assert runs.states(run) == {"a": "active", "b": "pending", "c": "pending"}
    assert runs.status(run) == "running"


@pytest.mark.parametrize("rule", ["all_done", "none_failed", "one_success", "one_failed"])
def test_nothing_is_decided_while_a_branch_may_still_be_tried_again(runs: Runs, rule: str) -> None:
    nodes = ["fast", node("slow", max_attempts=4), node("j", rule=rule)]
    run = runs.start(plan(runs.ledger, nodes, [("fast", "j"), ("slow", "j")]))
    runs.end(run, fast=Status.DEAD_LETTER, slow=Status.RETRYING)
    assert runs.states(run)["j"] == "pending"
    runs.end(run, slow=1)
    ends = {"all_done": "active", "none_failed": "upstream_failed", "one_success": "active", "one_failed": "active"}
    assert runs.states(run)["j"] == ends[rule]


def test_a_join_of_six_thousand(runs: Runs) -> None:
    names = [f"n{number}" for number in range(6000)]
    edges = [("a", name) for name in names] + [(name, "j") for name in names]
    run = runs.start(plan(runs.ledger, ["a", *names, "j"], edges))
    runs.end(run, a=1)
    rows = [row["id"].bytes for row in runs.executions(run, waiting=True)]
    runs.begin(rows)
    for start in range(0, 6000, 1000):
        assert runs.states(run)["j"] == "pending"
        runs.finish(dict.fromkeys(rows[start : start + 1000], Status.COMPLETED))
    assert runs.waiting(run) == ["j"]


def test_a_chain_of_two_thousand_is_skipped_in_one_transaction(runs: Runs) -> None:
    names = [f"n{number}" for number in range(2000)]
    edges: list[tuple[Any, ...]] = list(itertools.pairwise(names))
    edges[0] = (*edges[0], when("n0", "equals", "go"))
    run = runs.start(plan(runs.ledger, names, edges))
    runs.end(run, n0="stop")
    states = runs.states(run)
    assert states.pop("n0") == "succeeded"
    assert set(states.values()) == {"skipped"}
    assert runs.status(run) == "succeeded"


def test_a_condition_that_cannot_be_judged_fails_its_node_with_expression_and_value(runs: Runs) -> None:
    edges = [("a", "b", when("a", "gt", 3, "$.n"))]
    run = runs.start(plan(runs.ledger, "ab", edges))
    runs.end(run, a={"n": "many"})
    found = runs.nodes(run)["b"]
    assert runs.states(run)["b"] == "failed"
    assert found["error"]["value"] == "many"
    assert "$.n" in found["error"]["expression"]


# ---- fan-out ------------------------------------------------------------------------------------------------------

MAPPED = ["a", node("m", map_over="a.result.items"), node("n", map_over="m.result"), node("j", rule="none_failed")]
MAPPED_EDGES = [("a", "m"), ("m", "n"), ("n", "j")]


def test_an_empty_fan_out_is_skipped_and_the_run_goes_on_and_again(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, MAPPED, MAPPED_EDGES))
    for _ in range(2):
        runs.end(run, a={"items": []})
        assert runs.states(run) == {"a": "succeeded", "m": "skipped", "n": "skipped", "j": "active"}
        runs.end(run, j=1)
        assert runs.status(run) == "succeeded"
        clear(runs, run, "a")


def test_a_mapped_child_is_not_decided_before_its_parent_is_sized(runs: Runs) -> None:
    nodes = ["a", node("b", map_over="a.result"), node("c", map_over="b.result"), "d", "e"]
    run = runs.start(plan(runs.ledger, nodes, [("a", "b"), ("b", "c"), ("c", "e"), ("d", "e")]))
    runs.end(run, d=1)
    assert runs.states(run) == {"a": "active", "b": "pending", "c": "pending", "d": "succeeded", "e": "pending"}
    runs.end(run, a=[1, 2])
    assert runs.waiting(run) == ["b[0]", "b[1]"]
    runs.end(run, b={0: "x"})
    assert runs.states(run)["c"] == "pending"
    runs.end(run, b={1: "y"})
    assert runs.waiting(run) == ["c[0]", "c[1]"]
    [_, second] = runs.executions(run, "c")
    [given] = read(runs.ledger.connection, [Place(run, second["dag_node"], 1, frozenset())])
    assert given.document()["item"] == "y"
    assert given.document()["parents"]["b"] == {"status": "succeeded", "result": ["x", "y"]}


def test_a_rerun_with_fewer_items_does_not_wait_for_the_removed_ones(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, ["a", node("m", map_over="a.result"), "j"], [("a", "m"), ("m", "j")]))
    runs.end(run, a=[1, 2, 3, 4, 5])
    runs.end(run, m={item: item for item in range(5)})
    runs.end(run, j=1)
    clear(runs, run, "a")
    runs.end(run, a=[1, 2, 3, 4])
    runs.end(run, m={item: 10 * item for item in range(4)})
    assert runs.waiting(run) == ["j"]
    [place] = [Place(run, row["dag_node"], None, frozenset()) for row in runs.executions(run, "j", waiting=True)]
    [given] = read(runs.ledger.connection, [place])
    assert given.scope["m"]["result"] == [0, 10, 20, 30]
    assert runs.nodes(run)["m"]["items"] == 4


def test_one_item_that_fails_fails_its_node_once_all_have_ended(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, ["a", node("m", map_over="a.result"), "j"], [("a", "m"), ("m", "j")]))
    runs.end(run, a=[1, 2])
    runs.end(run, m={0: Status.DEAD_LETTER})
    assert runs.states(run)["m"] == "active"
    runs.end(run, m={1: 1})
    assert runs.states(run) == {"a": "succeeded", "m": "failed", "j": "upstream_failed"}


def test_what_is_no_list_fails_the_node_that_maps_over_it(runs: Runs) -> None:
    run = runs.start(plan(runs.ledger, ["a", node("m", map_over="a.result.items")], [("a", "m")]))
    runs.end(run, a={"items": "many"})
    assert runs.states(run)["m"] == "failed"
    assert "no list" in runs.nodes(run)["m"]["error"]["message"]


# ---- cost ---------------------------------------------------------------------------------------------------------


def test_a_completion_takes_as_many_statements_for_ten_children_as_for_ten_thousand(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = []
    execute = psycopg.Cursor.execute

    def counting(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        counted.append(query)
        return execute(self, query, *args, **more)

    found = []
    for width in (10, 10_000):
        names = [f"n{number}" for number in range(width)]
        run = runs.start(plan(runs.ledger, ["a", *names], [("a", name) for name in names]))
        [row] = runs.executions(run, "a")
        runs.begin([row["id"].bytes])
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "execute", counting)
            counted.clear()
            runs.finish({row["id"].bytes: 1})
            found.append(len(counted))
        assert len(runs.executions(run, waiting=True)) == width
    assert found[0] == found[1]
