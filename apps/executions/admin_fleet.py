"""Admin: who does the work and what they have, leases, and circuits, to close."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions.circuit_services import reset
from apps.executions.models import CircuitBreaker, Lease, Outstanding, Worker
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, console_link
from apps.tenants.read_only_admin import ReadOnlyAdmin


@admin.register(Worker)
class WorkerAdmin(ReadOnlyAdmin):
    list_display = (
        *("__str__", "state", "host", "process_id", "slots", "classes", "carries", "kept_for"),
        *("started_at", "heartbeat_at", "lease_expires_at"),
    )
    list_filter = ("state",)

    @admin.display(description="critical, standard, bulk in use / own")
    def classes(self, worker: Worker) -> str:
        return ", ".join(f"{used} / {own}" for used, own in worker.by_class)

    @admin.display(description="labels")
    def carries(self, worker: Worker) -> str:
        return ", ".join(worker.labels)

    @admin.display(description="only for")
    def kept_for(self, worker: Worker) -> str:
        return "" if worker.tenant_id is None else str(worker.tenant_id)


@admin.register(Lease)
class LeaseAdmin(ReadOnlyAdmin):
    list_display = ("role", "holder", "epoch", "acquired_at", "expires_at")
    ordering = ("role",)


@admin.register(Outstanding)
class OutstandingAdmin(ReadOnlyAdmin):
    """What workers have: a small table, whose rows come and go."""

    list_display = ("execution_id", "worker_id", "class_index", "tenant_id", "dispatched_at", "token")
    list_filter = ("class_index",)
    ordering = ("-execution_id",)


@admin.register(CircuitBreaker)
class CircuitBreakerAdmin(ReadOnlyAdmin):
    list_display = (
        "key",
        "tenant",
        "trips",
        "opened_at",
        "quarantine_until",
        "slow_start_until",
        "last_error",
        "console",
    )
    list_filter = (TenantFilter,)
    list_select_related = ("tenant",)
    ordering = ("-changed_at",)
    actions = ("close",)

    def has_close_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_circuitbreaker")

    @admin.action(description="Close", permissions=["close"])
    def close(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "closed", lambda who, row: reset(principal=who, circuit_id=row.pk))

    @admin.display(description="console")
    def console(self, circuit: CircuitBreaker) -> str:
        return console_link("settings", slug=circuit.tenant.slug)
