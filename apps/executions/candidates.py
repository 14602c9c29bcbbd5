"""The executions that a search looks at: those along one index, in the order of their ids, so many at a time.

A filter that few rows pass would read a whole day, or all of them, before a page is full. So each statement takes its
filters to the next `size` rows of one source and no more. They are numbered: the last of them, which a statement tells
whether it passes or not, is the source's edge, and the search goes on there. A source that has an index of its own
stands before one that is every execution of the tenant.

How many is a parameter, never a number in the text. Of a kept plan PostgreSQL thinks that the bounds leave a handful of
rows; to the two thousandth of those it would sort all that there are, while of a number that it does not know it takes
a tenth, and goes along the index.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BEHIND = {"below": "{}.{} < %(below)s", "above": "{}.{} > %(above)s"}


def bounds(alias: str, values: Mapping[str, Any], *, key: str = "id") -> str:
    """The tenant's, of a stretch of time, behind the id that a page goes on from.

    scheduled_at chooses the partitions. The same bounds on the id make the index whose order is the page's order the
    better choice even where statistics are missing: else a day's rows are read and sorted for one page.
    """
    terms = [
        f"{alias}.tenant_id = %(tenant)s",
        f"{alias}.scheduled_at >= %(since)s AND {alias}.scheduled_at < %(until)s",
        f"{alias}.{key} >= %(lowest)s AND {alias}.{key} < %(highest)s",
        *(text.format(alias, key) for name, text in BEHIND.items() if name in values),
    ]
    return " AND ".join(terms)


@dataclass(frozen=True)
class Source:
    """answers: the filter that it takes the place of; empty: none.

    share: how many of its rows cost as much as one of the tenant's own order. merged: its rows come from several
    stretches, so what lies beyond the edge may not be told yet. whole: it is small, and read as a whole.
    """

    answers: str
    condition: str = ""
    table: str = ""
    share: int = 1
    merged: bool = False
    whole: bool = False

    @property
    def key(self) -> str:
        """What a page of it is ordered by: the id, as its index has it."""
        return "k.execution_id" if self.table else "e.id"

    @property
    def number(self) -> str:
        """Which of the next `size` rows one is."""
        return "k.n" if self.table else "e.n"

    def rows(self, values: Mapping[str, Any], *, order: str, bounded: bool) -> str:
        """What stands behind FROM: `e` is one of the next `size` executions, which have a number, or of all."""
        if self.table:
            where = bounds("k", values, key="execution_id")
            found = f"SELECT k.execution_id, k.scheduled_at FROM {self.table} k WHERE {where}"  # noqa: S608 - names
            return (
                f"{_numbered(found, 'k', 'execution_id', order, bounded=bounded)}"  # noqa: S608 - likewise
                " LEFT JOIN LATERAL (SELECT x.* FROM executions x WHERE x.scheduled_at = k.scheduled_at"
                " AND x.id = k.execution_id AND x.tenant_id = %(tenant)s OFFSET 0) e ON true"
            )
        if self.merged:
            found = f"SELECT e.* FROM executions e WHERE e.task_id = t.id AND {bounds('e', values)}"  # noqa: S608
            return (
                "unnest(%(tasks)s::uuid[]) AS t(id) CROSS JOIN LATERAL "
                f"{_numbered(found, 'e', 'id', order, bounded=bounded)}"
            )
        found = f"SELECT e.* FROM executions e WHERE {bounds('e', values)}{self.condition}"  # noqa: S608
        return f"({found} OFFSET 0) e" if self.whole else _numbered(found, "e", "id", order, bounded=bounded)


def _numbered(found: str, alias: str, key: str, order: str, *, bounded: bool) -> str:
    """The first `size` rows, of which each has its number `n`."""
    if not bounded:
        return f"({found}) {alias}"
    first = f"{found} ORDER BY {alias}.{key} {order} LIMIT %(size)s"
    return f"(SELECT y.*, row_number() OVER (ORDER BY y.{key} {order}) AS n FROM ({first}) y) {alias}"  # noqa: S608


ALL = Source("")
OF_TASKS = Source("tasks", merged=True)
SOURCES = (
    Source("run", " AND e.dag_run_id = %(run)s", whole=True),
    Source("hold", " AND e.hold = %(hold)s AND e.hold <> 0"),
    Source("error_type", " AND e.error ->> 'type' = %(error_type)s AND e.error IS NOT NULL"),
    Source("active", table="outstanding", share=4),
    Source("retrying", " AND e.error IS NOT NULL AND (e.wake_at IS NOT NULL OR e.hold <> 0)"),
    Source("task", " AND e.task_id = %(task)s"),
    Source("dead", table="dead_letters", share=4),
)
"""The narrower first. The conditions repeat what the indexes are for, which a kept plan cannot tell from values."""


def chosen(filters: Mapping[str, Any]) -> Source:
    """The source of a search with these filters, by their names."""
    return next((source for source in SOURCES if source.answers in filters), ALL)
