"""Admin: executions to look at, cancel and retry. Lists are bounded to some days, an id is looked up in its own day."""

from collections.abc import Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join

from apps.executions import services
from apps.executions.models import Attempt, Execution, ExecutionEvent
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, WhenFilter, console_link
from apps.tenants.read_only_admin import DailyAdmin

_MOST_ROWS = 100


def uuid_of(text: str) -> UUID | None:
    """The UUID that `text` writes; None if it is none."""
    try:
        return UUID(str(text).strip())
    except ValueError:
        return None


class DueFilter(WhenFilter):
    """When it was meant to be due; without a choice the last day, so that no list reads every partition."""

    title = "due"
    parameter_name = "due"
    field = "scheduled_at"
    spans = WhenFilter.spans | {"coming": ("next 24 hours", timedelta(0), timedelta(days=1))}
    usual = "day"


@admin.register(Execution)
class ExecutionAdmin(DailyAdmin):
    when = DueFilter
    list_display = ("task", "tenant", "status", "hold", "scheduled_at", "attempt", "worker_id", "id", "console")
    list_filter = (DueFilter, "status", "hold", "origin", TenantFilter)
    actions = ("cancel", "retry")
    list_select_related = ("task_version", "tenant")
    ordering = ("-scheduled_at", "-id")
    search_fields = ("id",)
    search_help_text = "an execution's id, or a task's"
    readonly_fields = ("console", "attempts", "events")

    def has_acts_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_execution")

    @admin.action(description="Cancel", permissions=["acts"])
    def cancel(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "cancelled", lambda who, row: services.cancel(principal=who, execution_id=row.pk))

    @admin.action(description="Retry", permissions=["acts"])
    def retry(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "retried", lambda who, row: services.retry(principal=who, execution_id=row.pk))

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Execution | None:
        identity = uuid_of(object_id)
        if identity is None:
            return None
        return Execution.objects.with_id(identity).select_related("task_version", "tenant").first()

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        identity = uuid_of(search_term)
        if not search_term:
            return queryset, False
        if identity is None:
            return queryset.none(), False
        found = Execution.objects.with_id(identity)
        return (found if found.exists() else queryset.filter(task_id=identity)), False

    @admin.display(description="task")
    def task(self, execution: Execution) -> str:
        return execution.task_version.name

    @admin.display(description="console")
    def console(self, execution: Execution) -> str:
        return console_link("execution", slug=execution.tenant.slug, identity=execution.pk)

    @admin.display(description="attempts")
    def attempts(self, execution: Execution) -> str:
        tried = Attempt.objects.filter(scheduled_at=execution.scheduled_at, execution_id=execution.pk)
        rows = [
            (a.attempt, a.get_outcome_display(), f"worker-{a.worker_id}", a.token, *_times(a), _why(a))
            for a in tried.order_by("attempt", "token")[:_MOST_ROWS]
        ]
        return _table(_ATTEMPT_HEAD, rows) if rows else "none has ended"

    @admin.display(description="events")
    def events(self, execution: Execution) -> str:
        told = ExecutionEvent.objects.filter(scheduled_at=execution.scheduled_at, execution_id=execution.pk)
        rows = [
            (
                f"{e.at:%Y-%m-%d %H:%M:%S}",
                f"{e.get_source_display() or '–'} → {e.get_target_display()}",
                e.actor,
                e.reason,
            )
            for e in told.order_by("event_id")[:_MOST_ROWS]
        ]
        return _table(_EVENT_HEAD, rows) if rows else "nothing exceptional has happened"


_EVENT_HEAD = ("at", "from and to", "by", "why")
_ATTEMPT_HEAD = ("attempt", "outcome", "worker", "token", "began", "ended", "error")


def _table(head: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> str:
    titles = format_html_join("", '<th class="pr-4">{}</th>', ((h,) for h in head))
    body = format_html_join("", "<tr>" + '<td class="pr-4 align-top">{}</td>' * len(head) + "</tr>", rows)
    return format_html(
        '<table class="w-full text-left"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', titles, body
    )


def _times(attempt: Attempt) -> tuple[str, str]:
    began = attempt.started_at
    return (f"{began:%Y-%m-%d %H:%M:%S}" if began else "–", f"{attempt.finished_at:%Y-%m-%d %H:%M:%S}")


def _why(attempt: Attempt) -> str:
    return f"{attempt.error.get('type')}: {attempt.error.get('message')}" if isinstance(attempt.error, dict) else ""


for part in ("admin_fleet", "admin_letters", "dags.admin"):  # last: their classes are made from those above
    import_module(f"apps.executions.{part}")
