"""Admin: the ledger to look at. Every list is bounded to some days, every id is looked up in its own day."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join

from apps.executions.models import Attempt, CircuitBreaker, DeadLetter, Execution, Lease, TaskVersion, Worker
from apps.tenants.read_only_admin import ReadOnlyAdmin
from chronoweb.runtime.clock import SYSTEM_CLOCK

_MOST_ATTEMPTS = 100


def uuid_of(text: str) -> UUID | None:
    """The UUID that `text` writes; None if it is none."""
    try:
        return UUID(str(text).strip())
    except ValueError:
        return None


class DueFilter(admin.SimpleListFilter):
    """When it was meant to be due; without a choice the last day, so that no list reads every partition."""

    title = "due"
    parameter_name = "due"
    _RANGES = {
        None: (timedelta(days=-1), timedelta(0)),
        "week": (timedelta(days=-7), timedelta(0)),
        "hour": (timedelta(hours=-1), timedelta(0)),
        "coming": (timedelta(0), timedelta(days=1)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("hour", "last hour"), ("week", "last 7 days"), ("coming", "next 24 hours")]

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield choice | ({"display": "last 24 hours"} if choice["display"] == "All" else {})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        begin, end = self._RANGES.get(self.value(), self._RANGES[None])
        now = SYSTEM_CLOCK.now()
        return queryset.filter(scheduled_at__gte=now + begin, scheduled_at__lte=now + end)


@admin.register(Execution)
class ExecutionAdmin(ReadOnlyAdmin):
    list_display = ("task", "tenant", "status", "hold", "scheduled_at", "attempt", "worker_id", "id")
    list_filter = (DueFilter, "status", "hold", "origin", "tenant")
    list_select_related = ("task_version", "tenant")
    ordering = ("-scheduled_at", "-id")
    search_fields = ("id",)
    search_help_text = "an execution's id, or a task's"
    readonly_fields = ("console", "attempts")

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
        url = reverse("console:execution", kwargs={"slug": execution.tenant.slug, "identity": execution.pk})
        return format_html('<a class="underline" href="{}">open in the console</a>', url)

    @admin.display(description="attempts")
    def attempts(self, execution: Execution) -> str:
        tried = Attempt.objects.filter(scheduled_at=execution.scheduled_at, execution_id=execution.pk)
        rows = [
            (a.attempt, a.get_outcome_display(), f"worker-{a.worker_id}", a.token, *_times(a), _why(a))
            for a in tried.order_by("attempt", "token")[:_MOST_ATTEMPTS]
        ]
        if not rows:
            return "none has ended"
        head = format_html_join("", '<th class="pr-4">{}</th>', ((h,) for h in _ATTEMPT_HEAD))
        body = format_html_join("", "<tr>" + '<td class="pr-4 align-top">{}</td>' * len(_ATTEMPT_HEAD) + "</tr>", rows)
        return format_html(
            '<table class="w-full text-left"><thead><tr>{}</tr></thead><tbody>{}</tbody></table>', head, body
        )


_ATTEMPT_HEAD = ("attempt", "outcome", "worker", "token", "began", "ended", "error")


def _times(attempt: Attempt) -> tuple[str, str]:
    began = attempt.started_at
    return (f"{began:%Y-%m-%d %H:%M:%S}" if began else "–", f"{attempt.finished_at:%Y-%m-%d %H:%M:%S}")


def _why(attempt: Attempt) -> str:
    return f"{attempt.error.get('type')}: {attempt.error.get('message')}" if isinstance(attempt.error, dict) else ""


@admin.register(TaskVersion)
class TaskVersionAdmin(ReadOnlyAdmin):
    list_display = ("name", "number", "tenant", "created_at", "created_by")
    list_filter = ("tenant",)
    list_select_related = ("tenant",)
    ordering = ("-id",)
    search_fields = ("task_id",)
    search_help_text = "a task's id"

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        if not search_term:
            return queryset, False
        identity = uuid_of(search_term)
        return (queryset.none() if identity is None else queryset.filter(task_id=identity)), False


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


@admin.register(DeadLetter)
class DeadLetterAdmin(ReadOnlyAdmin):
    list_display = ("execution_id", "tenant", "fingerprint", "task_id", "since", "console")
    list_filter = ("tenant",)
    list_select_related = ("tenant",)
    ordering = ("-execution_id",)
    search_fields = ("fingerprint",)
    search_help_text = "a fingerprint, as a whole"

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        return (queryset.filter(fingerprint=search_term) if search_term else queryset), False

    @admin.display(description="console")
    def console(self, letter: DeadLetter) -> str:
        url = reverse("console:execution", kwargs={"slug": letter.tenant.slug, "identity": letter.execution_id})
        return format_html('<a class="underline" href="{}">open</a>', url)


@admin.register(CircuitBreaker)
class CircuitBreakerAdmin(ReadOnlyAdmin):
    list_display = ("key", "tenant", "trips", "opened_at", "quarantine_until", "slow_start_until", "last_error")
    list_filter = ("tenant",)
    list_select_related = ("tenant",)
    ordering = ("-changed_at",)
