"""Whether a DAG's schedule runs at all: pause, resume, delete. Runs that have begun go on, and have their own pause."""

from datetime import timedelta
from uuid import UUID

from django.db import connection as django_connection
from django.db import transaction

from apps.definitions.dags.making import locked_dag, mismatch_of, record
from apps.definitions.models import Dag
from apps.definitions.occurrences import Schedule, next_occurrence
from apps.definitions.plans import earliest_still_due
from apps.definitions.standing import check_note
from apps.executions import person_store
from apps.tenants.principal import Principal
from chronoweb.runtime import postgres, wakeup

_TICK = timedelta(microseconds=1)


@transaction.atomic
def pause_dag(*, principal: Principal, dag_id: UUID, note: str = "") -> Dag:
    """Stop the DAG's schedule until it is resumed; triggers of persons still run. Raises NotFound, InvalidInputs."""
    check_note(note)
    dag = locked_dag(principal, dag_id)
    dag.paused_at = dag.paused_at or person_store.database_now(postgres.raw(django_connection))
    dag.paused_note = note
    dag.save(update_fields=["paused_at", "paused_note", "updated_at"])
    record(principal, dag, "dag.pause", note=note)
    return dag


@transaction.atomic
def resume_dag(*, principal: Principal, dag_id: UUID) -> Dag:
    """Let a paused DAG's schedule go on: occurrences of the pause within the catch-up window run, older ones do not.

    Nothing happens to one that is not paused. Raises NotFound.
    """
    dag = locked_dag(principal, dag_id)
    if dag.paused_at is None:
        return dag
    schedule = Schedule.parse(dag.schedule)
    now = person_store.database_now(postgres.raw(django_connection))
    edge = earliest_still_due(dag, schedule.type, now=now)
    dag.paused_at, dag.paused_note, dag.waiting_since = None, "", None
    if dag.next_fire_at is not None and dag.next_fire_at < edge:
        dag.next_fire_at = next_occurrence(schedule, after=edge - _TICK)
    dag.save(update_fields=["paused_at", "paused_note", "waiting_since", "next_fire_at", "updated_at"])
    record(principal, dag, "dag.resume")
    transaction.on_commit(wakeup.preloader.wake)
    return dag


@transaction.atomic
def delete_dag(*, principal: Principal, dag_id: UUID, expected_version: int | None = None) -> None:
    """Take the DAG out of force: nothing starts it any more. Its runs go on; versions and history stay.

    Raises NotFound; VersionMismatch unless this version is in force.
    """
    dag = locked_dag(principal, dag_id)
    if expected_version is not None and expected_version != dag.version:
        raise mismatch_of(dag, expected_version, None)
    dag.deleted_at = person_store.database_now(postgres.raw(django_connection))
    dag.next_fire_at = None
    dag.save(update_fields=["deleted_at", "next_fire_at", "updated_at"])
    record(principal, dag, "dag.delete", name=dag.name)
