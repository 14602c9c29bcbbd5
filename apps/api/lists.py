"""What every list has in common: filters, an order, pages by key."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.base import ApiView
from apps.api.filters import Filters, filtered
from apps.api.pagination import OWN_PARAMETERS, Ordering, PageRequest, page_request


class ListView(ApiView):
    """GET answers a page. A list says its `filters`, its `ordering`, its rows, and how a page of them is shown.

    What the path names stands in `self.kwargs`.
    """

    filters: ClassVar[type[Filters]] = Filters
    ordering: ClassVar[Ordering]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.query_parameters = (*cls.filters.base_filters, *OWN_PARAMETERS)

    def get(self, request: Request, **where: Any) -> Response:
        page = self.asked(request)
        found = self.found(request, page)
        return Response(page.answer(found, self.shown(request, found[: page.limit])))

    def asked(self, request: Request) -> PageRequest:
        """Which page. Raises InvalidInput (400)."""
        return page_request(request, filters=list(self.filters.shapes()), ordering=self.ordering)

    def found(self, request: Request, page: PageRequest) -> Sequence[Any]:
        """The page's rows, and one more where there are more."""
        return page.rows(filtered(self.filters, request, self.rows(request)))

    def rows(self, request: Request) -> QuerySet[Any, Any]:
        """All rows of the tenant's list."""
        raise NotImplementedError

    def shown(self, request: Request, rows: Sequence[Any]) -> list[dict[str, Any]]:
        """As the API shows them."""
        raise NotImplementedError
