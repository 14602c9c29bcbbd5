"""Admin: tasks to look at, pause, resume and run. They are edited where the rules of an edit are: in the API.

DAGs have an admin of their own (dags/admin.py), whose form is their document.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.definitions import services
from apps.definitions.admin_shown import as_json
from apps.definitions.confidential import masked_handler
from apps.definitions.models import Dag, Task
from apps.executions.admin_holds import holds_of
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.admin_marks import moment, one_line
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.tenants.read_only_admin import StrictAdmin

_POLICIES = (
    *("priority", "overlap_policy", "catchup_seconds", "timeout_seconds", "timeouts", "retry_policy", "concurrency"),
    *("notifications",),
)


class StandingFilter(admin.SimpleListFilter):
    title = "standing"
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("live", "live"), ("paused", "paused"), ("deleted", "deleted")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted: dict[str, dict[str, Any]] = {
            "live": {"paused_at": None, "deleted_at": None},
            "paused": {"paused_at__isnull": False, "deleted_at": None},
            "deleted": {"deleted_at__isnull": False},
        }
        return queryset.filter(**wanted.get(self.value() or "", {}))


class StandingAdmin(StrictAdmin):
    """What runs by a schedule, and may be paused and resumed."""

    list_select_related = ("tenant",)
    ordering = ("-id",)  # the latest first: ids carry the time, and no page sorts all there are
    sortable_by = ()
    search_fields = ("name", "description")
    search_help_text = "a part of a name or of a description"
    actions = ("pause", "resume", "run_now")
    pause_one: Callable[[Principal, Any], Any]
    resume_one: Callable[[Principal, Any], Any]
    run_one: Callable[[Principal, Any], Any]
    change_permission = ""
    route = ""
    """Of its page in the console."""

    def has_standing_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(self.change_permission)

    @admin.display(description="schedule")
    def schedule_words(self, row: Task | Dag) -> str:
        schedule = row.schedule
        what = schedule.get("expression") or schedule.get("every_seconds") or schedule.get("run_at") or ""
        zone = schedule.get("timezone") if schedule["type"] in ("cron", "one_shot") else ""
        return f"{schedule['type'].replace('_', ' ')} {what} {zone or ''}".strip()

    @admin.display(description="name")
    def called(self, row: Task | Dag) -> str:
        return one_line(row.name)

    @admin.display(description="standing")
    def standing(self, row: Task | Dag) -> str:
        if row.deleted_at:
            return f"deleted at {moment(row.deleted_at)}"
        return f"paused since {moment(row.paused_at)}" if row.paused_at else "live"

    @admin.display(description="held")
    def holds(self, row: Task | Dag) -> str:
        return holds_of(row.pk)

    @admin.action(description="Pause", permissions=["standing"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "paused", self.pause_one)

    @admin.action(description="Resume", permissions=["standing"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "resumed", self.resume_one)

    @admin.action(description="Run now", permissions=["standing"])
    def run_now(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "started", self.run_one)

    @admin.display(description="console")
    def console(self, row: Task | Dag) -> str:
        return console_link(self.route, slug=row.tenant.slug, **{f"{self.route}_id": str(row.pk)})


@admin.register(Task)
class TaskAdmin(StandingAdmin):
    list_display = ("called", "tenant", "schedule_words", "standing", "next_fire_at", "priority", "console")
    nothing = "Tasks are made in the console, over REST, from a crontab, or by `manage.py ctl`."
    fieldsets = (
        (None, {"fields": ("name", "description", "tags", "tenant", "standing", "paused_note", "holds", "console")}),
        ("What runs", {"fields": ("handler_shown", "parameters", "requires", "idempotent")}),
        ("When", {"fields": ("schedule_words", "next_fire_at", "strict_timing", "jitter_ms", "tzdata", "schedule")}),
        ("Policies", {"fields": _POLICIES}),
        ("Versions", {"fields": ("version", "created_at", "updated_at", "deleted_at")}),
    )
    list_filter = (StandingFilter, "overlap_policy", TenantFilter)
    readonly_fields = ("console", "handler_shown", "holds")
    route = "task"
    pause_one = staticmethod(lambda principal, task: services.pause_task(principal=principal, task_id=task.id))
    resume_one = staticmethod(lambda principal, task: services.resume_task(principal=principal, task_id=task.id))
    run_one = staticmethod(lambda principal, task: services.trigger(principal=principal, task_id=task.id))
    change_permission = "definitions.change_task"

    @admin.display(description="handler")
    def handler_shown(self, task: Task) -> str:
        return as_json(masked_handler(task.handler, role=Role.VIEWER))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


for part in ("dags.admin", "admin_versions"):  # last: their classes are made from those above
    import_module(f"apps.definitions.{part}")
