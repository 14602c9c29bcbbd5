"""Random DAGs end in the real engine as the reference says; and an engine with a fault in it is caught."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from apps.executions.dags import propagation, reopening, rules, settle
from apps.executions.dags.plan import FailurePolicy, TriggerRule
from apps.executions.dags.rules import Counts
from apps.executions.dags.states import EdgeOutcome, NodeState
from apps.executions.states import Status
from tests import dag_reference
from tests.dag_tools import Runs, node, plan, when
from tests.stack import Ledger

RUNS = 40
_STATUS = {"failed": Status.DEAD_LETTER, "skipped": Status.SKIPPED, "cancelled": Status.CANCELLED}


@dataclass
class Case:
    """A random DAG, and what its nodes come to when they run."""

    nodes: list[tuple[str, Any]]
    edges: list[tuple[int, int, Any]]
    policy: FailurePolicy
    history: list[tuple[str, dag_reference.Moment]] = field(default_factory=list)
    """What was begun and ended at once, in order."""

    @classmethod
    def draw(cls, draw: random.Random) -> "Case":
        count = draw.randint(1, 40)
        edges = []
        for child in range(1, count):
            for parent in draw.sample(range(child), min(child, draw.choice((0, 1, 1, 2, 3)))):
                edges.append((parent, child, draw.choice((None, None, None, 0, 1))))
        mapped = {child for _, child, _ in edges if draw.random() < 0.1}
        nodes = [
            (
                draw.choice(dag_reference.RULES + ("all_success",) * 3),
                [_outcome(draw) for _ in range(draw.randint(1, 4))] if number in mapped else _outcome(draw),
            )
            for number in range(count)
        ]
        return cls(nodes, edges, draw.choice(list(FailurePolicy)))

    def begin(self, runs: Runs) -> bytes:
        described = []
        for number, (rule, outcome) in enumerate(self.nodes):
            more = {"map_over": f"run.parameters.m{number}"} if isinstance(outcome, list) else {}
            described.append(node(f"n{number}", rule=rule, **more))
        edges: list[tuple[Any, ...]] = [
            (f"n{p}", f"n{c}") if wanted is None else (f"n{p}", f"n{c}", when(f"n{p}", "equals", wanted))
            for p, c, wanted in self.edges
        ]
        lists = {f"m{n}": outcome for n, (_, outcome) in enumerate(self.nodes) if isinstance(outcome, list)}
        return runs.start(plan(runs.ledger, described, edges, policy=self.policy), parameters=lists)

    def outcome(self, number: int, item: int | None) -> Any:
        outcome = self.nodes[number][1]
        return outcome if item is None else outcome[item]

    @property
    def lenient(self) -> bool:
        return self.policy is FailurePolicy.CONTINUE

    def expected(self) -> tuple[list[str], str]:
        if self.policy is FailurePolicy.FAIL_ALL:
            found = dag_reference.states_of_fail_all(self.nodes, self.edges, self.history)
            return found, "failed" if "failed" in found else dag_reference.status(found)
        found = dag_reference.states(self.nodes, self.edges, lenient=self.lenient)
        return found, dag_reference.status(found)


def _outcome(draw: random.Random) -> Any:
    return draw.choice((("success", 0), ("success", 1), ("success", 1), "failed", "skipped", "cancelled"))


Places = dict[bytes, tuple[bytes, int, int | None]]
"""Execution → its run, node and item."""


def _some(draw: random.Random, places: Places) -> Places:
    chosen = draw.sample(sorted(places), draw.randint(min(1, len(places)), len(places)))
    return {identity: places[identity] for identity in chosen}


def _tell(cases: dict[bytes, Case], event: str, places: Places) -> None:
    moments: dict[bytes, dag_reference.Moment] = {}
    for run, number, item in places.values():
        moments.setdefault(run, []).append((number, item, cases[run].outcome(number, item)))
    for run, moment in moments.items():
        cases[run].history.append((event, moment))


def difference(ledger: Ledger, seed: int, count: int = RUNS) -> list[str]:
    """What differs between the engine and the reference over `count` random runs, driven in random batches."""
    draw = random.Random(seed)  # noqa: S311 - draws test cases
    runs = Runs(ledger)
    cases = {}
    for _ in range(count):
        case = Case.draw(draw)
        cases[case.begin(runs)] = case
    _drive(runs, cases, draw)
    found = []
    for run, case in cases.items():
        expected, status = case.expected()
        actual = list(runs.states(run).values())
        if actual != expected:
            found.append(f"{case}: {actual} and not {expected}")
        elif runs.status(run) != status:
            found.append(f"{case}: {runs.status(run)} and not {status}")
        ran = [(row["dag_node"], row["dag_item"]) for row in runs.executions(run)]
        if len(ran) != len(set(ran)):
            found.append(f"{case}: a node ran twice")
    return found


def _drive(runs: Runs, cases: dict[bytes, Case], draw: random.Random) -> None:
    """Begin and end what waits, in random batches, until nothing does."""
    ledger, begun = runs.ledger, Places()
    for _ in range(500):
        waiting = {
            row["id"].bytes: (row["dag_run_id"].bytes, row["dag_node"], row["dag_item"])
            for row in ledger.select(
                "SELECT id, dag_run_id, dag_node, dag_item FROM executions WHERE dag_run_id IS NOT NULL"
                " AND status IN (0, 1, 5) AND tenant_id = encode(%s, 'hex')::uuid",
                ledger.tenant,
            )
        }
        if not waiting and not begun:
            break
        taken = _some(draw, waiting)
        runs.begin(list(taken))
        _tell(cases, "begin", taken)
        begun |= taken
        ended = _some(draw, begun)
        ends = {identity: cases[run].outcome(number, item) for identity, (run, number, item) in ended.items()}
        runs.finish({i: how[1] if isinstance(how, tuple) else _STATUS[how] for i, how in ends.items()})
        _tell(cases, "end", ended)
        begun = {identity: place for identity, place in begun.items() if identity not in ended}


def _reopened(runs: Runs, run: bytes, nodes: list[int], *, below: bool, decided: dict[int, NodeState]) -> set[int]:
    """Clear nodes, or mark them, as a person does; returns which are decided anew."""
    connection = runs.ledger.connection
    with connection.transaction():
        locked = reopening.lock(connection, run, tenant_id=UUID(bytes=runs.ledger.tenant))
        assert locked is not None
        store, row = locked
        graph, _ = reopening.graph_of(store, run)
        cleared = graph.with_below(nodes) if below else set(nodes)
        reopening.reopen(connection, store, row, graph, cleared, decided=decided, actor="test", reason="test")
    return cleared


_MARKS = {NodeState.SUCCEEDED: "succeeded", NodeState.FAILED: "failed", NodeState.SKIPPED: "skipped"}


def difference_of_acts(ledger: Ledger, seed: int) -> list[str]:
    """The same of runs that have ended and of which some nodes are then cleared, marked or run again, several times."""
    draw = random.Random(seed)  # noqa: S311 - draws test cases
    runs, cases = Runs(ledger), {}
    for _ in range(RUNS):
        case = Case.draw(draw)
        case.policy = FailurePolicy.SKIP_DOWNSTREAM if case.policy is FailurePolicy.FAIL_ALL else case.policy
        cases[case.begin(runs)] = case
    _drive(runs, cases, draw)
    ends = {run: dag_reference.Ends(case.nodes, case.edges, case.lenient) for run, case in cases.items()}
    wrong: list[str] = []
    for _ in range(4):
        for run, end in ends.items():
            _act(runs, run, end, draw)
        _drive(runs, cases, draw)
        for run, end in ends.items():
            actual = list(runs.states(run).values())
            if actual != end.found or runs.status(run) != dag_reference.status(end.found):
                wrong.append(f"{cases[run]}: {actual} {runs.status(run)} and not {end.found}")
            wrong += [f"{cases[run]}: {row}" for row in ledger.select(_MISCOUNTED, run)]
    return wrong


def _act(runs: Runs, run: bytes, end: dag_reference.Ends, draw: random.Random) -> None:
    bad = [n for n, state in enumerate(end.found) if state in ("failed", "upstream_failed", "cancelled")]
    chosen = sorted(draw.sample(range(len(end.found)), min(len(end.found), draw.choice((1, 1, 2, 3)))))
    kind = draw.choice(("clear", "mark", "rerun", "one after another"))
    if kind == "rerun" and bad:
        end.again(_reopened(runs, run, bad, below=True, decided={}), {})
    elif kind == "one after another":
        for number in chosen:  # while those above may still wait or run
            end.again(_reopened(runs, run, [number], below=False, decided={}), {})
    else:
        state = draw.choice(list(_MARKS)) if kind == "mark" else None
        decided = {} if state is None else {chosen[0]: state}
        cleared = _reopened(runs, run, chosen[:1], below=draw.random() < 0.5, decided=decided)
        end.again(cleared, {number: _MARKS[state] for number, state in decided.items()})


_MISCOUNTED = """
SELECT n.node, n.open, n.succeeded, n.failed, n.skipped, n.errors, r.open_nodes FROM run_nodes n
JOIN dag_runs r ON r.id = n.run_id
LEFT JOIN task_dependencies d ON d.run_id = n.run_id AND d.child = n.node AND d.item < 0
WHERE n.run_id = encode(%s, 'hex')::uuid
GROUP BY n.node, n.open, n.succeeded, n.failed, n.skipped, n.errors, r.open_nodes
HAVING (n.open, n.succeeded, n.failed, n.skipped, n.errors, r.open_nodes) IS DISTINCT FROM
    (count(d.parent) FILTER (WHERE d.outcome IS NULL), count(*) FILTER (WHERE d.outcome = 0),
     count(*) FILTER (WHERE d.outcome = 1), count(*) FILTER (WHERE d.outcome = 2),
     count(*) FILTER (WHERE d.outcome = 3), 0)
"""


@pytest.mark.parametrize("seed", range(2))
def test_what_persons_clear_and_mark_is_decided_as_the_reference_says(ledger: Ledger, seed: int) -> None:
    assert difference_of_acts(ledger, seed) == []


@pytest.mark.parametrize("seed", range(4))
def test_random_runs_end_as_the_reference_says(ledger: Ledger, seed: int) -> None:
    assert difference(ledger, seed) == []


def _skips_count_as_failures(self: Counts, outcome: EdgeOutcome) -> Counts:
    return _plus(self, EdgeOutcome.FAILED if outcome is EdgeOutcome.SKIPPED else outcome)


def _decided_early(self: Counts, outcome: EdgeOutcome) -> Counts:
    counted = _plus(self, outcome)
    return counted._replace(open=0) if outcome is EdgeOutcome.FAILED else counted


def _min_one_success_forgotten(rule: TriggerRule, counts: Counts, policy: FailurePolicy) -> NodeState:
    forgets = rule is TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    return _decide(TriggerRule.NONE_FAILED if forgets else rule, counts, policy)


def _upstream_failed_is_skipped(rule: TriggerRule, counts: Counts, policy: FailurePolicy) -> NodeState:
    state = _decide(rule, counts, policy)
    return NodeState.SKIPPED if state is NodeState.UPSTREAM_FAILED else state


def _conditions_hold(condition: Any, result: Any) -> bool:
    return True


def _one_bad_item_is_forgiven(counts: Counts) -> NodeState:
    return NodeState.SUCCEEDED if counts.succeeded else NodeState.FAILED


def _failure_stops_nothing(self: propagation.Propagation, *args: Any, **more: Any) -> None:
    _end(self, *args, **more)
    self.stopped.clear()


_end = propagation.Propagation.end
_plus, _decide = Counts.plus, rules.decide

MUTANTS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "skips count as failures": (Counts, "plus", _skips_count_as_failures),
    "a failure decides early": (Counts, "plus", _decided_early),
    "min_one_success is forgotten": (propagation, "decide", _min_one_success_forgotten),
    "upstream_failed is skipped": (propagation, "decide", _upstream_failed_is_skipped),
    "conditions always hold": (propagation.conditions, "holds", _conditions_hold),
    "fail_all stops nothing": (propagation.Propagation, "end", _failure_stops_nothing),
    "one bad item is forgiven": (propagation, "state_of_items", _one_bad_item_is_forgiven),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_the_engine_is_caught(ledger: Ledger, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    owner, attribute, wrong = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    try:
        found = difference(ledger, seed=0, count=25)
    except (AssertionError, KeyError) as error:
        found = [repr(error)]
    except settle.psycopg.errors.CheckViolation as error:
        found = [repr(error)]
    assert found
