"""The graph of a DAG is checked before anything is saved: every fault by its place, however large it is."""

import random
import time
from itertools import pairwise

import pytest

from apps.definitions import graph
from chronoweb.runtime.errors import InvalidInput, InvalidInputs


def faults(ids: list[str], depends_on: list[list[str]]) -> list[InvalidInput]:
    with pytest.raises(InvalidInputs) as caught:
        graph.build(ids, depends_on)
    return caught.value.errors


def test_parents_come_before_children_and_an_edge_given_twice_is_one() -> None:
    built = graph.build(["d", "a", "b", "c"], [["b", "c", "b"], [], ["a"], ["a"]])
    assert built.parents == [[2, 3], [], [1], [1]]
    assert built.edges == 4
    assert built.order.index(1) < built.order.index(2) < built.order.index(0)


def test_an_empty_graph_is_refused() -> None:
    (error,) = faults([], [])
    assert (error.pointer, error.problem) == ("", "is empty: a DAG has at least one node")


def test_duplicates_unknown_parents_and_self_edges_are_all_told_at_once() -> None:
    errors = faults(["load", "clean", "load"], [["loda"], ["clean"], []])
    assert [(e.pointer, e.value) for e in errors] == [
        ("/2/id", "load"),
        ("/0/depends_on/0", "loda"),
        ("/1/depends_on/0", "clean"),
    ]
    assert "perhaps load" in str(errors[1].legal)
    assert "clean → clean" in errors[2].problem


@pytest.mark.parametrize(
    ("ids", "depends_on", "pointer", "path"),
    [
        (["a", "b"], [["b"], ["a"]], "/0/depends_on/0", "a → b → a"),
        (["a", "b", "c"], [["c"], ["a"], ["b"]], "/0/depends_on/0", "a → b → c → a"),
        # x lies below the cycle and is not on it.
        (["x", "a", "b", "c"], [["c"], ["c"], ["a"], ["b"]], "/1/depends_on/0", "a → b → c → a"),
    ],
)
def test_a_cycle_is_told_with_its_path(ids: list[str], depends_on: list[list[str]], pointer: str, path: str) -> None:
    (error,) = faults(ids, depends_on)
    assert (error.pointer, error.problem) == (pointer, f"closes a cycle: {path}")


def test_a_chain_of_ten_thousand_is_checked_without_recursion_and_fast() -> None:
    ids = [f"n{n}" for n in range(10_000)]
    chain = [[], *([name] for name in ids[:-1])]
    begun = time.process_time()
    assert graph.build(ids, chain).order == list(range(10_000))
    (error,) = faults(ids, [[ids[-1]], *chain[1:]])
    assert time.process_time() - begun < 1
    assert error.pointer == "/0/depends_on/0"
    assert "n0 → n1" in error.problem
    assert "9981 more" in error.problem


def test_a_thousand_times_a_thousand_edges_are_checked_in_a_moment() -> None:
    above, below = ([f"{letter}{n}" for n in range(1000)] for letter in "ab")
    begun = time.process_time()
    built = graph.build(above + below, [[] for _ in above] + [above for _ in below])
    assert built.edges == 1_000_000
    ancestors = graph.ancestors(built)
    assert time.process_time() - begun < 3
    assert ancestors[-1] == (1 << 1000) - 1


def test_too_many_nodes_or_edges_are_refused_before_they_cost_anything() -> None:
    ids = [f"n{n}" for n in range(graph.MOST_NODES + 1)]
    assert "20001 nodes" in faults(ids, [[] for _ in ids])[0].problem


def test_random_graphs_are_ordered_exactly_if_they_have_no_cycle() -> None:
    chance = random.Random(7)  # noqa: S311 - no secret
    for _ in range(300):
        count = chance.randint(1, 12)
        ids = [f"n{n}" for n in range(count)]
        depends_on = [chance.sample(ids, chance.randint(0, min(2, count))) for _ in ids]
        depends_on = [[p for p in parents if p != name] for name, parents in zip(ids, depends_on, strict=True)]
        try:
            built = graph.build(ids, depends_on)
        except InvalidInputs as several:
            names = several.errors[0].problem.removeprefix("closes a cycle: ").split(" → ")
            assert names[0] == names[-1]
            for parent, child in pairwise(names):
                assert parent in depends_on[ids.index(child)]
        else:
            place = {node: at for at, node in enumerate(built.order)}
            assert len(place) == count
            assert all(place[p] < place[c] for c, parents in enumerate(built.parents) for p in parents)
