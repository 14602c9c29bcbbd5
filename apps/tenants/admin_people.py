"""Admin: accounts and groups. Who may do everything is decided by those who may do everything."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin as DjangoGroupAdmin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.html import format_html
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from apps.tenants import audit
from apps.tenants.admin_acts import actor
from apps.tenants.admin_audited import Audited
from apps.tenants.models import SignIn
from apps.tenants.read_only_admin import StrictPages

admin.site.index_title = "Admin"
admin.site.unregister(User)
admin.site.unregister(Group)

_POWERS = ("is_active", "is_staff", "is_superuser", "groups", "user_permissions")
"""Only a superuser grants them: who may change accounts could otherwise make themselves one."""
_TIMES = ("last_login", "date_joined")
_BY_ITSELF = (*_TIMES, "word", "word_only")


def _is_superuser(request: HttpRequest) -> bool:
    return bool(getattr(request.user, "is_superuser", False))


class NewUser(UserCreationForm):
    """In the words of what there is here: nobody logs in by another directory."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["usable_password"].help_text = "Without one they cannot log in by name and password."


@admin.register(User)
class UserAdmin(StrictPages, Audited, DjangoUserAdmin, ModelAdmin):
    form = UserChangeForm
    add_form = NewUser
    change_password_form = AdminPasswordChangeForm
    list_display = (
        "username",
        "email",
        "first_name",
        "last_name",
        "is_active",
        "is_staff",
        "is_superuser",
        "last_login",
    )
    list_filter = ("is_active", "is_staff", "is_superuser", "groups")
    search_help_text = "a username, name or address, or a part of one"

    fieldsets = (
        (None, {"fields": ("username", "word", "first_name", "last_name", "email")}),
        ("Permissions", {"fields": _POWERS}),
        ("Times, in UTC", {"fields": _TIMES}),
    )
    filter_horizontal = ()
    autocomplete_fields = ("groups",)

    @admin.display(description="password")
    def word(self, person: User) -> str:
        """Nothing of its hash: whether there is one, and the way to another."""
        path = reverse("admin:auth_user_password_change", args=[person.pk])
        there = "set" if person.has_usable_password() else "none: they log in by links, or not at all"
        return format_html('{} · <a href="{}">set another</a>', there, path)

    @admin.display(description="password")
    def word_only(self, person: User) -> str:
        return "set" if person.has_usable_password() else "none"

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        """Who may not change a password sees no way to."""
        found = super().get_fieldsets(request, obj)
        if obj is None or self.has_change_permission(request, obj):
            return found
        (name, first), *rest = found
        fields = ["word_only" if field == "word" else field for field in first["fields"]]
        return [(name, {**first, "fields": fields}), *rest]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return _BY_ITSELF if _is_superuser(request) else (*_BY_ITSELF, *_POWERS)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and self._is_within_reach(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_delete_permission(request, obj) and self._is_within_reach(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: Any) -> None:
        super().delete_queryset(request, queryset if _is_superuser(request) else queryset.filter(is_superuser=False))

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Sign-ins are nobody's to delete one by one; they go with their account, which could not be deleted else."""
        objects, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return objects, counts, lacking - {SignIn._meta.verbose_name}, protected

    def _is_within_reach(self, request: HttpRequest, person: User | None) -> bool:
        """A superuser's password and address are theirs, and other superusers'."""
        return person is None or not person.is_superuser or _is_superuser(request)

    def user_change_password(self, request: HttpRequest, id: str, form_url: str = "") -> HttpResponse:
        with transaction.atomic():
            answer = super().user_change_password(request, id, form_url)
            if request.method == "POST" and answer.status_code == 302:
                self.record(request, User.objects.get(pk=id), "change", fields=["password"])
            return answer

    def told_of(self, obj: User) -> dict[str, Any]:
        return {"name": obj.get_username(), "is_staff": obj.is_staff, "is_superuser": obj.is_superuser}

    def record_deletion(self, request: HttpRequest, obj: User) -> None:
        """Their memberships go with them, and each tenant's log says so."""
        super().record_deletion(request, obj)
        for membership in obj.memberships.select_related("tenant"):
            self.record(request, membership, "delete", name=f"{obj.get_username()} is {membership.role}")


@admin.register(Group)
class GroupAdmin(StrictPages, Audited, DjangoGroupAdmin, ModelAdmin):
    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if _is_superuser(request) else ("permissions",)

    def told_of(self, obj: Group) -> dict[str, Any]:
        return {"name": obj.name, "people": sorted(obj.user_set.values_list("username", flat=True))}


def own_password(request: HttpRequest) -> HttpResponse:
    """The admin's page of that name, which leaves an entry."""
    with transaction.atomic():
        answer: HttpResponse = admin.site.password_change(request)
        if request.method == "POST" and answer.status_code == 302:
            audit.record(
                tenant_id=None,
                actor=actor(request),
                action="user.change",
                target_type="user",
                target_id=request.user.pk,
                detail={"fields": ["password"]},
            )
        return answer
