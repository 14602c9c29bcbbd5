"""What an execution came from and led to: a retry of another, a node of a run, an error that others share."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.executions.dags.models import DagRun, RunNode
from apps.executions.models import DagVersion, DeadLetter, Execution
from apps.executions.states import RESTING, Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

_LOOKED_THROUGH = 1000
"""Executions of its task that came after it, among which its retries are sought: none names what it is retried by."""
_RETRIES = 5


@dataclass(frozen=True)
class Lineage:
    """rerun_of: what it is a retry of. retries: what it was retried by, oldest first. run, node, dag: of the run of a
    DAG; node is empty where the run is gone. fingerprint: what it failed of, where it is a dead letter.
    """

    rerun_of: UUID | None
    retries: list[UUID]
    run: UUID | None
    node: str
    dag: str
    fingerprint: str


def read(principal: Principal, execution: Execution, *, now: datetime) -> Lineage:
    """At most four queries."""
    node, dag = _of_run(principal, execution)
    fingerprint = ""
    if execution.state is Status.DEAD_LETTER:
        letters = scoped(DeadLetter.objects.all(), principal).filter(execution_id=execution.id)
        fingerprint = letters.values_list("fingerprint", flat=True).first() or ""
    return Lineage(
        execution.rerun_of, _retries(principal, execution, now), execution.dag_run_id, node, dag, fingerprint
    )


def _of_run(principal: Principal, execution: Execution) -> tuple[str, str]:
    if execution.dag_run_id is None or execution.dag_node is None:
        return "", ""
    where = {"scheduled_at": execution.scheduled_at}
    nodes = RunNode.objects.filter(**where, run_id=execution.dag_run_id, node=execution.dag_node)
    run = scoped(DagRun.objects.all(), principal).filter(**where, id=execution.dag_run_id)
    named = DagVersion.objects.filter(id__in=run.values("dag_version_id"), tenant_id=execution.tenant_id)
    return (
        nodes.values_list("node_id", flat=True).first() or "",
        named.values_list("name", flat=True).first() or "",
    )


def _retries(principal: Principal, execution: Execution, now: datetime) -> list[UUID]:
    """Nodes of runs are cleared instead."""
    if execution.state not in RESTING or execution.dag_run_id is not None:
        return []
    rows = scoped(Execution.objects.all(), principal).filter(
        task_id=execution.task_id,
        id__gt=execution.id,
        scheduled_at__gte=execution.scheduled_at,
        scheduled_at__lte=max(now, execution.scheduled_at),
    )
    later = rows.order_by("id").values_list("id", "rerun_of")[:_LOOKED_THROUGH]
    return [identity for identity, of in later if of == execution.id][:_RETRIES]
