"""DAGs and their runs: one of each shape by the service, and a thousand like them; some runs that wait in a queue."""

from collections.abc import Callable, Iterator
from random import Random
from secrets import token_hex
from typing import Any
from uuid import UUID

import psycopg

from apps.definitions.dags import making
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.models import Dag
from apps.executions import ids
from apps.executions.dags.states import EdgeOutcome, NodeState, RunStatus
from apps.executions.states import Origin, Outcome, Overlap, Status
from apps.quickstart.seeding import lines
from apps.quickstart.seeding.ledger import ATTEMPTS, TOKEN
from apps.quickstart.seeding.lines import NULL, Row, instant
from apps.quickstart.seeding.sizes import RUNS_EACH
from apps.tenants.principal import Principal

_NOOP = "demo.noop"
WIDE_NODES = 500
QUEUED = 3
_EXECUTIONS = (
    "id scheduled_at run_at created_at dispatched_at started_at finished_at token tenant_id task_id task_version_id"
    " worker_id version attempt max_attempts status hold class priority origin overlap idempotency_key dag_run_id"
    " dag_node dag_generation"
).split()


def documents() -> dict[str, dict[str, Any]]:
    """Shapes by name."""
    schedule = {"type": "cron", "expression": "30 2 * * *", "timezone": "UTC"}
    small = [_node("extract"), _node("clean", "extract"), _node("score", "extract"), _node("publish", "clean", "score")]
    chain = [_node(f"step-{n}", *([f"step-{n - 1}"] if n else [])) for n in range(8)]
    return {
        "nightly": {"nodes": small, "schedule": schedule, "tags": ["nightly", "sales"]},
        "pipeline": {"nodes": chain, "schedule": schedule, "tags": ["etl"]},
    }


def wide() -> list[dict[str, Any]]:
    """WIDE_NODES nodes in ten columns; each waits for two of the column before."""
    rows = WIDE_NODES // 10
    return [
        _node(f"n{column}-{row}", *([f"n{column - 1}-{(row + k) % rows}" for k in range(2)] if column else []))
        for column in range(10)
        for row in range(rows)
    ]


def _node(name: str, *parents: str) -> dict[str, Any]:
    return {"id": name, "handler": _NOOP, **({"depends_on": list(parents)} if parents else {})}


def seed_dags(
    connection: psycopg.Connection,
    principal: Principal,
    count: int,
    *,
    random: Random,
    now_ms: int,
    days: int,
    done: Callable[[int], None],
) -> None:
    """`count` DAGs with RUNS_EACH runs; one of WIDE_NODES nodes with as many; one whose runs wait for each other."""
    made = token_hex(3)
    shapes = [_shape(connection, principal, f"{name}-{made}", body) for name, body in documents().items()]
    for number in range(count):
        shape = shapes[number % len(shapes)]
        dag_id = _copy_dag(connection, shape, f"{shape.name}-{number:04d}", random, now_ms)
        times = [now_ms - 60_000 - random.randrange((days - 1) * ids.MILLISECONDS_A_DAY or 1) for _ in range(RUNS_EACH)]
        _write(connection, [shape.run(dag_id, at, random) for at in times])
        done(1)
    broad = _shape(connection, principal, f"five-hundred-{made}", {"nodes": wide(), "tags": ["wide"]})
    times = [now_ms - 60_000 - 3_600_000 * hour for hour in range(RUNS_EACH)]
    _write(connection, [broad.run(broad.rows["dag"][0]["id"], at, random) for at in times])
    queue(principal, f"waits-for-itself-{made}")


def queue(principal: Principal, name: str) -> Dag:
    """A DAG of which one run is active and QUEUED wait."""
    body = {"name": name, "nodes": documents()["nightly"]["nodes"], "max_active_runs": 1}
    dag = making.create_dag(principal=principal, data=body)
    for _ in range(QUEUED + 1):
        trigger_dag(principal=principal, dag_id=dag.id, parameters={})
    return dag


class _Shape:
    """A DAG that the service has made and started once, as rows."""

    def __init__(self, name: str, rows: dict[str, list[Row]]) -> None:
        self.name = name
        self.rows = rows

    def run(self, dag_id: str, at: int, random: Random) -> dict[str, list[Any]]:
        """An ended run that began at `at` (ms): its rows, and the lines of its executions and attempts."""
        identity, failed = ids.new_id(at).hex(), random.random() < 0.08
        [pattern] = self.rows["run"]
        last = len(self.rows["nodes"]) - 1
        took = 1000 * len(self.rows["nodes"])
        status = RunStatus.PARTIALLY_COMPLETED if failed else RunStatus.SUCCEEDED
        run = pattern | {"id": identity, "dag_id": dag_id, "scheduled_at": instant(at), "run_at": instant(at)}
        run |= {"created_at": instant(at), "finished_at": instant(at + took), "status": str(int(status))}
        run |= {"open_nodes": "0", "idempotency_key": identity, "version": "9"}
        made: dict[str, list[Any]] = {
            "dag_runs": [run],
            "run_nodes": [],
            "task_dependencies": [],
            "lines": [],
            "tried": [],
        }
        for position, row in enumerate(self.rows["nodes"]):
            bad = failed and position == last
            begin, end = at + 1000 * position, at + 1000 * position + 900
            execution = ids.new_id(at).hex()
            state = NodeState.FAILED if bad else NodeState.SUCCEEDED
            node = row | {"run_id": identity, "scheduled_at": instant(at), "execution_id": execution, "open": "0"}
            node |= {"state": str(int(state)), "released_at": instant(begin), "finished_at": instant(end)}
            made["run_nodes"].append(node | {"revision": "4"})
            made["lines"].append(_execution(run, node, execution, at, begin, end, bad))
            made["tried"].append(_attempt(run, execution, at, begin, end, bad))
        for edge in self.rows["edges"]:
            brought = {"outcome": str(int(EdgeOutcome.SUCCESS)), "run_id": identity, "scheduled_at": instant(at)}
            made["task_dependencies"].append(edge | brought)
        return made


def _execution(run: Row, node: Row, identity: str, at: int, begin: int, end: int, bad: bool) -> str:
    status = Status.CANCELLED if bad else Status.COMPLETED
    begun = instant(begin + 3)
    values = [identity, instant(at), instant(begin), instant(begin), instant(begin), begun, instant(end), str(TOKEN)]
    values += [run["tenant_id"], node["task_id"], node["version_id"], "1", "4", "1", node["max_attempts"]]
    values += [str(int(status)), "0", "1", node["priority"], str(int(Origin.DAG)), str(int(Overlap.ALLOW_ALL))]
    return "\t".join([*values, f"{run['id']}#{node['node']}", run["id"], node["node"], "1"])


def _attempt(run: Row, identity: str, at: int, begin: int, end: int, bad: bool) -> str:
    outcome = str(int(Outcome.FAILED if bad else Outcome.SUCCEEDED))
    error = lines.document({"type": "ValueError", "message": "no rows"}) if bad else NULL
    times = (instant(begin), instant(begin + 3), instant(end))
    return "\t".join((instant(at), identity, "1", str(TOKEN), run["tenant_id"], "1", outcome, *times, error))


def _write(connection: psycopg.Connection, runs: list[dict[str, list[Any]]]) -> None:
    with connection.transaction():
        for table in ("dag_runs", "run_nodes", "task_dependencies"):
            lines.write(connection, table, _all(runs, table))
        lines.write_lines(connection, "executions", _EXECUTIONS, _all(runs, "lines"))
        lines.write_lines(connection, "attempts", ATTEMPTS, _all(runs, "tried"))


def _all(runs: list[dict[str, list[Any]]], table: str) -> Iterator[Any]:
    return (row for run in runs for row in run[table])


def _shape(connection: psycopg.Connection, principal: Principal, name: str, body: dict[str, Any]) -> _Shape:
    """Made, started once, and read."""
    dag = making.create_dag(principal=principal, data={"name": name, **body})
    run = trigger_dag(principal=principal, dag_id=dag.id, parameters={})
    where = {"dag": dag.id, "run": run, "at": ids.scheduled_at(run)}
    queries: dict[str, Any] = {
        "dag": "SELECT * FROM dags WHERE id = %(dag)s",
        "versions": "SELECT * FROM dag_versions WHERE dag_id = %(dag)s",
        "dag_nodes": "SELECT * FROM dag_nodes WHERE dag_id = %(dag)s",
        "dag_edges": "SELECT * FROM dag_edges WHERE dag_id = %(dag)s",
        "run": "SELECT * FROM dag_runs WHERE id = %(run)s AND scheduled_at = %(at)s",
        "nodes": "SELECT * FROM run_nodes WHERE run_id = %(run)s AND scheduled_at = %(at)s ORDER BY node",
        "edges": "SELECT * FROM task_dependencies WHERE run_id = %(run)s AND scheduled_at = %(at)s",
    }
    return _Shape(name, {key: lines.read(connection, query, where) for key, query in queries.items()})


def _copy_dag(connection: psycopg.Connection, shape: _Shape, name: str, random: Random, now_ms: int) -> str:
    """Another DAG of the shape; returns its id. Its runs name the shape's version: nobody edits either."""
    changed = now_ms - random.randrange(30 * ids.MILLISECONDS_A_DAY)
    identity = ids.new_id(changed).hex()
    [dag] = shape.rows["dag"]
    fresh = {row["id"]: ids.new_id(changed).hex() for row in shape.rows["dag_nodes"]}
    named = {"id": identity, "name": name, "created_at": instant(changed), "updated_at": instant(changed)}
    versions = [_without_id(row) | {"dag_id": identity, "name": name} for row in shape.rows["versions"]]
    nodes = [row | {"id": fresh[row["id"]], "dag_id": identity} for row in shape.rows["dag_nodes"]]
    edges = [
        _without_id(row)
        | {"dag_id": identity, "parent_id": fresh[row["parent_id"]], "child_id": fresh[row["child_id"]]}
        for row in shape.rows["dag_edges"]
    ]
    with connection.transaction():
        lines.write(connection, "dag_versions", versions)
        lines.write(connection, "dags", [dag | named])
        lines.write(connection, "dag_nodes", nodes)
        lines.write(connection, "dag_edges", edges)
    return str(UUID(hex=identity))


def _without_id(row: Row) -> Row:
    """The table numbers its rows itself."""
    return {column: value for column, value in row.items() if column != "id"}
