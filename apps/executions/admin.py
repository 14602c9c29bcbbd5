"""Admin: executions to look at, cancel and retry. Lists are bounded to some days, an id is looked up in its own day."""

from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions import admin_holds, services
from apps.executions.models import DagRun, Execution, Worker
from apps.executions.states import ExecutionClass
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, WhenFilter, console_link
from apps.tenants.admin_marks import NOTHING, as_json, moment, one_line, page_link, short_id, state_mark
from apps.tenants.read_only_admin import DailyAdmin

_TIMES = (
    *("scheduled_at", "run_at", "nominal_at", "created_at", "dispatched_at", "started_at", "finished_at"),
    *("cancel_requested_at", "wake_at"),
)
_PROMISED = (
    *("task_version", "payload", "origin", "priority", "task_class", "overlap", "queue_seconds"),
    *("concurrency_key", "slot_key", "idempotency_key"),
)
_LEDGER = (
    "id",
    "task_id",
    "token",
    "version",
    "route_id",
    "rerun_of",
    "dag_node",
    "dag_item",
    "dag_generation",
    "traceparent",
)


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
    list_display = ("task", "state", "tenant", "due", "held", "attempts_of", "worker", "name", "console")
    sortable_by = ()  # a sort of a day reads all of it
    list_filter = (DueFilter, "status", "hold", "origin", TenantFilter)
    actions = ("cancel", "retry")
    list_select_related = ("task_version", "tenant")
    ordering = ("-scheduled_at", "-id")
    search_fields = ("id",)
    search_help_text = "an execution's id, or a task's"
    nothing = "No execution is due in this time: choose another day above, or another stretch among the filters."
    fieldsets = (
        (None, {"fields": ("task", "state", "held", "tenant", "run", "worker", "attempts_of", "progress", "console")}),
        ("What happened", {"fields": ("failed_with", "attempts", "events", "returned")}),
        ("Times, in UTC", {"fields": _TIMES}),
        ("As it was promised", {"fields": _PROMISED}),
        ("In the ledger", {"fields": _LEDGER}),
    )
    readonly_fields = ("console", "failed_with", "attempts", "events", "returned", "progress", "run", "task_class")

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
        return one_line(execution.task_version.name)

    @admin.display(description="state")
    def state(self, execution: Execution) -> str:
        return state_mark(execution.state.word)

    @admin.display(description="due")
    def due(self, execution: Execution) -> str:
        return moment(execution.scheduled_at)

    @admin.display(description="held")
    def held(self, execution: Execution) -> str:
        return execution.get_hold_display().replace("_", " ") if execution.hold else NOTHING

    @admin.display(description="attempts")
    def attempts_of(self, execution: Execution) -> str:
        return f"{execution.attempt} of {execution.max_attempts}"

    @admin.display(description="worker")
    def worker(self, execution: Execution) -> str:
        known = execution.worker_id
        return NOTHING if known is None else page_link(Worker, known, f"worker-{known}")

    @admin.display(description="id")
    def name(self, execution: Execution) -> str:
        return short_id(execution.pk)

    @admin.display(description="class")
    def task_class(self, execution: Execution) -> str:
        return ExecutionClass(execution.class_index).word

    @admin.display(description="run of a DAG")
    def run(self, execution: Execution) -> str:
        run = execution.dag_run_id
        return NOTHING if run is None else page_link(DagRun, run, run)

    @admin.display(description="console")
    def console(self, execution: Execution) -> str:
        return console_link("execution", slug=execution.tenant.slug, identity=execution.pk)

    @admin.display(description="attempts that ended")
    def attempts(self, execution: Execution) -> str:
        return admin_holds.attempts(execution)

    @admin.display(description="error")
    def failed_with(self, execution: Execution) -> str:
        return as_json(execution.error)

    @admin.display(description="result")
    def returned(self, execution: Execution) -> str:
        return as_json(execution.result)

    @admin.display(description="events")
    def events(self, execution: Execution) -> str:
        return admin_holds.events(execution)

    @admin.display(description="progress")
    def progress(self, execution: Execution) -> str:
        return admin_holds.progress(execution)


for part in ("admin_fleet", "admin_letters", "dags.admin"):  # last: their classes are made from those above
    import_module(f"apps.executions.{part}")
