"""Admin: tasks to look at, pause and resume. They are edited where the rules of an edit are: in the API."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.definitions import services
from apps.definitions.models import Task
from apps.tenants.admin import actor
from apps.tenants.models import Role
from apps.tenants.principal import Principal
from apps.tenants.read_only_admin import StrictAdmin
from chronoweb.runtime.errors import ChronowebError


class StandingFilter(admin.SimpleListFilter):
    title = "standing"
    parameter_name = "standing"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("live", "live"), ("paused", "paused"), ("deleted", "deleted")]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Task]) -> QuerySet[Task]:
        wanted: dict[str, dict[str, Any]] = {
            "live": {"paused_at": None, "deleted_at": None},
            "paused": {"paused_at__isnull": False, "deleted_at": None},
            "deleted": {"deleted_at__isnull": False},
        }
        return queryset.filter(**wanted.get(self.value() or "", {}))


@admin.register(Task)
class TaskAdmin(StrictAdmin):
    list_display = ("name", "tenant", "schedule_words", "priority", "next_fire_at", "paused_at", "version")
    list_filter = (StandingFilter, "overlap_policy", "tenant")
    list_select_related = ("tenant",)
    search_fields = ("name", "description")
    show_full_result_count = False
    list_per_page = 50
    actions = ("pause", "resume")

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_standing_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("definitions.change_task")

    @admin.display(description="schedule")
    def schedule_words(self, task: Task) -> str:
        schedule = task.schedule
        what = schedule.get("expression") or schedule.get("every_seconds") or schedule.get("run_at") or ""
        return f"{schedule['type']} {what} {schedule.get('timezone') or ''}".strip()

    @admin.action(description="Pause", permissions=["standing"])
    def pause(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        self._each(request, queryset, "paused", lambda p, task: services.pause_task(principal=p, task_id=task.id))

    @admin.action(description="Resume", permissions=["standing"])
    def resume(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        self._each(request, queryset, "resumed", lambda p, task: services.resume_task(principal=p, task_id=task.id))

    def _each(
        self, request: HttpRequest, tasks: QuerySet[Task], done: str, act: Callable[[Principal, Task], Any]
    ) -> None:
        """Through the service that the API uses, one transaction a task; what cannot be done is said by name."""
        count = 0
        for task in tasks.select_related("tenant"):
            principal = Principal(
                tenant_id=task.tenant.id, tenant_slug=task.tenant.slug, role=Role.OWNER, actor=actor(request)
            )
            try:
                act(principal, task)
                count += 1
            except ChronowebError as error:
                self.message_user(request, f"{task.name} is not {done}: {error}", messages.ERROR)
        self.message_user(request, f"{count} {done}.")
