"""Admin: runs of DAGs, to look at, pause, resume and cancel; versions of definitions, to look at."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions import ids
from apps.executions.admin import DueFilter, uuid_of
from apps.executions.dags import operations
from apps.executions.models import DagRun, DagVersion, TaskVersion
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.principal import Principal
from apps.tenants.read_only_admin import DailyAdmin, ReadOnlyAdmin


class VersionAdmin(ReadOnlyAdmin):
    """Snapshots of definitions."""

    list_display = ("name", "number", "tenant", "created_at", "created_by", "console")
    list_filter = (TenantFilter,)
    list_select_related = ("tenant",)
    ordering = ("-id",)
    readonly_fields = ("console",)
    of = ""
    """What it is a version of."""

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        if not search_term:
            return queryset, False
        identity = uuid_of(search_term)
        return (queryset.none() if identity is None else queryset.filter(**{f"{self.of}_id": identity})), False

    @admin.display(description="console")
    def console(self, version: TaskVersion | DagVersion) -> str:
        name = f"{self.of}_id"
        return console_link(self.of, slug=version.tenant.slug, **{name: getattr(version, name)})


@admin.register(TaskVersion)
class TaskVersionAdmin(VersionAdmin):
    of = "task"
    search_fields = ("task_id",)
    search_help_text = "a task's id"


@admin.register(DagVersion)
class DagVersionAdmin(VersionAdmin):
    of = "dag"
    search_fields = ("dag_id",)
    search_help_text = "a DAG's id"


@admin.register(DagRun)
class DagRunAdmin(DailyAdmin):
    when = DueFilter
    list_display = ("id", "tenant", "status", "origin", "scheduled_at", "open_nodes", "nodes", "finished_at", "console")
    list_filter = (DueFilter, "status", "origin", TenantFilter)
    list_select_related = ("tenant",)
    ordering = ("-scheduled_at", "-id")
    readonly_fields = ("console",)
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

    @admin.display(description="console")
    def console(self, run: DagRun) -> str:
        return console_link("run", slug=run.tenant.slug, run_id=run.pk)
