"""What a backfill that is asked for would make: which occurrences, and which of them have run before."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from apps.definitions import backfills
from apps.definitions.backfills import Request
from apps.definitions.models import Backfill, Dag, Task
from apps.executions.dags.models import DagRun
from apps.executions.dags.states import RunStatus
from apps.executions.models import Execution
from apps.executions.states import Status
from apps.tenants.principal import Principal
from apps.tenants.scope import scoped

MOST_COUNTED = 10_000
"""Of a longer range only the occurrences that are shown are looked up."""
_EARLIER = 100
_AROUND = timedelta(days=1)
"""What stands for an occurrence is scheduled no further from it, unless a backfill made it."""


@dataclass(frozen=True)
class Planned:
    """An occurrence. state: of the execution or run that its schedule made, of this id; empty: none did.

    earlier: the last backfill that made it, too.
    """

    at: datetime
    state: str = ""
    made: UUID | None = None
    earlier: Backfill | None = None

    @property
    def label(self) -> str:
        return self.state.replace("_", " ")

    @property
    def is_there(self) -> bool:
        return bool(self.state) or self.earlier is not None


@dataclass(frozen=True)
class Outlook:
    """shown: the first, in the order in which they would run. first, last: the ends of the range, in time.

    there: how many have run before; None where there are too many to count.
    """

    shown: list[Planned]
    first: datetime
    last: datetime
    there: int | None


def outlook(principal: Principal, of: Task | Dag, request: Request, *, show: int) -> Outlook:
    """Two queries. Writes nothing."""
    is_counted = request.total <= MOST_COUNTED
    wanted = request.preview(request.total if is_counted else show)
    [first] = backfills.following(
        request.schedule, start=request.start, end=request.end, newest_first=False, cursor=None, count=1
    )
    [last] = backfills.following(
        request.schedule, start=request.start, end=request.end, newest_first=True, cursor=None, count=1
    )
    made = _made(principal, of, min(wanted), max(wanted))
    earlier = _earlier(principal, of, request)
    found = [_planned(at, made, earlier) for at in wanted]
    there = sum(1 for one in found if one.is_there) if is_counted else None
    return Outlook(found[:show], first, last, there)


def has_made(backfill: Backfill, at: datetime) -> bool:
    """Whether it has come to this occurrence. Pure."""
    if backfill.cursor is None or not backfill.start_at <= at < backfill.end_at:
        return False
    return at >= backfill.cursor if backfill.newest_first else at <= backfill.cursor


def _planned(at: datetime, made: dict[datetime, tuple[UUID, str]], earlier: Sequence[Backfill]) -> Planned:
    identity, state = made.get(at, (None, ""))
    return Planned(at, state, identity, next((one for one in earlier if has_made(one, at)), None))


def _made(principal: Principal, of: Task | Dag, first: datetime, last: datetime) -> dict[datetime, tuple[UUID, str]]:
    """What the schedule has made of these times: by partition, so the days of the range alone are read."""
    near: dict[str, Any] = {"scheduled_at__range": (first - _AROUND, last + _AROUND)}
    near["nominal_at__range"] = (first, last)
    rows: Any
    if isinstance(of, Dag):
        rows, word = scoped(DagRun.objects.all(), principal).filter(dag_id=of.id, **near), _run_word
    else:
        rows, word = scoped(Execution.objects.all(), principal).filter(task_id=of.id, **near), _word
    found = rows.values_list("id", "nominal_at", "status")
    return {at: (identity, word(status)) for identity, at, status in found}


def _run_word(status: int) -> str:
    return RunStatus(status).word


def _word(status: int) -> str:
    return Status(status).word


def _earlier(principal: Principal, of: Task | Dag, request: Request) -> list[Backfill]:
    """Backfills of the same that touch the range, latest first."""
    rows = backfills.of_one(principal, of).filter(start_at__lt=request.end, end_at__gt=request.start)
    return list(rows.exclude(cursor=None)[:_EARLIER])
