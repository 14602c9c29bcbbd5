"""Admin: runs of DAGs, to look at, pause, resume and cancel."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions import admin_holds, ids
from apps.executions.admin import DueFilter, uuid_of
from apps.executions.dags import operations
from apps.executions.models import DagRun, DagVersion
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.admin_marks import page_link, short_id, state_mark
from apps.tenants.principal import Principal
from apps.tenants.read_only_admin import DailyAdmin

_TIMES = (
    *("scheduled_at", "run_at", "nominal_at", "created_at", "queued_since", "paused_at", "deadline_at", "finished_at"),
)


@admin.register(DagRun)
class DagRunAdmin(DailyAdmin):
    when = DueFilter
    list_display = ("name", "state", "tenant", "dag", "scheduled_at", "origin", "ended", "finished_at", "console")
    sortable_by = ()
    nothing = "No run is due in this time: choose another day above, or another stretch among the filters."
    fieldsets = (
        (None, {"fields": ("id", "state", "tenant", "dag", "origin", "actor", "parameters", "console")}),
        ("What happened", {"fields": ("ended", "nodes_table", "ending", "failure_policy")}),
        ("Times, in UTC", {"fields": _TIMES}),
        ("In the ledger", {"fields": ("version", "timeout_seconds", "idempotency_key", "traceparent")}),
    )
    list_filter = (DueFilter, "status", "origin", TenantFilter)
    list_select_related = ("tenant",)
    ordering = ("-scheduled_at", "-id")
    readonly_fields = ("console", "nodes_table")
    search_fields = ("id",)
    search_help_text = "a run's id, or a DAG's"
    actions = ("pause", "resume", "cancel")

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> DagRun | None:
        identity = uuid_of(object_id)
        due = None if identity is None else ids.scheduled_at(identity)
        if identity is None or due is None:
            return None
        return DagRun.objects.filter(id=identity, scheduled_at=due).select_related("tenant").first()

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        if not search_term:
            return queryset, False
        identity = uuid_of(search_term)
        if identity is None:
            return queryset.none(), False
        run = self.get_object(request, search_term)
        return (
            queryset.filter(dag_id=identity)
            if run is None
            else DagRun.objects.filter(pk=run.pk, scheduled_at=run.scheduled_at)
        ), False

    def has_acts_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_dagrun")

    @admin.action(description="Pause", permissions=["acts"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "paused", lambda who, row: operations.pause_run(principal=who, run_id=row.pk))

    @admin.action(description="Resume", permissions=["acts"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "resumed", lambda who, row: operations.resume_run(principal=who, run_id=row.pk))

    @admin.action(description="Cancel", permissions=["acts"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        def act(who: Principal, row: DagRun) -> None:
            operations.cancel_run(principal=who, run_id=row.pk, reason="from the admin")

        each(self, request, queryset, "cancelled", act)

    @admin.display(description="run")
    def name(self, run: DagRun) -> str:
        return short_id(run.pk)

    @admin.display(description="state")
    def state(self, run: DagRun) -> str:
        return state_mark(run.word)

    @admin.display(description="DAG")
    def dag(self, run: DagRun) -> str:
        return page_link(DagVersion, run.dag_version_id, short_id(run.dag_id))

    @admin.display(description="nodes ended")
    def ended(self, run: DagRun) -> str:
        return f"{run.nodes - run.open_nodes} of {run.nodes}"

    @admin.display(description="nodes")
    def nodes_table(self, run: DagRun) -> str:
        return admin_holds.nodes(run)

    @admin.display(description="console")
    def console(self, run: DagRun) -> str:
        return console_link("run", slug=run.tenant.slug, run_id=run.pk)
