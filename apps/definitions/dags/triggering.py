"""Runs that a person or a program asks for."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.dags import parameters_schema
from apps.definitions.dags.making import locked_dag, record
from apps.definitions.dags.planning import plan_of
from apps.definitions.models import Dag
from apps.definitions.trigger_input import Item, past_problem, read_items
from apps.definitions.triggering import ensure_partitions
from apps.definitions.validation import check_parameters
from apps.executions import feed, idempotency, ids, person_store
from apps.executions.dags.runs import LEAD, active_runs, start_run
from apps.executions.states import Origin
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup
from chronoweb.runtime.config import config
from chronoweb.runtime.errors import Conflict, InvalidInput, InvalidInputs

MOST_QUEUED = 1000
"""Runs of a DAG that may wait."""


@transaction.atomic
def trigger_dag(
    *, principal: Principal, dag_id: UUID, run_at: Any = None, parameters: Any = None, idempotency_key: Any = None
) -> UUID:
    """Ask for one run, now or at `run_at`. Returns the run's id.

    parameters: over the DAG's own, name by name; together they must fit its parameters_schema. run_at and
    idempotency_key as for a task. A paused DAG runs all the same. While max_active_runs runs are active the run waits,
    behind those that wait already; one for later takes no place before its time.

    Raises InvalidInputs, NotFound; Conflict when too many wait.
    """
    connection = postgres.raw(django_connection)
    dag = locked_dag(principal, dag_id)
    now = person_store.database_now(connection)
    given = {"run_at": run_at, "parameters": parameters, "idempotency_key": idempotency_key}
    item = read_items(dag, [given], [""], now=now)[0]
    key = None if item.key is None else f"trigger:{dag.id}:{item.key}"
    if key is not None and (earlier := _asked_before(dag, key, item)) is not None:
        return earlier
    if late := past_problem(item, "", now=now):
        raise InvalidInputs([late])
    merged = run_parameters(dag, parameters)
    queued = _has_to_wait(dag, later=item.run_at > now + LEAD)
    ensure_partitions([ids.new_id(ids.to_ms(item.run_at))], now)
    run = start_run(
        connection,
        plan_of(dag),
        parameters=merged,
        origin=Origin.MANUAL,
        nominal_at=item.run_at,
        run_at=item.run_at,
        idempotency_key=None if item.key is None else f"{dag.id}#{item.key}",
        actor=principal.actor,
        queued=queued,
    )
    if key is not None:
        answer = {"id": str(run)}
        idempotency.answer(connection, tenant_id=dag.tenant_id, key=key, status=202, body=answer)
    record(principal, dag, "dag.trigger", run=str(run), version=dag.version, queued=queued)
    transaction.on_commit(wakeup.preloader.wake)
    transaction.on_commit(lambda: feed.changed(dag.tenant_id, [run]))
    return run


def run_parameters(dag: Dag, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The parameters of a run: the DAG's, and over them what was given. Raises InvalidInputs ("/parameters/…")."""
    merged = {**dag.parameters, **(given or {})}
    errors = [
        InvalidInput(f"/parameters{e.pointer}", e.value, e.problem, e.legal)
        for e in parameters_schema.misfits(dag.parameters_schema, merged)
    ]
    if error := check_parameters(merged, "/parameters"):
        errors.append(error)
    if errors:
        raise InvalidInputs(errors)
    return merged


def nominal_key(dag: Dag, nominal: datetime) -> str:
    """The key of an occurrence's run: one run for ever, whoever starts it."""
    return f"{dag.id}@{nominal.isoformat()}"


def _asked_before(dag: Dag, key: str, item: Item) -> UUID | None:
    """The run that this key stands for already; the key is taken if it is new."""
    connection = postgres.raw(django_connection)
    used = idempotency.take(
        connection, tenant_id=dag.tenant_id, keys={key: item.question}, days=config().idempotency_days
    ).get(key)
    if used is None:
        return None
    if used.body_hash != item.question:
        problem = "was used for another run_at or other parameters"
        raise InvalidInputs([InvalidInput("/idempotency_key", item.key, problem, "a key of its own")])
    return UUID(used.body["id"])


def _has_to_wait(dag: Dag, *, later: bool) -> bool:
    if dag.max_active_runs is None:
        return later
    runs = active_runs(postgres.raw(django_connection), dag_id=dag.id)
    if later and runs.later >= MOST_QUEUED:
        raise Conflict(f"{runs.later} runs of DAG {dag.name!r} wait for their time already: cancel some")
    if not later and runs.queued >= MOST_QUEUED:
        raise Conflict(
            f"{runs.queued} runs of DAG {dag.name!r} wait already until one of {runs.begun} active ones has ended "
            f"(max_active_runs is {dag.max_active_runs}): cancel some, or raise it",
            queued_runs=runs.queued,
            active_runs=runs.begun,
            max_active_runs=dag.max_active_runs,
        )
    return later or runs.asked >= dag.max_active_runs
