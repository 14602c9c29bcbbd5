"""Reading DAGs: always a tenant's, deleted ones never."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.definitions.dags.making import live_dags
from apps.definitions.dags.versions import document_of
from apps.definitions.models import Dag
from apps.executions.models import DagVersion
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped, scoped_get
from chronoweb.runtime.errors import NotFound

_LARGEST = 2**31 - 1  # what the column holds


def dag(principal: Principal, dag_id: UUID) -> Dag:
    """One DAG. Raises NotFound, for ids of other tenants too."""
    return scoped_get(live_dags(), principal, what="DAG", id=dag_id)


def dags(principal: Principal) -> QuerySet[Dag]:
    """The tenant's DAGs."""
    return scoped(live_dags(), principal)


def document_named(principal: Principal, name: str) -> dict[str, Any]:
    """The document in force of the DAG of this name. Raises NotFound."""
    return document_of(scoped_get(live_dags(), principal, what="DAG", name=name))


def versions(principal: Principal, dag_id: UUID) -> QuerySet[DagVersion]:
    """The versions of a DAG, newest first, without their documents. Raises NotFound."""
    found = dag(principal, dag_id)
    return DagVersion.objects.filter(dag_id=found.id).order_by("-number").defer("definition")


def version(principal: Principal, dag_id: UUID, number: int) -> DagVersion:
    """One version of a DAG. Raises NotFound."""
    owner = dag(principal, dag_id)
    found = DagVersion.objects.filter(dag_id=owner.id, number=number).first() if number <= _LARGEST else None
    if found is None:
        raise NotFound(f"DAG {dag_id} has no version {number}")
    return found
