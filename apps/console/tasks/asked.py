"""What a list of tasks was asked for. It stands in the URL as a whole, so a link is a saved filter."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import QueryDict

from apps.definitions import selectors
from apps.definitions.models import Task
from apps.tenants.principal import Principal
from chronoweb.runtime.uuids import parse_uuid

LONGEST = 200
MOST_TAGS = 8
SORTS = {"name": ("name", False), "changed": ("updated_at", True), "new": ("id", True), "urgent": ("priority", False)}
"""Word → the column that comes first, and whether it descends. The name breaks ties."""

LABELS = {"name": "name", "changed": "last changed", "new": "newest", "urgent": "most urgent"}
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True)
class Asked:
    """The list's question. search: in any part of the name, capitals or not. tags: carries all of them. paused: None
    is both. chosen: only these ids, where there are any. after: the id of the last task of the page before.
    """

    search: str = ""
    tags: tuple[str, ...] = ()
    paused: bool | None = None
    chosen: tuple[UUID, ...] = ()
    sort: str = "name"
    after: UUID | None = None

    @classmethod
    def of(cls, given: QueryDict) -> "Asked":
        """From `q`, `tag` (several), `paused` (true, false), `sort`, `after` and `id` (several); what is none of the
        known words is as if absent.
        """
        tags = tuple(dict.fromkeys(_text(tag) for tag in given.getlist("tag")[:MOST_TAGS] if _text(tag)))
        chosen = tuple(found for found in map(parse_uuid, given.getlist("id")[:LONGEST]) if found)
        return cls(
            search=_text(given.get("q", "")),
            tags=tags,
            paused=_WORDS.get(given.get("paused", "")),
            chosen=chosen,
            sort=given.get("sort", "") if given.get("sort", "") in SORTS else "name",
            after=parse_uuid(given.get("after", "")),
        )

    @property
    def is_open(self) -> bool:
        """Whether it finds everything."""
        return not (self.search or self.tags or self.chosen) and self.paused is None

    def rows(self, principal: Principal) -> QuerySet[Task]:
        """The tenant's tasks that it finds: what the list shows and what acts by filter act on."""
        rows = selectors.narrowed(selectors.tasks(principal), search=self.search, paused=self.paused)
        for tag in self.tags:
            rows = selectors.narrowed(rows, tag=tag)
        return rows.filter(id__in=self.chosen) if self.chosen else rows

    def query(self, **changes: Any) -> str:
        """The query string of this question with some parts changed; the page starts anew unless `after` is given."""
        values: Mapping[str, Any] = {
            "q": self.search,
            "tag": self.tags,
            "paused": {True: "true", False: "false", None: ""}[self.paused],
            "sort": "" if self.sort == "name" else self.sort,
            "after": "",
            **changes,
        }
        pairs = [(name, one) for name, value in values.items() for one in _several(value) if one]
        return f"?{urlencode(pairs)}"

    def without(self, tag: str) -> str:
        return self.query(tag=[other for other in self.tags if other != tag])

    def with_tag(self, tag: str) -> str:
        return self.query(tag=dict.fromkeys([*self.tags, tag]))

    def page(self, principal: Principal, size: int) -> list[Task]:
        """Up to size + 1 rows behind `after`, which is looked up: where it is gone the list begins anew."""
        rows = self.rows(principal)
        column, down = SORTS[self.sort]
        order = [f"-{column}" if down else column, "name"]
        if self.after is not None:
            last = Task.objects.filter(id=self.after, tenant_id=principal.tenant_id).first()
            if last is not None:
                value = getattr(last, column)
                behind = Q(**{f"{column}__{'lt' if down else 'gt'}": value})
                rows = rows.filter(behind | Q(**{column: value, "name__gt": last.name}))
        return list(rows.order_by(*dict.fromkeys(order))[: size + 1])


def _several(value: Any) -> list[str]:
    return [str(value)] if isinstance(value, str | UUID) else [str(one) for one in value or ()]


def _text(text: str) -> str:
    return text.replace("\0", "").strip()[:LONGEST]
