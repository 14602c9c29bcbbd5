"""What the admin's pages have in common: no id brings them down; those of run data show, never write, never count."""

from typing import Any, ClassVar, NoReturn

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied, SuspiciousOperation, ValidationError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import urlencode
from unfold.admin import ModelAdmin

from apps.tenants.admin_lists import InfinitePaginator, WhenFilter
from apps.tenants.admin_marks import NOTHING
from chronoweb.runtime.clock import SYSTEM_CLOCK


class StrictPages(admin.ModelAdmin):
    """What is not there is a 404. Django itself redirects, and asks the database for ids that it cannot have."""

    empty_value_display = NOTHING
    show_facets = admin.ShowFacets.NEVER
    """Else `?_facets` in an address counts the whole table, once for each choice of each filter."""

    def get_object(self, request: HttpRequest, object_id: str, from_field: Any = None) -> Any:
        if "\0" in object_id:
            raise Http404("no such object")
        return super().get_object(request, object_id, from_field)

    def _get_obj_does_not_exist_redirect(self, request: HttpRequest, opts: Any, object_id: Any) -> NoReturn:
        raise Http404(f"no {opts.verbose_name} of this id")

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """What was done to it stands in the audit log, whoever did it and from where; Django's own log has nothing."""
        if not request.user.has_perm("tenants.view_auditentry"):
            return super().history_view(request, object_id, extra_context)
        row = self.get_object(request, unquote(object_id))
        if row is None:
            raise Http404("no such object")
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        query = urlencode({"q": row.pk})
        return HttpResponseRedirect(f"{reverse('admin:tenants_auditentry_changelist')}?{query}")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        given = [*request.GET.values(), *request.POST.getlist("_selected_action")]
        if any("\0" in value for value in given):
            raise SuspiciousOperation("a value contains a NUL character")
        for chosen in request.POST.getlist("_selected_action"):
            try:
                self.model._meta.pk.to_python(chosen)
            except ValidationError as error:
                raise SuspiciousOperation("what was chosen is no id") from error
        return super().changelist_view(request, extra_context)


class StrictAdmin(StrictPages, ModelAdmin):
    """The same in the admin's theme. Pages go on until one is empty: a COUNT over the ledger costs seconds."""

    paginator = InfinitePaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0
    actions_selection_counter = False
    list_fullwidth = True
    nothing = ""
    """What an empty list says of where rows come from."""


class ReadOnlyAdmin(StrictAdmin):
    """Rows to look at; what may be done to them are acts."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class DailyAdmin(ReadOnlyAdmin):
    """Rows by time: above the list stand the last days, and the hours of the day that is chosen."""

    when: ClassVar[type[WhenFilter]]
    list_before_template = "admin/days.html"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> Any:
        days = self.when.links(request.GET, SYSTEM_CLOCK.now())
        return super().changelist_view(request, {**(extra_context or {}), "days": days})
