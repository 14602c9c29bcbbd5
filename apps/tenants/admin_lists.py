"""Lists of the admin over tables that are never counted: how many rows there may be, whose, and of which time."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from django.contrib import admin
from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet
from django.http import HttpRequest, QueryDict
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from unfold import paginator

from apps.tenants.models import Tenant
from chronoweb.runtime.clock import SYSTEM_CLOCK

DAYS = 14
MOST_TENANTS = 50
_DAY, _HOUR = timedelta(days=1), timedelta(hours=1)


class InfinitePaginator(paginator.InfinitePaginator):
    """Goes on until a page is empty; says how many rows the planner expects, which reads none of them.

    The theme knows paginators without a count by this name, and shows none.
    """

    template_name = "admin/pages_and_estimate.html"

    seen = 0
    """Rows up to the end of the page that was asked for."""

    def page(self, number: Any) -> Any:
        found = super().page(number)
        self.seen = (found.number - 1) * self.per_page + len(found)
        return found

    @cached_property
    def estimate(self) -> int:
        """Asked for by the template where a page does not show all; no less than what has been seen."""
        try:
            plan = json.loads(self.object_list.order_by().explain(format="json"))
        except EmptyResultSet:
            return self.seen
        return max(int(plan[0]["Plan"]["Plan Rows"]), self.seen)


class TenantFilter(admin.SimpleListFilter):
    """By slug, which the address takes of any tenant; the first of them are offered."""

    title = "tenant"
    parameter_name = "tenant"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        slugs = Tenant.objects.order_by("slug").values_list("slug", flat=True)[:MOST_TENANTS]
        return [(slug, slug) for slug in slugs]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        slug = self.value()
        if not slug:
            return queryset
        found = Tenant.objects.filter(slug=slug).values_list("id", flat=True).first()
        return queryset.none() if found is None else queryset.filter(tenant_id=found)


class WhenFilter(admin.SimpleListFilter):
    """A stretch of time, a day or an hour of it, in UTC. Django's date hierarchy asks for the first, the last and each
    distinct day of all rows; this one's days follow from the clock.
    """

    title = "time"
    parameter_name = "when"
    field: ClassVar[str]
    spans: ClassVar[dict[str, tuple[str, timedelta, timedelta]]] = {
        "hour": ("last hour", -_HOUR, timedelta(0)),
        "day": ("last 24 hours", -_DAY, timedelta(0)),
        "week": ("last 7 days", -7 * _DAY, timedelta(0)),
    }
    usual: ClassVar[str] = ""
    """The span where none is chosen; empty: all of time."""

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(word, title) for word, (title, _, _) in self.spans.items() if word != self.usual]

    def choices(self, changelist: Any) -> Any:
        for choice in super().choices(changelist):
            yield choice | ({"display": self.spans[self.usual][0]} if self.usual and choice["display"] == "All" else {})

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        bounds = self.bounds(self.value(), SYSTEM_CLOCK.now())
        if bounds is None:
            return queryset
        return queryset.filter(**{f"{self.field}__gte": bounds[0], f"{self.field}__lt": bounds[1]})

    @classmethod
    def bounds(cls, value: str | None, now: datetime) -> tuple[datetime, datetime] | None:
        """First instant and end of what `value` means; what means nothing is the usual span. None: all of time."""
        stretch = stretch_of(value)
        if stretch is not None:
            return stretch
        word = value if value in cls.spans else cls.usual
        if not word:
            return None
        _, begin, end = cls.spans[word]
        return now + begin, now + end

    @classmethod
    def links(cls, given: QueryDict, now: datetime) -> list[tuple[str, str, bool]]:
        """(query, words, whether it is chosen): the last days, or the hours of the day that is chosen."""
        chosen = given.get(cls.parameter_name, "")
        stretch = stretch_of(chosen)
        if stretch is None:
            days = [now.astimezone(UTC).date() - number * _DAY for number in range(DAYS)]
            return [(_with(given, cls.parameter_name, str(day)), f"{day:%-d %b}", False) for day in days]
        day = stretch[0].date()
        hours = [(f"{day}T{hour:02}", f"{hour:02}") for hour in range(24)]
        up = [("", "all days"), (str(day), f"{day:%-d %b %Y}")]
        return [(_with(given, cls.parameter_name, value), words, value == chosen) for value, words in up + hours]


def stretch_of(value: str | None) -> tuple[datetime, datetime] | None:
    """Begin and end of a day (2026-11-30) or an hour (2026-11-30T09) in UTC; None for anything else."""
    for form, length in (("%Y-%m-%d", _DAY), ("%Y-%m-%dT%H", _HOUR)):
        try:
            begin = datetime.strptime(value or "", form).replace(tzinfo=UTC)
            return begin, begin + length
        except (ValueError, OverflowError):
            continue
    return None


def console_link(route: str, words: str = "open", *, query: str = "", **arguments: Any) -> str:
    """Into the console, by the name of its route."""
    url = reverse(f"console:{route}", kwargs=arguments)
    return format_html('<a class="to-console" href="{}{}">{}</a>', url, query, words)


def _with(given: QueryDict, name: str, value: str) -> str:
    """The address's query with another choice, from its first page."""
    changed = given.copy()
    changed.pop("p", None)
    changed[name] = value
    if not value:
        del changed[name]
    return f"?{changed.urlencode()}"
