"""Nodes of a run are decided anew: cleared, marked or skipped by a person, with what is below them if so asked.

What runs of them is fenced first: its commit is refused, and its worker stops it. Each clearing is a generation, and
only the last one counts. The run goes on; what it had done stays in the ledger.
"""

from collections.abc import Collection, Mapping
from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.dags.graph import Graph, Reopened
from apps.executions.dags.propagation import Propagation
from apps.executions.dags.rows import Run
from apps.executions.dags.settle import Outcome, reader, settle, write
from apps.executions.dags.start import active_runs
from apps.executions.dags.states import FINAL, EdgeOutcome, NodeState, RunStatus
from apps.executions.store.dags import RunStore, run_of
from chronoweb.runtime.postgres import int8s


def lock(connection: psycopg.Connection, run: bytes, *, tenant_id: UUID) -> tuple[RunStore, Run] | None:
    """The run of a tenant, locked together with what has not ended of it; None if there is none."""
    store = RunStore(connection, ids.day(run))
    identity = UUID(bytes=run)
    store.rows("lock_open_executions", {"run": identity})
    rows = store.rows("lock_run_of_tenant", {"run": identity, "tenant": tenant_id})
    if not rows:
        return None
    # What was released while the run was waited for is nobody's yet; if it is, one of us is told of a deadlock.
    store.rows("lock_open_executions", {"run": identity})
    return store, run_of(*rows[0])


def graph_of(store: RunStore, run: bytes) -> tuple[Graph, dict[str, int]]:
    """The graph of a locked run, and the position of each node by its name."""
    identity = UUID(bytes=run)
    nodes = store.rows("graph_nodes", {"run": identity})
    edges = store.rows("graph_edges", {"run": identity})
    graph = Graph(
        {node: NodeState(state) for node, _, state in nodes},
        {(parent, child): None if brought is None else EdgeOutcome(brought) for parent, child, brought in edges},
    )
    return graph, {name: node for node, name, _ in nodes}


def reopen(
    connection: psycopg.Connection,
    store: RunStore,
    run: Run,
    graph: Graph,
    cleared: Collection[int],
    *,
    decided: Mapping[int, NodeState],
    actor: str,
    reason: str,
) -> Outcome:
    """Decide `cleared` nodes anew. decided: those of them whose new state a person has named (a final one)."""
    outcome = Outcome()
    changes = graph.reopened(set(cleared))
    fenced = store.rows(
        "fence_executions",
        {"run": UUID(bytes=run.id), "nodes": int8s(sorted(cleared)), "actor": actor, "reason": reason},
    )
    outcome.changed += [(tenant, identity) for identity, tenant in fenced]
    run.queued = run.queued or _has_no_place(connection, store, run)
    _write(connection, store, run, graph, cleared, changes)
    run.status, run.ending = RunStatus.RUNNING, None
    work = Propagation({run.id: run}, reader(store))
    keys = [(run.id, node) for node in sorted({*cleared, *changes.again})]
    nodes = {node.node: node for node in store.nodes(keys)}
    for position in changes.again:
        work.again(nodes[position])
    for position in sorted(cleared):
        if position in decided:
            work.end(nodes[position], decided[position], {"type": "Marked", "message": reason})
    for position in sorted(cleared):
        if position not in decided and nodes[position].counts.open == 0:
            work.consider(nodes[position])
    work.finish()
    stopped = write(store, work, outcome)
    if stopped:
        later = settle(connection, stopped)
        outcome.changed += later.changed
        outcome.ended += later.ended
    return outcome


def _write(
    connection: psycopg.Connection,
    store: RunStore,
    run: Run,
    graph: Graph,
    cleared: Collection[int],
    changes: Reopened,
) -> None:
    where = {"run": UUID(bytes=run.id)}
    if changes.edges:
        parents, children = [p for p, _ in changes.edges], [c for _, c in changes.edges]
        store.execute("reopen_edges", where | {"parents": int8s(parents), "children": int8s(children)})
    store.execute("forget_items", where | {"nodes": int8s(sorted(cleared))})
    ordered = sorted(changes.nodes)
    counts = [changes.nodes[node][0] for node in ordered]
    values = {name: int8s([getattr(one, name) for one in counts]) for name in counts[0]._fields}
    kept = [changes.nodes[node][1] for node in ordered]
    store.execute("reopen_nodes", where | values | {"nodes": int8s(ordered), "kept": kept})
    count = sum(graph.states[node] in FINAL for node in cleared)
    store.execute("reopen_run", where | {"count": count, "queued": run.queued})


def _has_no_place(connection: psycopg.Connection, store: RunStore, run: Run) -> bool:
    """Whether a run that had ended must wait, for as many of its DAG as may are active, or wait already."""
    if run.status is RunStatus.RUNNING:
        return False
    limited = store.rows("lock_limited_dag", {"run": UUID(bytes=run.id)})
    return any(active_runs(connection, dag_id=UUID(bytes=dag)).asked >= most for dag, most in limited)
