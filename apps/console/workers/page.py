"""What the page of workers shows: to a tenant those that may run its work, and of others' work only how much it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.urls import reverse

from apps.console import listing
from apps.console.fragments import PacedPage, Pieces
from apps.console.row_html import Row
from apps.console.rows import present_all
from apps.console.wording import duration
from apps.console.workers import standing
from apps.console.workers.buttons import drain_act
from apps.executions import fleet, fleet_work
from apps.executions.draining import may_drain
from apps.executions.fleet_work import Held
from apps.executions.models import Worker
from apps.executions.states import ExecutionClass
from chronoweb.runtime.config import config

_ENDED_SHOWN = timedelta(hours=1)
_WORK_SHOWN = 4


@dataclass(frozen=True)
class Slots:
    """Of one class, on one worker or on all. lent: in use beyond its own, on idle critical ones. x: of a bar."""

    name: str
    used: int
    own: int

    @property
    def lent(self) -> int:
        return max(0, self.used - self.own)

    @property
    def x_used(self) -> float:
        return round(100 * min(self.used, self.own) / self._whole, 1)

    @property
    def x_lent(self) -> float:
        return round(100 * self.lent / self._whole, 1)

    @property
    def x_own(self) -> float:
        return round(100 * self.own / self._whole, 1)

    @property
    def _whole(self) -> int:
        return max(self.own, self.used, 1)


@dataclass(frozen=True)
class Line:
    """A worker as a row. whole: whether its machine and load are shown. acts: (button, whether it is shown)."""

    worker: Worker
    state: str
    why: str
    slots: list[Slots]
    held: Held
    work: list[Row]
    whole: bool
    acts: list[tuple[Any, bool]]
    base: str
    lives: bool

    @property
    def more(self) -> int:
        return self.held.own - len(self.work)


class WorkersPage(PacedPage):
    """One tenant's view of the fleet."""

    templates = "console/workers"
    look_seconds = 1.0
    soonest_seconds = 1.0

    def pieces(self) -> Pieces:
        """At most eight queries, however many workers."""
        now = self._clock.now()
        found = self._lines(now)
        return {
            "fleet": self.piece("fleet", 0.0, lambda _: self._fleet(found)),
            "list": self.piece("list", 0.0, lambda _: {"lines": found, "whole": any(line.whole for line in found)}),
        }

    def _lines(self, now: datetime) -> list[Line]:
        who, settings = self._principal, config()
        rows = [*fleet.workers_for(who), *fleet.ended_for(who, since=now - _ENDED_SHOWN)]
        states = {row.pk: standing.of(row, now=now, heartbeat_seconds=settings.heartbeat_seconds) for row in rows}
        held = fleet_work.held_by(who, [row.pk for row in rows], shown=_WORK_SHOWN)
        executions = listing.read(who, [identity for one in held.values() for identity in one.ids])
        work = {row.id: row for row in present_all(who, executions, now=now)} if executions else {}
        live = [row for row in rows if states[row.pk] == standing.LIVE]
        made = []
        for row in rows:
            act = drain_act(row, stay=_who_stays(row, live), grace=_grace(settings.drain_grace_seconds))
            may = states[row.pk] in (standing.LIVE, standing.SILENT) and may_drain(who, row.tenant_id)
            base = reverse("console:worker_act", args=[who.tenant_slug, row.pk, "x"])[:-1]
            made.append(
                Line(
                    worker=row,
                    state=states[row.pk],
                    why=standing.WORDS[states[row.pk]],
                    slots=_slots([row]),
                    held=held[row.pk],
                    work=[work[identity] for identity in held[row.pk].ids if identity in work],
                    whole=fleet.is_whole(who, row),
                    acts=[(act, True)] if may and row.drain_requested_at is None else [],
                    base=base,
                    lives=states[row.pk] not in (standing.STOPPED, standing.LOST),
                )
            )
        return sorted(made, key=lambda line: (standing.ORDER.index(line.state), -line.worker.pk))

    def _fleet(self, found: Sequence[Line]) -> dict[str, Any]:
        living = [line for line in found if line.lives]
        whole = [line.worker for line in living if line.whole]
        slots = _slots([line.worker for line in living])
        return {
            "counts": [
                (state, n) for state, n in Counter(line.state for line in found).items() if state != standing.LIVE
            ],
            "live": sum(line.state == standing.LIVE for line in living),
            "slots": slots,
            "total": sum(line.worker.slots for line in living),
            "used": sum(one.used for one in slots),
            "lent": sum(one.lent for one in slots),
            "own_work": sum(line.held.own for line in living),
            "all_work": sum(line.held.all for line in living),
            "dedicated": sum(line.worker.tenant_id is not None for line in living),
            "platform": self._principal.is_platform,
            "completed": sum(worker.completed_last_minute for worker in whole),
            "errors": sum(worker.errors_last_minute for worker in whole),
            "cores": round(sum(worker.cpu_percent for worker in whole) / 100, 1),
            "memory": sum(worker.memory_bytes for worker in whole),
        }


def _slots(workers: Sequence[Worker]) -> list[Slots]:
    """By class; empty for workers of a version that did not say so."""
    told = [worker.by_class for worker in workers if worker.by_class]
    return [
        Slots(one.word, sum(by[one][0] for by in told), sum(by[one][1] for by in told))
        for one in ExecutionClass
        if any(len(by) > one for by in told)
    ]


def _who_stays(worker: Worker, live: Sequence[Worker]) -> str:
    """Who runs its work when it has gone."""
    others = [one for one in live if one.pk != worker.pk]
    if worker.tenant_id is not None:
        kept = sum(one.tenant_id == worker.tenant_id for one in others)
        if not kept:
            return "It is the last one kept for its tenant: until another comes, shared workers run that work."
        return f"{kept} other{'s' if kept > 1 else ''} kept for its tenant stay{'' if kept > 1 else 's'}."
    shared = sum(one.tenant_id is None for one in others)
    if not shared:
        return "It is the last shared worker that lives: what waits goes on waiting until another one comes."
    lost = sorted(set(worker.labels) - {label for one in others if one.tenant_id is None for label in one.labels})
    gone = f" Nobody else carries {', '.join(lost)}: work that requires it will wait." if lost else ""
    return f"{shared} other shared worker{'s' if shared > 1 else ''} stay{'' if shared > 1 else 's'}.{gone}"


def _grace(seconds: float) -> str:
    return duration(timedelta(seconds=seconds))
