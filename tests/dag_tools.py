"""Runs of DAGs in a test's own ledger: plans from a few words, and attempts that end as the test says."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from apps.executions import ids, store
from apps.executions.dags.completion import finish_of_runs
from apps.executions.dags.plan import DagPlan, FailurePolicy, NodeKind, PlannedEdge, PlannedNode, TriggerRule
from apps.executions.dags.start import start_run
from apps.executions.dags.states import NodeState, RunStatus
from apps.executions.rows import Finish
from apps.executions.states import Outcome, Overlap, Status
from apps.executions.store.statements import scheduled_of
from chronoweb.runtime import postgres
from tests.stack import EPOCH, Ledger

WORKER = 1


def node(name: str, **fields: Any) -> dict[str, Any]:
    """A node for `plan`: rule (a word), kind, map_over, approval, version, max_attempts, priority, route_id,
    concurrency_key.
    """
    return {"name": name, **fields}


def plan(
    ledger: Ledger,
    nodes: Iterable[Any],
    edges: Iterable[tuple[Any, ...]] = (),
    *,
    policy: FailurePolicy = FailurePolicy.SKIP_DOWNSTREAM,
    timeout: int | None = None,
) -> DagPlan:
    """nodes: names, or what `node` makes. edges: (parent, child) or (parent, child, condition), by name."""
    described: list[dict[str, Any]] = [{"name": n} if isinstance(n, str) else n for n in nodes]
    index = {n["name"]: position for position, n in enumerate(described)}
    return DagPlan(
        dag_id=ids.new_uuid7(3),
        version_id=1,
        tenant_id=UUID(bytes=ledger.tenant),
        nodes=tuple(
            PlannedNode(
                index=position,
                node_id=n["name"],
                task_id=UUID(bytes=ledger.task),
                version_id=n.get("version", ledger.version),
                trigger_rule=TriggerRule[n.get("rule", "all_success").upper()],
                priority=n.get("priority", 5),
                max_attempts=n.get("max_attempts", 1),
                queue_seconds=None,
                kind=NodeKind.MAPPED if "map_over" in n else NodeKind.APPROVAL if "approval" in n else NodeKind.TASK,
                map_over=n.get("map_over"),
                approval=n.get("approval"),
                route_id=n.get("route_id", 0),
                concurrency_key=n.get("concurrency_key"),
            )
            for position, n in enumerate(described)
        ),
        edges=tuple(PlannedEdge(index[e[0]], index[e[1]], e[2] if len(e) > 2 else None) for e in edges),
        failure_policy=policy,
        run_timeout_seconds=timeout,
        max_active_runs=None,
        overlap=Overlap.ALLOW_ALL,
    )


def when(parent: str, operator: str, value: Any, path: str = "$") -> dict[str, Any]:
    """A condition."""
    return {"parent": parent, "path": path, "op": operator, "value": value}


@dataclass
class Runs:
    """Runs in a ledger, driven without daemons: what is released waits until the test ends it."""

    ledger: Ledger
    names: dict[bytes, list[str]] = field(default_factory=dict)
    worker: int = WORKER

    def start(self, made: DagPlan, **options: Any) -> bytes:
        with self.ledger.connection.transaction():
            run = start_run(self.ledger.connection, made, actor="test", **options).bytes
        self.names[run] = [n.node_id for n in made.nodes]
        return run

    def executions(self, run: bytes, name: str | None = None, *, waiting: bool = False) -> list[dict[str, Any]]:
        """Executions of a run, of one node, or only those that no worker has had yet; in order."""
        query = "SELECT * FROM executions WHERE dag_run_id = encode(%s, 'hex')::uuid"
        if waiting:
            query += " AND status IN (0, 1, 5)"
        rows = self.ledger.select(query + " ORDER BY dag_node, dag_generation, dag_item", run)
        return [row for row in rows if name is None or self.names[run][row["dag_node"]] == name]

    def waiting(self, run: bytes) -> list[str]:
        """What may run now: `name` or `name[item]`."""
        return [self._called(run, row) for row in self.executions(run, waiting=True)]

    def _called(self, run: bytes, row: Mapping[str, Any]) -> str:
        item = "" if row["dag_item"] is None else f"[{row['dag_item']}]"
        return self.names[run][row["dag_node"]] + item

    def begin(self, identities: Sequence[bytes]) -> None:
        """Have a worker claim them."""
        parameters = {"ids": postgres.uuids(identities), "scheduled": scheduled_of(identities)}
        self.ledger.connection.execute(_BEGIN, {**parameters, "token": EPOCH << 32, "worker": self.worker})

    def finish(self, ends: Mapping[bytes, Any]) -> set[bytes]:
        """End attempts that have begun: id → a Status, or a result of a success (any other value)."""
        written, _ = finish_of_runs(self.ledger.connection, self.ends(ends), worker_id=self.worker)
        return written

    def ends(self, ends: Mapping[bytes, Any]) -> list[Finish]:
        """What a worker would write of attempts that have begun."""
        ordered = sorted(ends)
        parameters = {"ids": postgres.uuids(ordered), "scheduled": scheduled_of(ordered)}
        rows = self.ledger.connection.cursor(binary=True).execute(_BEGUN, parameters).fetchall()
        begun = {identity: (token, attempt) for identity, token, attempt in rows}
        now = self.ledger.now_us()
        return [self._end(identity, ends[identity], *begun[identity], now) for identity in ordered]

    def _end(self, identity: bytes, how: Any, token: int, attempt: int, now: int) -> Finish:
        target = how if isinstance(how, Status) else Status.COMPLETED
        return Finish(
            id=identity,
            token=token,
            attempt=attempt,
            target=target,
            outcome=Outcome.SUCCEEDED if target is Status.COMPLETED else Outcome.FAILED,
            due_us=now,
            started_us=now,
            finished_us=now,
            delay_us=0 if target is Status.RETRYING else None,
            result=None if isinstance(how, Status) else json.dumps(how).encode(),
            error=b'{"type": "ValueError", "message": "no"}' if target is Status.DEAD_LETTER else None,
            fingerprint=b"ValueError: no" if target is Status.DEAD_LETTER else None,
        )

    def take_back(self, identities: Sequence[bytes]) -> None:
        """What the watchdog does with what a dead worker held: those of them that have not ended wait again."""
        parameters = {"ids": postgres.uuids(identities), "scheduled": scheduled_of(identities)}
        rows = self.ledger.connection.cursor(binary=True).execute(_BEGUN, parameters).fetchall()
        taken = [(identity, token) for identity, token, _ in rows]
        store.reclaim(self.ledger.connection, taken, reason="its worker died", actor="test")

    def end(self, run: bytes, **how: Any) -> None:
        """Run what waits of these nodes to its end: name → a Status or a result; items as `{item: …}` in `name`."""
        rows = {self._called(run, row): row["id"].bytes for row in self.executions(run, waiting=True)}
        ends: dict[bytes, Any] = {}
        for name, outcome in how.items():
            if name in rows:
                ends[rows[name]] = outcome
                continue
            items = {key: identity for key, identity in rows.items() if key.startswith(f"{name}[")}
            assert items, (name, "does not wait", sorted(rows))
            many = outcome if isinstance(outcome, dict) else dict.fromkeys(range(len(items)), outcome)
            ends |= {rows[f"{name}[{item}]"]: value for item, value in many.items()}
        self.begin(list(ends))
        assert self.finish(ends) == set(ends)

    def states(self, run: bytes) -> dict[str, str]:
        """name → the state's word."""
        rows = self.nodes(run)
        return {name: NodeState(row["state"]).word for name, row in rows.items()}

    def nodes(self, run: bytes) -> dict[str, dict[str, Any]]:
        query = "SELECT * FROM run_nodes WHERE run_id = encode(%s, 'hex')::uuid ORDER BY node"
        return {row["node_id"]: row for row in self.ledger.select(query, run)}

    def run(self, run: bytes) -> dict[str, Any]:
        [row] = self.ledger.select("SELECT * FROM dag_runs WHERE id = encode(%s, 'hex')::uuid", run)
        return row

    def status(self, run: bytes) -> str:
        return RunStatus(self.run(run)["status"]).word


_BEGUN = """
SELECT e.id, e.token, e.attempt FROM unnest(%(ids)s, %(scheduled)s) v(id, s)
JOIN executions e ON e.scheduled_at = v.s AND e.id = v.id
"""

_BEGIN = """
WITH u AS (
    UPDATE executions e SET status = 3, token = e.token + %(token)s, attempt = e.attempt + 1,
        worker_id = %(worker)s, wake_at = NULL
    FROM unnest(%(ids)s, %(scheduled)s) v(id, s) WHERE e.scheduled_at = v.s AND e.id = v.id RETURNING e.*
)
INSERT INTO outstanding (execution_id, scheduled_at, worker_id, class, tenant_id, token, dispatched_at)
SELECT id, scheduled_at, worker_id, class, tenant_id, token, clock_timestamp() FROM u
"""
