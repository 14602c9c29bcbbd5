"""What the page of a task's or DAG's backfills shows: those that go on, and those that have ended; and its socket."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.template.loader import render_to_string

from apps.console.fragments import Pieces, PiecesConsumer, may_act
from apps.console.wording import duration
from apps.definitions import backfills
from apps.definitions.models import Backfill, BackfillState, Dag, Task
from apps.definitions.zones import zone
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

SHOWN = 25
NAMES = ("going", "ended")
_UNDER_WAY_SHOWN = 6
_STATES = {BackfillState.RUNNING: "running", BackfillState.FINISHED: "completed", BackfillState.STOPPED: "cancelled"}
"""Whose colour and shape each has."""


@dataclass(frozen=True)
class Line:
    """A backfill as a bar. done, under: thousandths of it; begin, end: of its range, in its schedule's zone.

    mark: the state whose icon it has. upto: the occurrence that it has come to; open: ids of what is under way.
    """

    backfill: Backfill
    mark: str
    done: float
    under: float
    begin: str
    end: str
    zone: str
    upto: str
    open: list[UUID]
    took: str

    @property
    def ended(self) -> int:
        return self.backfill.made - len(self.backfill.under_way)


def line(row: Backfill, *, now: datetime) -> Line:
    """Pure."""
    name = str(row.schedule.get("timezone") or "UTC")
    whole = max(row.total, 1)
    under = len(row.under_way) if row.state == BackfillState.RUNNING else 0
    return Line(
        backfill=row,
        mark=_STATES[BackfillState(row.state)],
        done=round(1000 * max(0, row.made - under) / whole, 1),
        under=round(1000 * under / whole, 1),
        begin=written(row.start_at, name),
        end=written(row.end_at, name),
        zone=name,
        upto=written(row.cursor, name) if row.cursor else "",
        open=list(row.under_way[:_UNDER_WAY_SHOWN]) if under else [],
        took=duration((row.ended_at or now) - row.created_at),
    )


def written(at: datetime, name: str) -> str:
    """`1 Mar 2026 00:00`: a range is read in the zone of its schedule."""
    there = at.astimezone(zone(name) if name != "UTC" else UTC)
    seconds = there.strftime(":%S") if there.second else ""
    return f"{there.day} {there:%b %Y %H:%M}{seconds}"


class BackfillsPage:
    """Of one task or DAG."""

    look_seconds = 1.0
    soonest_seconds = 0.5

    def __init__(self, principal: Principal, of: Task | Dag, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._of = of
        self._clock = clock
        self.is_any_going = False

    def pieces(self) -> Pieces:
        """Two queries, however many there are."""
        now = self._clock.now()
        rows = backfills.of_one(self._principal, self._of)
        going = list(rows.filter(state=BackfillState.RUNNING)[:SHOWN])
        ended = list(rows.exclude(state=BackfillState.RUNNING)[: SHOWN + 1])
        self.is_any_going = bool(going)
        context: dict[str, Any] = {
            "tenant_slug": self._principal.tenant_slug,
            "may": may_act(self._principal),
            "of": self._of,
            "is_dag": isinstance(self._of, Dag),
            "going": _lines(going, now),
            "ended": _lines(ended[:SHOWN], now),
            "is_more": len(ended) > SHOWN,
            "shown": SHOWN,
        }
        return {name: render_to_string(f"console/backfills/_{name}.html", context).strip() for name in NAMES}


def _lines(rows: Sequence[Backfill], now: datetime) -> list[Line]:
    return [line(row, now=now) for row in rows]


class BackfillsConsumer(PiecesConsumer):
    """Of the task or DAG in its address."""

    name = "backfills"

    @property
    def _ids(self) -> dict[str, UUID]:
        given: dict[str, Any] = self.scope["url_route"]["kwargs"]
        return {name: given[name] for name in ("task_id", "dag_id") if name in given}

    def check(self) -> None:
        self._of = backfills.target(self.principal, **self._ids)

    def page(self) -> BackfillsPage:
        return BackfillsPage(self.principal, self._of)

    def key(self) -> tuple[Any, ...]:
        return (self._of.id,)
