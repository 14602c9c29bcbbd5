"""Admin: who does the work and what they have, leases, and circuits, to close."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions.circuit_services import reset
from apps.executions.findings import words_of
from apps.executions.models import CircuitBreaker, Execution, Finding, Lease, Outstanding, Worker
from apps.executions.states import ExecutionClass
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.admin_marks import NOTHING, one_line, page_link, short_id, state_mark
from apps.tenants.models import Tenant
from apps.tenants.read_only_admin import ReadOnlyAdmin

_TIMES = ("started_at", "heartbeat_at", "lease_expires_at", "drain_requested_at", "drain_requested_by")


class ClassFilter(admin.SimpleListFilter):
    title = "class"
    parameter_name = "class"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(one.word, one.word) for one in ExecutionClass]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        wanted = [int(one) for one in ExecutionClass if one.word == self.value()]
        return queryset.filter(class_index__in=wanted) if wanted else queryset


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = ("name", "standing", "host", "slots", "classes", "carries", "kept_for", "heartbeat_at", "version")
    list_filter = ("state",)
    nothing = "No worker has ever started: `manage.py worker` is one."
    fieldsets = (
        (None, {"fields": ("name", "standing", "version", "host", "process_id", "carries", "kept_for")}),
        ("Work", {"fields": ("slots", "classes", "active", "completed_last_minute", "errors_last_minute")}),
        ("Machine", {"fields": ("cpu_percent", "memory")}),
        ("Times, in UTC", {"fields": _TIMES}),
    )
    readonly_fields = ("memory",)

    @admin.display(description="worker", ordering="id")
    def name(self, worker: Worker) -> str:
        return str(worker)

    @admin.display(description="state", ordering="state")
    def standing(self, worker: Worker) -> str:
        return state_mark("live" if worker.state == "active" else worker.state)

    @admin.display(description="memory")
    def memory(self, worker: Worker) -> str:
        return f"{worker.memory_bytes / 1_000_000:,.0f} MB"

    @admin.display(description="critical · standard · bulk in use")
    def classes(self, worker: Worker) -> str:
        return " · ".join(f"{used} of {own}" for used, own in worker.by_class) or NOTHING

    @admin.display(description="labels")
    def carries(self, worker: Worker) -> str:
        return ", ".join(worker.labels) or NOTHING

    @admin.display(description="only for")
    def kept_for(self, worker: Worker) -> str:
        only = worker.tenant_id
        return NOTHING if only is None else page_link(Tenant, only, short_id(only))


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    list_display = ("role", "held_by", "epoch", "acquired_at", "expires_at")
    ordering = ("role",)
    nothing = "No process has taken a role yet: start the daemons."

    @admin.display(description="holder")
    def held_by(self, lease: Lease) -> str:
        return short_id(lease.holder)


@admin.register(Finding)
class FindingAdmin(ReadOnlyAdmin):
    """What the watchdog found and mended."""

    list_display = ("last_at", "what", "detail", "count")
    list_filter = ("kind",)
    nothing = "The watchdog has found nothing to mend."
    fields = ("what", "detail", "count", "first_at", "last_at")
    readonly_fields = ("what",)

    @admin.display(description="what")
    def what(self, finding: Finding) -> str:
        return words_of(finding.kind)


@admin.register(Outstanding)
class OutstandingAdmin(ReadOnlyAdmin):
    """What workers have: a small table, whose rows come and go."""

    list_display = ("execution", "worker", "task_class", "of_tenant", "dispatched_at", "token")
    list_filter = (ClassFilter,)
    ordering = ("-execution_id",)
    sortable_by = ()
    nothing = "Workers have nothing to do."
    fields = ("whole", "worker", "task_class", "of_tenant", "token", "scheduled_at", "dispatched_at")
    readonly_fields = ("whole",)

    @admin.display(description="execution")
    def execution(self, row: Outstanding) -> str:
        return short_id(row.execution_id)

    @admin.display(description="execution")
    def whole(self, row: Outstanding) -> str:
        return page_link(Execution, row.execution_id, row.execution_id)

    @admin.display(description="worker")
    def worker(self, row: Outstanding) -> str:
        return page_link(Worker, row.worker_id, f"worker-{row.worker_id}")

    @admin.display(description="class")
    def task_class(self, row: Outstanding) -> str:
        return ExecutionClass(row.class_index).word

    @admin.display(description="tenant")
    def of_tenant(self, row: Outstanding) -> str:
        return page_link(Tenant, row.tenant_id, short_id(row.tenant_id))


@admin.register(CircuitBreaker)
class CircuitBreakerAdmin(ReadOnlyAdmin):
    list_display = ("key", "tenant", "opened_at", "quarantine_until", "slow_start_until", "trips", "last", "console")
    list_filter = (TenantFilter,)
    list_select_related = ("tenant",)
    ordering = ("-changed_at",)
    actions = ("close",)
    search_fields = ("key",)
    search_help_text = "a part of a key: a host, a handler, a program"
    nothing = "Nothing that executions call has failed so far."
    fieldsets = (
        (None, {"fields": ("key", "tenant", "last_error", "console")}),
        ("Times, in UTC", {"fields": ("opened_at", "quarantine_until", "slow_start_until", "changed_at")}),
        ("Figures", {"fields": ("trips", "admit_below", "lots_drawn", "proven", "settled", "recent")}),
    )

    @admin.display(description="last error")
    def last(self, circuit: CircuitBreaker) -> str:
        return one_line(circuit.last_error or "")

    def has_close_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_circuitbreaker")

    @admin.action(description="Close", permissions=["close"])
    def close(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "closed", lambda who, row: reset(principal=who, circuit_id=row.pk))

    @admin.display(description="console")
    def console(self, circuit: CircuitBreaker) -> str:
        return console_link("settings", slug=circuit.tenant.slug)
