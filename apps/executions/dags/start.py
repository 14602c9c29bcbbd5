"""A run begins: its plan is copied into the ledger, and what depends on nothing is released."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import psycopg

from apps.executions import ids, person_store
from apps.executions.dags.plan import DagPlan
from apps.executions.dags.propagation import Propagation
from apps.executions.dags.rows import Run
from apps.executions.dags.settle import Outcome, reader, write
from apps.executions.dags.states import RunStatus
from apps.executions.states import Origin
from apps.executions.store.dags import RunStore
from apps.executions.store.statements import named_sql
from chronoweb.runtime import trace
from chronoweb.runtime.postgres import int2s, int8s, texts, uuids


def start_run(
    connection: psycopg.Connection,
    plan: DagPlan,
    *,
    parameters: Mapping[str, Any] | None = None,
    origin: Origin = Origin.MANUAL,
    nominal_at: datetime | None = None,
    run_at: datetime | None = None,
    idempotency_key: str | None = None,
    actor: str,
    queued: bool = False,
) -> UUID:
    """Start a run of `plan`, due at `run_at` (None: now), and release its first nodes; returns the run's id.

    queued: it waits, until `queue.begin_queued` lets it begin, which is not before its time is near.

    connection: in a transaction (`postgres.raw` of Django's, or psycopg's); after the commit the caller wakes the
    preloader. nominal_at: the logical time the run stands for; unless it is a backfill, the run and its executions
    have it as their scheduled_at, so its day must have a partition. The same key of the same DAG and time is the same
    run.
    """
    now = person_store.database_now(connection)
    run_at = run_at or now
    # A backfill stands for the past and runs now: the days of the past may have no partition any more.
    moment = ids.to_ms(run_at if nominal_at is None or origin is Origin.BACKFILL else nominal_at)
    identity = ids.new_id(moment)
    store = RunStore(connection, ids.day(identity))
    key = idempotency_key or str(UUID(bytes=identity))
    values = {
        "id": UUID(bytes=identity),
        "scheduled": ids.from_ms(moment),
        "run": run_at,
        "nominal": nominal_at,
        "tenant": plan.tenant_id,
        "dag": plan.dag_id,
        "version": plan.version_id,
        "timeout": plan.run_timeout_seconds,
        "nodes": len(plan.nodes),
        "policy": int(plan.failure_policy),
        "origin": int(origin),
        "actor": actor,
        "key": key,
        "parameters": json.dumps(dict(parameters or {})),
        "queued": queued,
        "trace": trace.current(),
    }
    if not store.rows("insert_run", values):
        [(existing,)] = store.rows("find_run", {name: values[name] for name in ("dag", "key", "scheduled")})
        return UUID(bytes=existing)
    _copy(connection, plan, identity)
    if not queued:
        _release_first(store, plan, identity)
    return UUID(bytes=identity)


LEAD = timedelta(seconds=2)
"""How long before it is due a run begins, so that its first executions are where they run when their time has come."""


class ActiveRuns(NamedTuple):
    """How many runs of a DAG have begun and not ended, how many wait to begin, and how many are to begin later."""

    begun: int
    queued: int
    later: int

    @property
    def asked(self) -> int:
        """Those that a run which is due now comes after."""
        return self.begun + self.queued


def active_runs(connection: psycopg.Connection, *, dag_id: UUID) -> ActiveRuns:
    """Count them."""
    row = connection.execute(named_sql("active_runs"), {"dag": dag_id, "lead": LEAD}).fetchone()
    assert row is not None
    return ActiveRuns(*row)


def _copy(connection: psycopg.Connection, plan: DagPlan, run: bytes) -> None:
    day = ids.day(run)
    where = {"run": UUID(bytes=run), "scheduled": ids.from_ms(ids.milliseconds(run))}
    parents: dict[int, list[int]] = {node.index: [] for node in plan.nodes}
    for edge in plan.edges:
        parents[edge.child].append(edge.parent)
    nodes = plan.nodes
    connection.execute(
        named_sql("insert_nodes", day),
        where
        | {
            "nodes": int8s([n.index for n in nodes]),
            "names": texts([n.node_id.encode() for n in nodes]),
            "tasks": uuids([n.task_id.bytes for n in nodes]),
            "versions": int8s([n.version_id for n in nodes]),
            "kinds": int2s([n.kind for n in nodes]),
            "rules": int2s([n.trigger_rule for n in nodes]),
            "priorities": int2s([n.priority for n in nodes]),
            "max_attempts": int8s([n.max_attempts for n in nodes]),
            "queue_seconds": int8s([n.queue_seconds for n in nodes]),
            "parents": texts([f"{{{','.join(map(str, parents[n.index]))}}}".encode() for n in nodes]),
            "map_over": texts([None if n.map_over is None else n.map_over.encode() for n in nodes]),
            "approvals": texts([_document(n.approval) for n in nodes]),
            "routes": int8s([n.route_id for n in nodes]),
            "concurrency_keys": texts(
                [None if n.concurrency_key is None else n.concurrency_key.encode() for n in nodes]
            ),
        },
    )
    if plan.edges:
        connection.execute(
            named_sql("insert_edges", day),
            where
            | {
                "parents": int8s([e.parent for e in plan.edges]),
                "children": int8s([e.child for e in plan.edges]),
                "conditions": texts([_document(e.condition) for e in plan.edges]),
            },
        )


def _release_first(store: RunStore, plan: DagPlan, run: bytes) -> None:
    """Nobody else can see the run yet, so it need not be locked."""
    made = Run(run, plan.tenant_id.bytes, RunStatus.RUNNING, None, plan.failure_policy, paused=False)
    work = Propagation({run: made}, reader(store))
    children = {edge.child for edge in plan.edges}
    for node in store.nodes([(run, n.index) for n in plan.nodes if n.index not in children]):
        work.consider(node)
    work.finish()
    write(store, work, Outcome())


def _document(value: Mapping[str, Any] | None) -> bytes | None:
    return None if value is None else json.dumps(dict(value)).encode()
