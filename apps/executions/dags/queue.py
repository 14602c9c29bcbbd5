"""Runs that wait, for their time or while as many of their DAG as may are active: the oldest begins first."""

from uuid import UUID

import psycopg

from apps.executions import ids
from apps.executions.dags.propagation import Propagation
from apps.executions.dags.rows import Run
from apps.executions.dags.settle import Outcome, reader, write
from apps.executions.dags.start import LEAD
from apps.executions.store.dags import RunStore
from apps.executions.store.statements import fetch_ids, named_sql


def dags_that_wait(connection: psycopg.Connection, *, limit: int) -> dict[UUID, int]:
    """DAGs that have such runs, and whose time has come → how many of each have begun and not ended; first the one of
    which a run has waited longest.
    """
    found = connection.cursor(binary=True).execute(named_sql("dags_with_queued_runs"), {"limit": limit, "lead": LEAD})
    return {UUID(bytes=dag): begun for dag, begun in found}


def begin_queued(connection: psycopg.Connection, *, dag_id: UUID, most: int) -> Outcome:
    """Let up to `most` runs of a DAG begin, the oldest first. In the caller's transaction, which has locked the DAG."""
    outcome = Outcome()
    for run in fetch_ids(connection, named_sql("queued_runs"), {"dag": dag_id, "limit": most, "lead": LEAD}):
        store = RunStore(connection, ids.day(run))
        found = store.lock([run]).get(run)
        if found is not None and found.queued and found.ending is None:
            store.execute("leave_queue", {"run": UUID(bytes=run)})
            found.queued = False
            release_ready(store, found, outcome)
            outcome.started.append(run)
    return outcome


def release_ready(store: RunStore, run: Run, outcome: Outcome) -> None:
    """Decide about every node of a locked run that has waited for nothing but the run."""
    work = Propagation({run.id: run}, reader(store))
    rows = store.rows("ready_nodes", {"run": UUID(bytes=run.id)})
    for node in store.nodes([(found, position) for found, position in rows]):
        work.consider(node)
    work.finish()
    write(store, work, outcome)
