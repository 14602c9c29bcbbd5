"""Admin: versions of tasks and DAGs, to look at. Values of headers and environments are covered, as from viewers."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.definitions.admin_shown import as_json
from apps.definitions.confidential import masked_dag, masked_handler
from apps.executions.admin import uuid_of
from apps.executions.models import DagVersion, TaskVersion
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.admin_marks import one_line
from apps.tenants.models import Role
from apps.tenants.read_only_admin import ReadOnlyAdmin


class VersionAdmin(ReadOnlyAdmin):
    """Snapshots of definitions."""

    list_display = ("called", "number", "tenant", "created_at", "created_by", "console")
    sortable_by = ()
    nothing = "Each change of a definition makes one."
    fields = ("name", "number", "tenant", "created_at", "created_by", "shown", "console")
    list_filter = (TenantFilter,)
    list_select_related = ("tenant",)
    ordering = ("-id",)
    readonly_fields = ("console", "shown")
    of = ""
    """What it is a version of."""

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        if not search_term:
            return queryset, False
        identity = uuid_of(search_term)
        return (queryset.none() if identity is None else queryset.filter(**{f"{self.of}_id": identity})), False

    @admin.display(description="name")
    def called(self, version: TaskVersion | DagVersion) -> str:
        return one_line(version.name)

    @admin.display(description="definition")
    def shown(self, version: TaskVersion | DagVersion) -> str:
        whole = version.definition
        if "nodes" in whole:
            return as_json(masked_dag(whole, role=Role.VIEWER))
        return as_json({**whole, "handler": masked_handler(whole["handler"], role=Role.VIEWER)})

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
