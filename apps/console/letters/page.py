"""What the page of dead letters shows: groups, or the letters of one group, and the replays that go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from uuid import UUID

from django.template.loader import render_to_string

from apps.console import reasons
from apps.console.fragments import Pieces, may_act
from apps.console.letters.filters import Chosen
from apps.console.row_html import Row
from apps.console.rows import present_all
from apps.definitions.models import Task
from apps.executions import dead_letters, selectors
from apps.executions.dead_letter_groups import Group, Groups, groups
from apps.executions.models import Execution, Replay, ReplayState
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

SHOWN = 50
_ENDED_SHOWN = timedelta(minutes=10)
MOST_WATCHED = 20
_REFUSED_SHOWN = 5


@dataclass(frozen=True)
class GroupLine:
    """A group as a line. error: of its newest; task: its name then."""

    group: Group
    task: str
    error: str
    attempts: str
    query: str


@dataclass(frozen=True)
class ReplayLine:
    """A replay as a bar. x: thousandths of it that are done. refused: the first that it left out, and why."""

    replay: Replay
    seen: int
    x: float
    what: str
    runs: bool
    refused: list[tuple[str, str]]


class LettersPage:
    """The page as its address has it. watched: canaries that the reader wants to see come home."""

    look_seconds = 2.0
    soonest_seconds = 1.0

    def __init__(
        self,
        principal: Principal,
        chosen: Chosen,
        *,
        before: UUID | None = None,
        watched: Sequence[UUID] = (),
        origin: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._principal = principal
        self._clock = clock
        self.chosen = chosen
        self.before = before
        self._origin = origin
        self.watched = tuple(watched)[:MOST_WATCHED]

    def pieces(self) -> Pieces:
        """At most twelve queries, whatever there is."""
        now = self._clock.now()
        found = groups(self._principal, self.chosen.wanted(now))
        context = {
            "chosen": self.chosen,
            "origin": self._origin,
            "found": found,
            "may": may_act(self._principal),
            "tenant_slug": self._principal.tenant_slug,
            "watched": self._watched(now),
            "replays": replay_lines(self._principal, now),
        }
        context |= self._letters(now) if self.chosen.is_listed else {"lines": lines(found, self.chosen)}
        names = ("bar", "going", "letters" if self.chosen.is_listed else "groups")
        return {
            "list" if name in ("letters", "groups") else name: render_to_string(
                f"console/letters/_{name}.html", context
            ).strip()
            for name in names
        }

    def _watched(self, now: datetime) -> list[Row]:
        if not self.watched:
            return []
        rows = scoped(Execution.objects.with_ids(self.watched), self._principal).select_related("task_version")
        return present_all(self._principal, list(rows.defer("payload", "result").order_by("-id")), now=now)

    def _letters(self, now: datetime) -> dict[str, object]:
        rows = self.chosen.wanted(now).narrowed(selectors.dead_letters(self._principal))
        if self.before is not None:
            rows = rows.filter(execution_id__lt=self.before)
        found = list(rows.order_by("-execution_id")[: SHOWN + 1])
        executions = [execution for _, execution in selectors.with_executions(found[:SHOWN])]
        older = found[SHOWN - 1].execution_id if len(found) > SHOWN else None
        return {"rows": present_all(self._principal, executions, now=now), "older": older, "before": self.before}


def lines(found: Groups, chosen: Chosen) -> list[GroupLine]:
    """The groups in words, each with the address of its own page."""
    return [
        GroupLine(
            group,
            group.sample.task_version.name if group.sample else str(group.task_id),
            (reasons.error_line(group.sample.error) if group.sample else "") or group.fingerprint,
            f"attempt {group.sample.attempt} of {group.sample.max_attempts}" if group.sample else "",
            chosen.but(fingerprint=group.fingerprint, task_id=group.task_id, show="").query,
        )
        for group in found.shown
    ]


def replay_lines(principal: Principal, now: datetime) -> list[ReplayLine]:
    """Those that go on, and those that ended a moment ago; two queries at most."""
    rows = dead_letters.replays(principal)[:5]
    shown = [r for r in rows if r.state == ReplayState.RUNNING or (r.ended_at and now - r.ended_at < _ENDED_SHOWN)]
    wanted = {r.filter["task_id"] for r in shown if r.filter.get("task_id")}
    names = (
        dict(scoped(Task.objects.all(), principal).filter(id__in=wanted).values_list("id", "name")) if wanted else {}
    )
    return [_replay_line(row, {str(key): name for key, name in names.items()}) for row in shown]


def _replay_line(row: Replay, names: dict[str, str]) -> ReplayLine:
    seen = row.replayed + row.left_out
    done = 1000.0 if row.state == ReplayState.FINISHED else 1000 * min(seen, row.total) / max(row.total, 1)
    parts = [names.get(row.filter.get("task_id") or "", ""), row.filter.get("fingerprint") or ""]
    chosen = row.filter.get("ids")
    what = " · ".join(part for part in parts if part) or (f"{len(chosen)} chosen" if chosen else "all dead letters")
    refused = list(islice(row.refused.items(), _REFUSED_SHOWN))
    return ReplayLine(row, seen, round(done, 1), what, row.state == ReplayState.RUNNING, refused)
