"""Admin: DAGs made, edited, paused and resumed, by the services that the API uses; backfills to look at."""

from typing import Any

from django.contrib import admin, messages
from django.forms import ModelForm
from django.http import HttpRequest

from apps.definitions.admin import StandingAdmin, StandingFilter
from apps.definitions.admin_shown import as_json
from apps.definitions.confidential import masked_dag
from apps.definitions.dags import standing
from apps.definitions.dags.admin_form import DagForm
from apps.definitions.dags.triggering import trigger_dag
from apps.definitions.dags.versions import document_of
from apps.definitions.models import Backfill, Dag
from apps.tenants.admin_acts import actor
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.admin_marks import one_line, state_mark
from apps.tenants.models import Role
from apps.tenants.read_only_admin import ReadOnlyAdmin


@admin.register(Dag)
class DagAdmin(StandingAdmin):
    form = DagForm
    list_display = ("called", "tenant", "schedule_words", "standing", "next_fire_at", "node_count", "console")
    nothing = "DAGs are made here, over REST, or by `manage.py dag apply`."
    list_filter = (StandingFilter, "overlap_policy", TenantFilter)
    readonly_fields = ("version", "next_fire_at", "waiting_since", "paused_at", "paused_note", "created_at")
    route = "dag"
    fieldsets = (
        (None, {"fields": ("tenant", "document", "seen")}),
        ("Standing", {"fields": readonly_fields}),
    )
    only_shown = (
        (None, {"fields": ("tenant", "shown", "holds")}),
        ("Standing", {"fields": (*readonly_fields, "deleted_at")}),
    )
    pause_one = staticmethod(lambda principal, dag: standing.pause_dag(principal=principal, dag_id=dag.id))
    resume_one = staticmethod(lambda principal, dag: standing.resume_dag(principal=principal, dag_id=dag.id))
    run_one = staticmethod(lambda principal, dag: trigger_dag(principal=principal, dag_id=dag.id))
    change_permission = "definitions.change_dag"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return self.only_shown
        return super().get_fieldsets(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None and not self.has_change_permission(request, obj):
            return (*self.readonly_fields, "shown", "holds", "deleted_at")
        return self.readonly_fields

    @admin.display(description="document")
    def shown(self, dag: Dag) -> str:
        return as_json(masked_dag(document_of(dag), role=Role.VIEWER))

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # its runs name it: the API takes it out of force

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.deleted_at is None)

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> type[ModelForm]:
        made = super().get_form(request, obj, change, **kwargs)
        return type("DagForm", (made,), {"actor": actor(request)})

    def save_form(self, request: HttpRequest, form: Any, change: bool) -> Dag:
        """The form has saved already."""
        saved: Dag = form.saved
        if change and saved.version == form.cleaned_data.get("seen"):
            self.message_user(request, "Nothing differs: no new version.", messages.INFO)
        return saved

    def save_model(self, request: HttpRequest, obj: Any, form: ModelForm, change: bool) -> None:
        """The service has written it."""

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Nodes and edges come with the document."""


@admin.register(Backfill)
class BackfillAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "tenant", "of", "standing", "done", "at_once", "created_by", "console")
    nothing = "Nobody has asked for a part of the past: the API and `manage.py backfill` do."
    fieldsets = (
        (None, {"fields": ("tenant", "of", "standing", "done", "at_once", "newest_first", "created_by", "console")}),
        ("Times, in UTC", {"fields": ("start_at", "end_at", "cursor", "created_at", "ended_at")}),
        ("What it runs", {"fields": ("schedule", "parameters", "under_way")}),
    )
    list_filter = ("state", TenantFilter)
    list_select_related = ("tenant", "task", "dag")
    ordering = ("-id",)

    @admin.display(description="of")
    def of(self, backfill: Backfill) -> str:
        return one_line(str(backfill.task or backfill.dag))

    @admin.display(description="state")
    def standing(self, backfill: Backfill) -> str:
        return state_mark({"finished": "completed"}.get(backfill.state, backfill.state))

    @admin.display(description="occurrences made")
    def done(self, backfill: Backfill) -> str:
        return f"{backfill.made:,} of {backfill.total:,}"

    @admin.display(description="console")
    def console(self, backfill: Backfill) -> str:
        if backfill.dag_id is not None:
            return console_link("dag", slug=backfill.tenant.slug, dag_id=backfill.dag_id)
        return console_link("task", slug=backfill.tenant.slug, task_id=backfill.task_id)
