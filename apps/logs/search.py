"""Searching all logs of a tenant: the index names the chunks, their lines are read, latest executions first.

What has not been shipped yet is not found here; the search of one execution finds that, too.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.executions.ids import EARLIEST, LATEST, lowest
from apps.logs import reading
from apps.logs.models import LogChunk
from apps.logs.records import Position
from apps.logs.words import Wanted
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

DAYS_BACK = 7
"""A search that names no `since` looks back this far."""
MOST_CHUNKS = 64
"""Read for one page; a page then may have fewer lines than asked for, and says where to go on."""
_ROWS = 16


@dataclass(frozen=True, slots=True)
class Place:
    """Behind which line of which execution a search goes on."""

    execution: UUID
    position: Position

    def __str__(self) -> str:
        return f"{self.execution}.{self.position}"

    @classmethod
    def parse(cls, text: str) -> "Place":
        """Raises ValueError."""
        identity, _, position = text.partition(".")
        return cls(UUID(identity), Position.parse(position))


@dataclass(frozen=True, slots=True)
class Found:
    """lines: each with its execution_id. after: where to go on; None at the end."""

    lines: list[dict[str, Any]]
    after: Place | None


def search(
    principal: Principal,
    wanted: Wanted,
    *,
    since: datetime | None,
    until: datetime | None,
    after: Place | None,
    limit: int,
    now: datetime,
) -> Found:
    """Lines of executions scheduled from `since` (inclusive) to `until` (exclusive), at most `limit` of them."""
    low = max(since or now - timedelta(days=DAYS_BACK), EARLIEST)
    high = min(until or LATEST, LATEST)
    lines: list[dict[str, Any]] = []
    for count, chunk in enumerate(_chunks(principal, wanted, low, high, after), 1):
        for position, data in reading.load(chunk).numbered():
            here = Place(chunk.execution_id, position)
            if after is not None and chunk.execution_id == after.execution and position <= after.position:
                continue
            line = json.loads(data)
            if wanted.in_text(reading.searched_text(line)):
                lines.append({"execution_id": str(chunk.execution_id), "id": str(position), **line})
                if len(lines) >= limit:
                    return Found(lines, here)
        if count >= MOST_CHUNKS:
            return Found(lines, Place(chunk.execution_id, Position(chunk.token, chunk.last_seq)))
    return Found(lines, None)


def _chunks(
    principal: Principal, wanted: Wanted, low: datetime, high: datetime, after: Place | None
) -> Iterator[LogChunk]:
    while True:
        rows = scoped(LogChunk.objects.all(), principal).filter(scheduled_at__gte=low, scheduled_at__lt=high)
        rows = rows.filter(execution_id__gte=lowest(low), execution_id__lt=lowest(high), length__gt=0)
        rows = rows.extra(where=["(words @@ %s::tsquery OR NOT searched_whole)"], params=[wanted.query])
        page = list(_behind(rows, after).defer("words").order_by("-execution_id", "token", "first_seq")[:_ROWS])
        yield from page
        if len(page) < _ROWS:
            return
        after = Place(page[-1].execution_id, Position(page[-1].token, page[-1].last_seq))


def _behind(rows: QuerySet[LogChunk], after: Place | None) -> QuerySet[LogChunk]:
    if after is None:
        return rows
    token, sequence = after.position
    rest = Q(token__gt=token) | Q(token=token, last_seq__gt=sequence)
    return rows.filter(Q(execution_id__lt=after.execution) | Q(rest, execution_id=after.execution))
