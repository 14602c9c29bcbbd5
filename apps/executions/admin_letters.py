"""Admin: dead letters to look at and replay, and replays of many, to stop."""

from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from apps.executions import services
from apps.executions.dead_letters import stop_replay
from apps.executions.models import DeadLetter, Execution, Replay
from apps.tenants.admin_acts import each
from apps.tenants.admin_lists import TenantFilter, WhenFilter, console_link
from apps.tenants.admin_marks import one_line, page_link, short_id, state_mark
from apps.tenants.read_only_admin import DailyAdmin, ReadOnlyAdmin

_ICON_OF = {"running": "running", "finished": "completed", "stopped": "stopped"}


class DiedFilter(WhenFilter):
    title = "died"
    parameter_name = "died"
    field = "since"


@admin.register(DeadLetter)
class DeadLetterAdmin(DailyAdmin):
    when = DiedFilter
    list_display = ("execution", "error", "tenant", "task", "since", "console")
    sortable_by = ()
    nothing = "Nothing has run out of attempts."
    fields = ("whole", "fingerprint", "tenant", "task_id", "scheduled_at", "since", "console")
    list_filter = (DiedFilter, TenantFilter)
    list_select_related = ("tenant",)
    ordering = ("-execution_id",)
    readonly_fields = ("console", "whole")
    search_fields = ("fingerprint",)
    search_help_text = "a fingerprint, as a whole"
    actions = ("replay",)

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        return (queryset.filter(fingerprint=search_term) if search_term else queryset), False

    def has_replay_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_deadletter")

    @admin.action(description="Replay", permissions=["replay"])
    def replay(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "replayed", lambda who, row: services.replay(principal=who, execution_id=row.pk))

    @admin.display(description="execution")
    def execution(self, letter: DeadLetter) -> str:
        return short_id(letter.execution_id)

    @admin.display(description="execution")
    def whole(self, letter: DeadLetter) -> str:
        return page_link(Execution, letter.execution_id, letter.execution_id)

    @admin.display(description="fingerprint")
    def error(self, letter: DeadLetter) -> str:
        return one_line(letter.fingerprint)

    @admin.display(description="task")
    def task(self, letter: DeadLetter) -> str:
        return short_id(letter.task_id)

    @admin.display(description="console")
    def console(self, letter: DeadLetter) -> str:
        return console_link("letter", slug=letter.tenant.slug, identity=letter.execution_id)


@admin.register(Replay)
class ReplayAdmin(ReadOnlyAdmin):
    list_display = ("created_at", "tenant", "standing", "done", "left_out", "per_second", "created_by", "console")
    nothing = "Nobody has sent dead letters round again."
    readonly_fields = ("console",)
    list_filter = ("state", TenantFilter)
    list_select_related = ("tenant",)
    ordering = ("-id",)
    actions = ("stop",)

    @admin.display(description="state")
    def standing(self, replay: Replay) -> str:
        return state_mark(_ICON_OF[replay.state])

    @admin.display(description="replayed")
    def done(self, replay: Replay) -> str:
        return f"{replay.replayed:,} of {replay.total:,}"

    @admin.display(description="console")
    def console(self, replay: Replay) -> str:
        return console_link("letters", slug=replay.tenant.slug)

    def has_stop_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("executions.change_replay")

    @admin.action(description="Stop", permissions=["stop"])
    def stop(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        each(self, request, queryset, "stopped", lambda who, row: stop_replay(principal=who, replay_id=row.pk))
