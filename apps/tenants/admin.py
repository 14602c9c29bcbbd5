"""Admin: tenants, memberships, API keys, and what was done."""

from importlib import import_module
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.forms import ModelForm
from django.http import HttpRequest
from django.utils.html import format_html

from apps.tenants import audit, keys
from apps.tenants.admin_acts import actor
from apps.tenants.admin_audited import Audited
from apps.tenants.admin_lists import TenantFilter, WhenFilter, console_link
from apps.tenants.admin_marks import NOTHING, short_id
from apps.tenants.models import (
    LIMITS,
    ApiKey,
    AuditEntry,
    Membership,
    NotificationChannel,
    Role,
    Secret,
    SignIn,
    Tenant,
)
from apps.tenants.read_only_admin import DailyAdmin, ReadOnlyAdmin, StrictAdmin
from chronoweb.runtime.clock import SYSTEM_CLOCK


@admin.register(Tenant)
class TenantAdmin(Audited, StrictAdmin):
    list_display = (
        "slug",
        "name",
        "tier",
        "weight",
        "max_concurrent_workers",
        "rate_limit_rps",
        "created_at",
        "console",
    )
    list_filter = ("tier",)
    search_fields = ("slug", "name")
    search_help_text = "a part of a slug or a name"
    readonly_fields: ClassVar[Any] = ("created_at", "console")
    fieldsets: ClassVar[Any] = (
        (None, {"fields": ("slug", "name", "tier", "home_region", "weight", "created_at", "console")}),
        (
            "Limits",
            {"fields": LIMITS, "description": "What is over a limit waits, or is refused with 429. Empty: no limit."},
        ),
    )

    @admin.display(description="console")
    def console(self, tenant: Tenant) -> str:
        if tenant._state.adding:
            return NOTHING
        shown = (("overview", "overview"), ("settings_limits", "limits"), ("audit", "audit"))
        links = [console_link(route, words, slug=tenant.slug) for route, words in shown]
        return format_html("{} · {} · {}", *links)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A tenant with history stays: its rows would lose their owner."""
        return False


@admin.register(Membership)
class MembershipAdmin(Audited, StrictAdmin):
    list_display = ("user", "tenant", "role", "created_at")
    list_filter = ("role", TenantFilter)
    list_select_related = ("user", "tenant")
    search_fields = ("user__username", "tenant__slug")
    search_help_text = "a part of a username or a tenant's slug"
    autocomplete_fields = ("user", "tenant")


@admin.register(ApiKey)
class ApiKeyAdmin(StrictAdmin):
    """Keys are made and revoked, never changed or deleted: the log names them."""

    list_display = ("name", "prefix", "tenant", "role", "created_at", "expires_at", "last_used_at", "revoked_at")
    list_filter = ("role", TenantFilter)
    list_select_related = ("tenant",)
    search_fields = ("name", "prefix", "tenant__slug")
    search_help_text = "a part of a name, a prefix or a tenant's slug"
    autocomplete_fields = ("tenant",)
    fields = ("tenant", "name", "role", "scopes", "expires_at")
    actions = ("revoke",)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return (
            self.fields
            if obj is None
            else (*self.fields, "prefix", "created_at", "created_by", "last_used_at", "revoked_at")
        )

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("tenants.change_apikey")

    def save_model(self, request: HttpRequest, obj: ApiKey, form: ModelForm, change: bool) -> None:
        """Issue the key and show its text, which is stored nowhere."""
        issued, text = keys.make(
            tenant=obj.tenant,
            name=obj.name,
            role=Role(obj.role),
            expires_at=obj.expires_at,
            scopes=obj.scopes,
            created_by=actor(request),
        )
        obj.pk, obj.prefix = issued.pk, issued.prefix
        self._record(request, issued, "create")
        note = "The key, shown this once, so keep it now: <code>{}</code>"
        self.message_user(request, format_html(note, text), messages.WARNING)

    @admin.action(description="Revoke", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        live = list(queryset.filter(revoked_at=None))
        for key in live:
            key.revoked_at = SYSTEM_CLOCK.now()
            key.save(update_fields=["revoked_at"])
            self._record(request, key, "revoke")
        self.message_user(request, f"{len(live)} revoked: they are refused from now on.")

    def _record(self, request: HttpRequest, key: ApiKey, act: str) -> None:
        audit.record(
            tenant_id=key.tenant_id,
            actor=actor(request),
            action=f"api_key.{act}",
            target_type="api_key",
            target_id=key.pk,
            detail={"name": key.name, "prefix": key.prefix, "role": key.role},
        )


@admin.register(Secret)
class SecretAdmin(ReadOnlyAdmin):
    """Names, and where values are kept. They are written over REST, by those whose they are."""

    nothing = "Owners and operators write them in the console's settings, or over REST."
    list_display = ("name", "tenant", "store", "updated_at", "updated_by")
    list_filter = ("store", TenantFilter)
    list_select_related = ("tenant",)
    fields = ("tenant", "name", "store", "place", "created_at", "created_by", "updated_at", "updated_by")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        return super().get_queryset(request).exclude(name__startswith=":")


@admin.register(NotificationChannel)
class NotificationChannelAdmin(ReadOnlyAdmin):
    """What may be shown of them. They are written over REST, by those whose they are."""

    nothing = "Owners make them in the console's settings, or over REST."
    list_display = ("uri", "tenant", "updated_at", "updated_by")
    list_filter = ("kind", TenantFilter)
    list_select_related = ("tenant",)
    fields = ("tenant", "kind", "name", "config", "created_at", "created_by", "updated_at", "updated_by")


@admin.register(SignIn)
class SignInAdmin(ReadOnlyAdmin):
    """Who has tokens. They end by the API, or when the membership or the password does."""

    list_display = ("user", "tenant", "created_at", "expires_at", "revoked_at")
    list_filter = (TenantFilter,)
    list_select_related = ("user", "tenant")
    ordering = ("-id",)
    fields = ("user", "tenant", "created_at", "expires_at", "revoked_at")


class AtFilter(WhenFilter):
    field = "at"


@admin.register(AuditEntry)
class AuditEntryAdmin(DailyAdmin):
    when = AtFilter
    list_display = ("at", "tenant", "actor", "action", "target", "via", "address", "console")
    sortable_by = ()
    nothing = "Nobody has done anything yet."
    fieldsets = (
        (None, {"fields": ("at", "tenant", "actor", "action", "target_type", "target_id", "detail", "console")}),
        ("From where", {"fields": ("via", "address")}),
    )
    list_filter = (AtFilter, TenantFilter)
    list_select_related = ("tenant",)
    readonly_fields = ("console",)
    search_fields = ("actor", "target_id")
    search_help_text = "an actor or a target's id, as a whole"

    def get_search_results(self, request: HttpRequest, queryset: QuerySet[Any], search_term: str) -> Any:
        if not search_term:
            return queryset, False
        return queryset.filter(actor=search_term) | queryset.filter(target_id=search_term), False

    @admin.display(description="what")
    def target(self, entry: AuditEntry) -> str:
        return format_html("{} {}", entry.target_type, short_id(entry.target_id))

    @admin.display(description="console")
    def console(self, entry: AuditEntry) -> str:
        if entry.tenant is None:
            return NOTHING
        query = urlencode({"target_type": entry.target_type, "target_id": entry.target_id})
        return console_link("audit", "its history", slug=entry.tenant.slug, query=f"?{query}")


import_module("apps.tenants.admin_people")
