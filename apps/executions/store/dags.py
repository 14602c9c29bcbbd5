"""What a transaction asks of some runs of one day that it has locked, and what it writes in the end."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg

from apps.executions import ids
from apps.executions.dags.plan import FailurePolicy, NodeKind, TriggerRule
from apps.executions.dags.rows import Edge, EdgeWrite, Key, Node, Run, Settled
from apps.executions.dags.rules import Counts
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.store.statements import fetch_ids, named_sql, scheduled_of
from chronoweb.runtime.postgres import PackedArray, int2s, int8s, texts, uuids


class RunStore:
    """Statements on one day's partitions. The connection is in a transaction."""

    def __init__(self, connection: psycopg.Connection, day: int) -> None:
        self._connection = connection
        self._day = day
        self.is_awaited = False
        """Whether a run has ended here for which others of its DAG wait."""

    def rows(self, query: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """What a query of one day answers, uuids as bytes."""
        cursor = self._connection.cursor(binary=True)
        return cursor.execute(named_sql(query, self._day), dict(parameters)).fetchall()

    def execute(self, query: str, parameters: Mapping[str, Any]) -> None:
        """Run a statement of one day."""
        self._connection.execute(named_sql(query, self._day), dict(parameters))

    def enter(self, identities: Sequence[bytes]) -> tuple[list[Settled], dict[bytes, Run]]:
        """Which of these executions belong to runs and rest; and their runs, locked until the transaction ends."""
        rows = self.rows("enter_runs", {"ids": uuids(identities), "scheduled": scheduled_of(identities)})
        return [Settled(*row[:6]) for row in rows], {row[1]: run_of(row[1], *row[6:]) for row in rows}

    def lock(self, runs: Iterable[bytes]) -> dict[bytes, Run]:
        """These runs, locked until the transaction ends."""
        rows = self.rows("lock_runs", {"runs": uuids(sorted(set(runs)))})
        return {row[0]: run_of(*row) for row in rows}

    def give_fresh_budgets(self, dead: Sequence[Settled]) -> set[bytes]:
        """Send what is out of attempts for the first time round again; returns which."""
        parameters = keys_of([(one.run, one.node) for one in dead]) | {
            "ids": uuids([one.id for one in dead]),
            "scheduled": scheduled_of([one.id for one in dead]),
            "generations": int8s([one.generation for one in dead]),
        }
        return set(fetch_ids(self._connection, named_sql("fresh_budget", self._day), parameters))

    def nodes(self, keys: Iterable[Key]) -> list[Node]:
        """These nodes."""
        return [_node(*row) for row in self.rows("nodes_of", keys_of(list(keys)))]

    def edges_below(self, keys: Iterable[Key], depth: int) -> tuple[list[Edge], list[Node]]:
        """The open edges out of these nodes and of what is up to `depth` levels below them, and where they lead."""
        given = keys_of(list(keys))
        rows = self.rows("edges_below", {**given, "depth": depth}) if depth else self.rows("edges_of", given)
        edges = [Edge(row[2], row[0], row[3], row[1]) for row in rows]
        return edges, [_node(*row) for row in {(row[2], row[3]): row[2:] for row in rows}.values()]

    def open_items(self, items: Sequence[tuple[bytes, int, int]]) -> set[tuple[bytes, int, int]]:
        """Which of these (run, node, item) have not been counted."""
        parameters = keys_of([(run, node) for run, node, _ in items]) | {"items": int8s([item for _, _, item in items])}
        return {(run, node, item) for run, node, item in self.rows("open_items", parameters)}

    def results(self, keys: Iterable[Key]) -> dict[Key, Any]:
        """What these nodes have come to."""
        return {(run, node): result for run, node, result in self.rows("results_of", keys_of(list(keys)))}

    def results_by_name(self, names: Iterable[tuple[bytes, str]]) -> dict[tuple[bytes, str], tuple[NodeState, Any]]:
        """(state, result) of nodes known by (run, node_id)."""
        wanted = sorted(set(names))
        parameters = {"runs": uuids([run for run, _ in wanted]), "names": texts([name.encode() for _, name in wanted])}
        rows = self.rows("results_by_name", parameters) if wanted else []
        return {(run, name): (NodeState(state), result) for run, name, state, result in rows}

    def runs_for_references(self, runs: Iterable[bytes]) -> dict[bytes, tuple[Any, Any]]:
        """(parameters, nominal_at) of runs."""
        rows = self.rows("runs_for_references", {"runs": uuids(sorted(set(runs)))})
        return {run: (parameters, nominal) for run, parameters, nominal in rows}

    def write(
        self, edges: Sequence[EdgeWrite], nodes: Sequence[Node], released: Sequence[Node], closed: Mapping[bytes, int]
    ) -> tuple[list[bytes], list[bytes]]:
        """Write what was decided; returns the ids of new executions, and the runs that have ended.

        released: nodes of which an execution is made, or one for each item. closed: how many nodes of each run have
        become final.
        """
        places = [(node, item) for node in released for item in (range(node.items) if node.items else (None,))]
        made = ids.new_ids(ids.milliseconds(node.run) for node, _ in places)
        for (node, item), identity in zip(places, made, strict=True):
            if item is None:
                node.execution = identity
        left = self.rows("write_runs", _edges(edges) | _nodes(nodes) | _made(made, places) | _closed(closed))
        mapped = [node for node in released if node.items]
        if mapped:
            parameters = keys_of([node.key for node in mapped]) | {"counts": int8s([node.items for node in mapped])}
            self.execute("insert_items", parameters)
        return made, self._end([run for run, count in left if count == 0])

    def close_nodes(self, closed: Mapping[bytes, int]) -> list[bytes]:
        """So many nodes of each run have become final; returns the runs that have ended."""
        return self.write([], [], [], closed)[1]

    def _end(self, over: Sequence[bytes]) -> list[bytes]:
        ended = self.rows("end_runs", {"runs": uuids(over)}) if over else []
        self.is_awaited = self.is_awaited or any(awaited for _, awaited in ended)
        return [run for run, _ in ended]

    def stop(self, runs: Iterable[bytes], *, ending: RunStatus) -> list[bytes]:
        """Let nothing more of these runs begin; returns those that were not stopped before."""
        parameters = {"runs": uuids(sorted(runs)), "ending": int(ending)}
        return [row[0] for row in self.rows("stop_runs", parameters)]

    def end_pending_nodes(
        self, runs: Iterable[bytes], *, state: NodeState, error: dict[str, Any] | None = None
    ) -> dict[bytes, int]:
        """Nodes of these runs that were never released become final; how many of each run."""
        told = None if error is None else json.dumps(error)
        parameters = {"runs": uuids(sorted(runs)), "state": int(state), "error": told}
        counts: dict[bytes, int] = {}
        for (run,) in self.rows("end_pending_nodes", parameters):
            counts[run] = counts.get(run, 0) + 1
        return counts

    def stop_executions(self, runs: Iterable[bytes], *, actor: str, reason: str) -> list[tuple[bytes, int, bytes]]:
        """Ask what runs of these runs to stop; (id, status, tenant) of what was changed."""
        parameters = {"runs": uuids(sorted(runs)), "actor": actor, "reason": reason}
        return [(identity, status, tenant) for identity, status, tenant in self.rows("stop_executions", parameters)]


def _edges(edges: Sequence[EdgeWrite]) -> dict[str, Any]:
    return {
        "edge_runs": uuids([e.run for e in edges]),
        "parents": int8s([e.parent for e in edges]),
        "children": int8s([e.child for e in edges]),
        "edge_items": int8s([e.item for e in edges]),
        "outcomes": int2s([e.outcome for e in edges]),
        "edge_errors": _documents([e.error for e in edges]),
    }


def _nodes(nodes: Sequence[Node]) -> dict[str, Any]:
    return {
        **keys_of([n.key for n in nodes]),
        "states": int2s([n.state for n in nodes]),
        **{name: int8s([getattr(n.counts, name) for n in nodes]) for name in Counts._fields},
        "items": int8s([n.items for n in nodes]),
        "items_open": int8s([n.item_counts.open for n in nodes]),
        "items_succeeded": int8s([n.item_counts.succeeded for n in nodes]),
        "items_failed": int8s([n.item_counts.failed + n.item_counts.errors for n in nodes]),
        "items_skipped": int8s([n.item_counts.skipped for n in nodes]),
        "executions": texts([n.execution.hex().encode() if n.execution else None for n in nodes]),
        "released": [n.released for n in nodes],
        "finished": [n.finished for n in nodes],
        "told": _documents([n.error for n in nodes]),
    }


def _made(made: Sequence[bytes], places: Sequence[tuple[Node, int | None]]) -> dict[str, Any]:
    return {
        "made": uuids(made),
        "made_runs": uuids([node.run for node, _ in places]),
        "made_nodes": int8s([node.node for node, _ in places]),
        "made_items": int8s([item for _, item in places]),
    }


def _closed(closed: Mapping[bytes, int]) -> dict[str, Any]:
    ordered = sorted(closed)
    return {"closed_runs": uuids(ordered), "closed": int8s([closed[run] for run in ordered])}


def run_of(run: bytes, tenant: bytes, status: int, ending: int | None, policy: int, paused: bool, queued: bool) -> Run:
    """What the statements that lock runs answer."""
    stopped = None if ending is None else RunStatus(ending)
    return Run(run, tenant, RunStatus(status), stopped, FailurePolicy(policy), paused, queued)


def keys_of(keys: Sequence[Key]) -> dict[str, PackedArray]:
    """(run, node) pairs as the statements take them."""
    return {"runs": uuids([run for run, _ in keys]), "nodes": int8s([node for _, node in keys])}


def _documents(values: Sequence[dict[str, Any] | None]) -> PackedArray:
    return texts([None if value is None else json.dumps(value).encode() for value in values])


def _node(
    run: bytes,
    node: int,
    kind: int,
    rule: int,
    state: int,
    generation: int,
    counted: int,
    succeeded: int,
    failed: int,
    skipped: int,
    errors: int,
    items: int | None,
    items_open: int,
    items_succeeded: int,
    items_failed: int,
    items_skipped: int,
    map_over: str | None,
) -> Node:
    return Node(
        run,
        node,
        NodeKind(kind),
        TriggerRule(rule),
        NodeState(state),
        generation,
        Counts(counted, succeeded, failed, skipped, errors),
        items,
        Counts(items_open, items_succeeded, items_failed, items_skipped),
        map_over,
    )
