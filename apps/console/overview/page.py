"""What a tenant's first page shows. What costs more is read less often; what nobody looks at, never."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from apps.console import listing
from apps.console.dags import strips
from apps.console.fragments import PacedPage, Pieces
from apps.console.letters.filters import Chosen
from apps.console.letters.page import lines
from apps.console.overview import verdict
from apps.console.overview.charts import bars, sparkline
from apps.console.rows import label, present_all
from apps.console.summary import ORDER, Part
from apps.console.wording import duration
from apps.definitions.dags.selectors import dags
from apps.definitions.load import next_hour
from apps.executions import fleet, overview
from apps.executions.dags.selectors import latest_dags
from apps.executions.dead_letter_groups import groups
from apps.executions.dead_letters import DeadLetterFilter
from apps.executions.overview import Day, Pulse
from apps.explain import backlog
from apps.explain.backlog import Backlog
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_UPCOMING = 3
_NEWEST = 9
_GROUPS = 6
_DAGS, _MARKS, _RAN = 4, 12, timedelta(days=7)
_TICKS = (0, 15, 30, 45, 59)
_PERCENTILES = (50, 95, 99)
_NO_BREAK = "\u00a0"


@dataclass(frozen=True)
class Figures:
    """The four cards. Texts are ready to be shown; "≈" says that one is an estimate."""

    share: str
    late: str
    tardy: str
    of: str
    since: str
    late_line: list[str]
    rate: str
    rate_unit: str
    succeeded: str
    rate_line: list[str]
    waiting: str
    waiting_by_class: str
    workers: int
    slots: int
    used: int
    by_class: list[tuple[str, int, int, int]]


class OverviewPage(PacedPage):
    """One tenant's."""

    templates = "console/overview"

    def __init__(self, principal: Principal, *, origin: str = "", clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(principal, clock)
        self._origin = origin

    def pieces(self) -> Pieces:
        """At most 23 queries the first time; rows alone when something changes again at once."""
        return {
            "now": self.piece("now", 1.0, self._now),
            "hour": self.piece("hour", 30.0, self._hour),
            "today": self.piece("today", 10.0, self._today),
            "letters": self.piece("letters", 2.0, self._letters),
            "dags": self.piece("dags", 5.0, self._dags),
            "rows": self.piece("rows", 0.0, self._rows),
        }

    def _now(self, now: datetime) -> dict[str, Any]:
        waiting = backlog.read(self._principal, now=now)
        pulse = overview.pulse(self._principal, now=now, frontier=waiting.met.queue.frontier)
        waiting = waiting.at_least_as(pulse.waiting)
        shown = figures(self._principal, pulse, waiting)
        found = verdict.of(self._principal, pulse, waiting, workers=shown.workers, now=now)
        return {"figures": shown, "verdict": found}

    def _hour(self, now: datetime) -> dict[str, Any]:
        load = next_hour(self._principal, now=now)
        most = max(*load.nominal, *load.shifted)
        instants = [load.begin + timedelta(minutes=minute) for minute in range(60)]
        peak = max(range(len(load.shifted)), key=load.shifted.__getitem__)
        return {
            "nominal": list(zip(bars(load.nominal, most), instants, strict=False)),
            "shifted": list(zip(bars(load.shifted, most), instants, strict=False)),
            "most": most,
            "total": sum(load.shifted),
            "peak": load.shifted[peak],
            "peak_at": load.begin + timedelta(minutes=peak),
            "ticks": [load.begin + timedelta(minutes=minute) for minute in _TICKS],
            "at_least": load.at_least,
            "estimated": load.estimated,
        }

    def _today(self, now: datetime) -> dict[str, Any]:
        found = overview.day(self._principal, now=now)
        return {"parts": parts(found), "total": found.total, "estimated": found.estimated}

    def _letters(self, now: datetime) -> dict[str, Any]:
        found = groups(self._principal, DeadLetterFilter(), most=_GROUPS)
        return {"found": found, "lines": lines(found, Chosen())}

    def _dags(self, now: datetime) -> dict[str, Any]:
        """Three queries; one while nothing runs."""
        ran = latest_dags(self._principal, since=now - _RAN, most=_DAGS)
        marks = strips.of_dags(self._principal, ran, now=now, each=_MARKS)
        found = {dag.id: dag for dag in dags(self._principal).filter(id__in=ran)} if ran else {}
        return {"lines": [(found[each], marks[each]) for each in ran if each in found]}

    def _rows(self, now: datetime) -> dict[str, Any]:
        executions = listing.nearest(self._principal, now=now, upcoming=_UPCOMING, newest=_NEWEST)
        return {"rows": present_all(self._principal, executions, now=now), "origin": self._origin}


def parts(found: Day) -> list[tuple[Part, bool]]:
    """The states that there are, in the order of their life, and whether each count is an estimate."""
    made, x, total = [], 0.0, found.total
    for status in ORDER:
        if count := found.counts.get(status, 0):
            width = 1000 * count / total
            part = Part(status.word, label(status), count, round(x, 1), round(width, 1), False)
            made.append((part, status in found.estimated))
            x += width
    return made


def figures(principal: Principal, pulse: Pulse, waiting: Backlog) -> Figures:
    """One query."""
    workers = list(fleet.workers_for(principal))
    names = [one.word for one in pulse.waiting]
    by_class = [
        (
            name,
            sum(w.by_class[n][0] for w in workers if w.by_class),
            sum(w.by_class[n][1] for w in workers if w.by_class),
        )
        for n, name in enumerate(names)
    ]
    rate, unit = _rate(pulse, waiting.met.queue.pace_of_all)
    by_class_waiting = [f"{one.word} {count:,}" for one, count in waiting.queued.items()]
    held = sum(waiting.held.values())
    return Figures(
        share=_share(pulse.share_on_time),
        late=_percentiles(pulse.late or ()),
        tardy=verdict.tardy(pulse),
        of="last hour" if not pulse.full else f"of the last {pulse.sampled:,}",
        since="" if not pulse.full else f", due since {_ms(pulse.span * 1000)}",
        late_line=sparkline([span.late for span in pulse.spans]),
        rate=rate,
        rate_unit=unit,
        succeeded=_share(pulse.share_succeeded),
        rate_line=sparkline([float(span.begun) for span in pulse.spans]) if pulse.begun else [],
        waiting=f"{'≥ ' if waiting.at_least else ''}{waiting.total:,}",
        waiting_by_class=" · ".join([*by_class_waiting, *([f"held {held:,}"] if held else [])]),
        workers=len(workers),
        slots=sum(worker.slots for worker in workers),
        used=sum(used for _, used, _ in by_class),
        by_class=[(name, used, own, round(100 * min(used, own) / own) if own else 0) for name, used, own in by_class],
    )


def _share(share: float | None) -> str:
    """Never rounded up to all: 99.996 % is not 100 %."""
    if share is None:
        return "–"
    return "100" if share == 1 else f"{int(share * 10_000) / 100:.2f}"


def _rate(pulse: Pulse, pace: float | None) -> tuple[str, str]:
    """A second where that is at least one, else a minute. Of a full sample it is an estimate: what a dispatcher has
    sent lately knows better how much that was.
    """
    per_second = pace if pulse.full and pace else pulse.per_second
    about = "≈ " if pulse.full else ""
    if per_second >= 1:
        return f"{about}{round(per_second, 1 if per_second < 10 else None):,}", "/s"
    return f"{about}{per_second * 60:.0f}", "/min"


def _percentiles(late: Sequence[float]) -> str:
    """`p50 5 · p95 19 · p99 129 ms`: a unit that all of them have stands once, for a card is narrow."""
    parts = [_ms(milliseconds).partition(" ") for milliseconds in late]
    is_one = len({unit for _, _, unit in parts}) == 1
    told = []
    for at, (figure, _, unit) in enumerate(parts):
        written = figure if is_one and at < len(parts) - 1 else f"{figure} {unit}"
        told.append(f"p{_PERCENTILES[at]} {written}".replace(" ", _NO_BREAK))
    return " · ".join(told)


def _ms(milliseconds: float) -> str:
    return duration(timedelta(milliseconds=milliseconds))
