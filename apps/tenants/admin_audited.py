"""What the admin's forms change leaves entries in the audit log, in the same transaction."""

from collections.abc import Iterable
from typing import Any

from django.contrib.admin import ModelAdmin
from django.db.models import Manager, Model, QuerySet
from django.forms import ModelForm
from django.http import HttpRequest

from apps.tenants import audit
from apps.tenants.admin_acts import actor
from apps.tenants.models import Tenant

_NEVER_TOLD = frozenset({"password", "password1", "password2", "usable_password"})


class Audited(ModelAdmin):
    """Each save and deletion: what stood before and what stands now, by field."""

    def save_related(self, request: HttpRequest, form: ModelForm, formsets: Any, change: bool) -> None:
        """The last of what a form writes: the row is there, and what belongs to it."""
        super().save_related(request, form, formsets, change)
        self.record(request, form.instance, "change" if change else "create", **difference(form, change=change))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.record_deletion(request, obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for obj in queryset:
            self.record_deletion(request, obj)
        super().delete_queryset(request, queryset)

    def record_deletion(self, request: HttpRequest, obj: Any) -> None:
        """Before it is gone."""
        self.record(request, obj, "delete", **self.told_of(obj))

    def told_of(self, obj: Any) -> dict[str, Any]:
        """What an entry says of something that is about to be gone."""
        return {"name": str(obj)}

    def record(self, request: HttpRequest, obj: Any, act: str, **detail: Any) -> None:
        name = str(obj._meta.model_name)
        audit.record(
            tenant_id=obj.pk if isinstance(obj, Tenant) else getattr(obj, "tenant_id", None),
            actor=actor(request),
            action=f"{name}.{act}",
            target_type=name,
            target_id=obj.pk,
            detail=detail,
        )


def difference(form: ModelForm, *, change: bool) -> dict[str, Any]:
    """fields, before, after; of passwords that they changed and nothing else."""
    fields = sorted(form.changed_data)
    detail: dict[str, Any] = {"fields": fields}
    if change:
        told = [name for name in fields if name not in _NEVER_TOLD]
        detail["before"] = {name: plain(form.initial.get(name)) for name in told}
        detail["after"] = {name: plain(form.cleaned_data.get(name)) for name in told}
    return detail


def plain(value: Any) -> Any:
    """As JSON has it: a person or a tenant by its name, several as a list."""
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, QuerySet | Manager | list | tuple | set):
        return sorted(_name(one) for one in _all(value))
    return str(value)


def _all(values: Any) -> Iterable[Any]:
    return values.all() if isinstance(values, Manager) else values


def _name(one: Any) -> str:
    """`executions.view_execution` of a permission."""
    if isinstance(one, Model) and hasattr(one, "codename"):
        return ".".join(one.natural_key()[1::-1])  # type: ignore[attr-defined]
    return str(one)
