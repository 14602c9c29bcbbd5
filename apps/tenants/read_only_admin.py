"""What the admin's pages of run data have in common: they show, they never write, and they never count."""

from typing import Any

from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.paginator import InfinitePaginator


class ReadOnlyAdmin(ModelAdmin):
    """Rows to look at. Pages go on until one is empty: a COUNT over the ledger costs seconds."""

    paginator = InfinitePaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 0

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
