"""On a day that was never analysed, what is asked about a few nodes of a large run touches a few rows."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from apps.executions import ids
from apps.executions.dags.plan import NodeKind, TriggerRule
from apps.executions.dags.rows import NO_ITEM, EdgeWrite, Node
from apps.executions.dags.rules import Counts
from apps.executions.dags.states import EdgeOutcome, NodeState
from apps.executions.store.dags import RunStore, keys_of
from tests.dag_tools import Runs, plan
from tests.stack import Ledger, ledger_on

WIDTH = 3000
BATCH = 100


class Measured:
    """In place of a connection: runs what it is asked, answers nothing, and counts the rows that were touched."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self.touched = 0

    def cursor(self, *, binary: bool = False) -> "Measured":
        return self

    def execute(self, query: str, parameters: Any = None) -> "Measured":
        query = f"EXPLAIN (ANALYZE, FORMAT JSON)\n{query}"
        [[document]] = self._connection.execute(query, parameters).fetchall()
        waiting = [document[0]["Plan"]]
        while waiting:
            node = waiting.pop()
            waiting += node.get("Plans", [])
            removed = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0)
            index = node.get("Rows Removed by Index Recheck", 0)
            self.touched += int((node["Actual Rows"] + removed + index) * node["Actual Loops"])
        return self

    def fetchall(self) -> list[Any]:
        return []


Ask = Callable[[RunStore, bytes], Any]


def _middle(run: bytes) -> list[tuple[bytes, int]]:
    return [(run, position) for position in range(1, BATCH + 1)]


def _write(store: RunStore, run: bytes) -> Any:
    edges = [EdgeWrite(run, node, WIDTH + 1, NO_ITEM, EdgeOutcome.SUCCESS) for _, node in _middle(run)]
    nodes = [
        Node(run, node, NodeKind.TASK, TriggerRule.ALL_SUCCESS, NodeState.ACTIVE, 1, Counts(), released=True)
        for _, node in _middle(run)
    ]
    return store.write(edges, nodes, nodes, {run: BATCH})


ASKS: dict[str, Ask] = {
    "edges of a fan-in": lambda s, run: s.edges_below(_middle(run), 0),
    "edges below a fan-in": lambda s, run: s.edges_below(_middle(run), 2),
    "edges of a fan-out": lambda s, run: s.edges_below([(run, 0)], 0),
    "nodes": lambda s, run: s.nodes(_middle(run)),
    "results": lambda s, run: s.results(_middle(run)),
    "parents": lambda s, run: s.rows("parents_of", keys_of(_middle(run))),
    "parents of a join": lambda s, run: s.rows("parents_of", keys_of([(run, WIDTH + 1)])),
    "write": _write,
}


@pytest.fixture(scope="module")
def wide(module_database: str) -> Iterator[tuple[Ledger, bytes]]:
    """A run 1 → WIDTH → 1 that nothing has ended of."""
    with ledger_on(module_database) as made:
        names = [f"n{number}" for number in range(WIDTH)]
        edges = [("a", name) for name in names] + [(name, "z") for name in names]
        yield made, Runs(made).start(plan(made, ["a", *names, "z"], edges))


@pytest.mark.parametrize("name", ASKS)
def test_rows_touched_are_in_proportion_to_what_is_asked(wide: tuple[Ledger, bytes], name: str) -> None:
    ledger, run = wide
    measured = Measured(ledger.connection)
    asked = WIDTH if name in ("edges of a fan-out", "parents of a join") else BATCH
    with ledger.connection.transaction(force_rollback=True):
        ASKS[name](RunStore(measured, ids.day(run)), run)  # type: ignore[arg-type]
    assert measured.touched <= 20 * asked
