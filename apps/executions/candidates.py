"""The executions that a search looks at: those along one index, in the order of their ids, so many at a time.

A filter that few rows pass would read a whole day, or all of them, before a page is full. So each statement takes its
filters to the next `size` rows of one source and no more; where these end is the source's `edge`, and the search goes
on there. A source that has an index of its own stands before one that is every execution of the tenant.
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

    def rows(self, values: Mapping[str, Any], *, order: str, size: int | None) -> str:
        """What stands behind FROM: `e` is one of the next `size` executions. None: of all."""
        tail = "" if size is None else f" ORDER BY {{}} {order} LIMIT {size}"
        if self.table:
            return (
                f"(SELECT k.execution_id, k.scheduled_at FROM {self.table} k"  # noqa: S608 - names of tables
                f" WHERE {bounds('k', values, key='execution_id')}{tail.format('k.execution_id')}) k"
                " CROSS JOIN LATERAL (SELECT x.* FROM executions x WHERE x.scheduled_at = k.scheduled_at"
                " AND x.id = k.execution_id AND x.tenant_id = %(tenant)s OFFSET 0) e"
            )
        if self.merged:
            return (
                "unnest(%(tasks)s::uuid[]) AS t(id) CROSS JOIN LATERAL"  # noqa: S608 - constants
                f" (SELECT x.* FROM executions x WHERE x.task_id = t.id AND {bounds('x', values)}"
                f"{tail.format('x.id')}) e"
            )
        tail = " OFFSET 0" if self.whole else tail.format("e.id")
        return f"(SELECT e.* FROM executions e WHERE {bounds('e', values)}{self.condition}{tail}) e"  # noqa: S608

    def edge(self, values: Mapping[str, Any], *, order: str, size: int) -> str:
        """The statement of the last id that `rows` looks at; no row where it comes to the end of the stretch."""
        tail = f"{order} OFFSET {size - 1} LIMIT 1"
        if self.table:
            where = bounds("k", values, key="execution_id")
            return f"SELECT k.execution_id FROM {self.table} k WHERE {where} ORDER BY k.execution_id {tail}"  # noqa: S608
        if self.merged:
            return (
                "SELECT z.id FROM unnest(%(tasks)s::uuid[]) AS t(id) CROSS JOIN LATERAL"  # noqa: S608
                f" (SELECT x.id FROM executions x WHERE x.task_id = t.id AND {bounds('x', values)}"
                f" ORDER BY x.id {tail}) z ORDER BY z.id {order} LIMIT 1"
            )
        return f"SELECT e.id FROM executions e WHERE {bounds('e', values)}{self.condition} ORDER BY e.id {tail}"  # noqa: S608


ALL = Source("")
OF_TASKS = Source("tasks", merged=True)
SOURCES = (
    Source("run", " AND e.dag_run_id = %(run)s", whole=True),
    Source("hold", " AND e.hold = %(hold)s AND e.hold <> 0"),
    Source("error_type", " AND e.error ->> 'type' = %(error_type)s AND e.error IS NOT NULL"),
    Source("active", table="outstanding", share=4),
    Source("task", " AND e.task_id = %(task)s"),
    Source("dead", table="dead_letters", share=4),
)
"""The narrower first. The conditions repeat what the indexes are for, which a kept plan cannot tell from values."""


def chosen(filters: Mapping[str, Any]) -> Source:
    """The source of a search with these filters, by their names."""
    return next((source for source in SOURCES if source.answers in filters), ALL)
