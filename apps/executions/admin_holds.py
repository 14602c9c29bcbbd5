"""Admin: tables whose rows have composite keys, shown where they belong: holds and use on a tenant's page, attempts,
events and progress on an execution's, nodes on a run's. What holds a whole tenant, or everything, is on the first page.
"""

from collections.abc import Iterable
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest

from apps.executions.dags.models import DagRun
from apps.executions.dags.states import NodeState
from apps.executions.models import Attempt, Execution, ExecutionEvent, Progress, RunNode, StandingHold, TenantUsage
from apps.executions.quotas import Use
from apps.executions.states import WIDE, Hold, Status
from apps.tenants.admin import TenantAdmin
from apps.tenants.admin_marks import NOTHING, moment, page_link, short_id, state_mark, table
from apps.tenants.models import Tenant

MOST = 100
"""Rows of such a table; the console has all."""
EVERYTHING = UUID(int=0)


def attempts(execution: Execution) -> str:
    tried = Attempt.objects.filter(scheduled_at=execution.scheduled_at, execution_id=execution.pk)
    rows = [
        (
            a.attempt,
            state_mark(a.get_outcome_display()),
            f"worker-{a.worker_id}",
            a.token,
            moment(a.started_at),
            moment(a.finished_at),
            _why(a.error),
        )
        for a in tried.order_by("attempt", "token")[:MOST]
    ]
    return table(("attempt", "outcome", "worker", "token", "began", "ended", "error"), rows, empty="none has ended")


def events(execution: Execution) -> str:
    told = ExecutionEvent.objects.filter(scheduled_at=execution.scheduled_at, execution_id=execution.pk)
    rows = [
        (
            moment(e.at),
            NOTHING if e.source is None else state_mark(Status(e.source).word),
            state_mark(Status(e.target).word),
            e.actor,
            e.reason,
        )
        for e in told.order_by("event_id")[:MOST]
    ]
    return table(("at", "from", "to", "by", "why"), rows, empty="nothing exceptional has happened")


def progress(execution: Execution) -> str:
    said = Progress.objects.filter(pk=execution.pk).first()
    return NOTHING if said is None or not said.text else f"{said.text}, said at {moment(said.said_at)}"


def nodes(run: DagRun) -> str:
    found = RunNode.objects.filter(run_id=run.pk, scheduled_at=run.scheduled_at).order_by("node")
    rows = [
        (
            n.node_id,
            _node_mark(NodeState(n.state)),
            n.get_kind_display(),
            NOTHING if n.items is None else f"{n.items - n.items_open} of {n.items}",
            NOTHING if n.execution_id is None else page_link(Execution, n.execution_id, short_id(n.execution_id)),
            moment(n.finished_at),
            _why(n.error),
        )
        for n in found[:MOST]
    ]
    return table(("node", "state", "kind", "items ended", "execution", "ended", "error"), rows, empty="it has none")


def holds_of(target: UUID) -> str:
    """Of a task, a DAG or a tenant."""
    return _holds(StandingHold.objects.filter(target_id=target).order_by("reason"))


def wide_holds(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """For the first page: what is not dispatched at all."""
    if not request.user.has_perm("tenants.view_tenant"):
        return context
    found = list(StandingHold.objects.filter(reason__in=[int(hold) for hold in WIDE]).order_by("since")[:MOST])
    slugs = dict(Tenant.objects.filter(pk__in=[one.target_id for one in found]).values_list("pk", "slug"))
    held = [
        {
            "what": "everything" if one.target_id == EVERYTHING else slugs.get(one.target_id, str(one.target_id)),
            "link": None if one.target_id == EVERYTHING else one.target_id,
            "why": Hold(one.reason).word,
            "note": one.note,
            "actor": one.actor,
            "since": moment(one.since),
        }
        for one in found
    ]
    return {**context, "held": held, "tells_holds": True}


def use_of(tenant: Tenant) -> str:
    """Counted in windows; the latest of each kind."""
    latest: dict[int, TenantUsage] = {}
    kinds = [int(use) for use in Use if use is not Use.LOGS_OF_DAY]
    found = TenantUsage.objects.filter(tenant_id=tenant.pk, kind__in=kinds).order_by("kind", "-window_start")
    for row in found.distinct("kind"):
        latest[row.kind] = row
    rows = [
        (
            Tenant._meta.get_field(Use(kind).quota).verbose_name,  # type: ignore[union-attr]
            f"{Use(kind).shown(row.used):,}",
            getattr(tenant, Use(kind).quota) or "no limit",
            moment(row.window_start) if Use(kind) is not Use.LOGS else "while kept",
        )
        for kind, row in latest.items()
    ]
    return table(("limit", "used", "of", "window since"), rows, empty="nothing was used yet")


def _holds(found: Iterable[StandingHold]) -> str:
    rows = [(Hold(one.reason).word, one.note or NOTHING, one.actor, moment(one.since)) for one in found]
    return table(("held because", "note", "by", "since"), rows, empty="nothing holds it")


def _node_mark(state: NodeState) -> str:
    """A released node's execution has the rest of its state."""
    return state_mark("running", "released") if state is NodeState.ACTIVE else state_mark(state.word)


def _why(error: Any) -> str:
    return f"{error.get('type')}: {error.get('message')}" if isinstance(error, dict) and error else NOTHING


admin.site.unregister(Tenant)


@admin.register(Tenant)
class TenantInTheLedger(TenantAdmin):
    """What the ledger keeps of a tenant, beside its limits."""

    readonly_fields: ClassVar[Any] = (*TenantAdmin.readonly_fields, "holds", "use")
    fieldsets: ClassVar[Any] = (*TenantAdmin.fieldsets, ("In the ledger", {"fields": ("holds", "use")}))

    @admin.display(description="held")
    def holds(self, tenant: Tenant) -> str:
        return NOTHING if tenant._state.adding else holds_of(tenant.pk)

    @admin.display(description="used")
    def use(self, tenant: Tenant) -> str:
        return NOTHING if tenant._state.adding else use_of(tenant)
