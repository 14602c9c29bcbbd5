"""How long it took until nothing was missing any more after something broke. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from apps.executions.states import RESTING, Status
from apps.quickstart.break_it.ledger import Standing
from apps.quickstart.break_it.notes import Act

LATE = timedelta(seconds=1)
"""An execution that begins later than this was delayed; less is "on time" on the overview, too."""

MINDED = timedelta(seconds=15)
"""What is due up to so long after the act, and before the next one, may have been delayed by it."""

_BEFORE = timedelta(seconds=1)


@dataclass(frozen=True)
class Victim:
    """One that was in flight. before: its token then. took: until it began anew; None: it has not, or did not need to.

    needed: whether it was taken away: its token has grown, or it has not ended yet.
    """

    standing: Standing
    before: int
    took: timedelta | None
    needed: bool


@dataclass(frozen=True)
class Recovery:
    """after: until the last execution began that the act delayed; None: it goes on, or nothing was delayed.

    latest: the largest lateness of what was due meanwhile.
    """

    victims: list[Victim]
    after: timedelta | None
    goes_on: bool
    latest: timedelta

    @property
    def begun_anew(self) -> int:
        return sum(victim.standing.token > victim.before for victim in self.victims)


def recovery(act: Act, standing: Mapping[UUID, Standing], *, now: datetime, until: datetime | None = None) -> Recovery:
    """standing: all of the load that is known. until: when the next thing was broken."""
    end = min(one for one in (now, act.at + MINDED, until) if one is not None)
    victims = [
        _victim(act, standing[identity], token) for identity, token in act.flying.items() if identity in standing
    ]
    meant = [one for one in standing.values() if act.at - _BEFORE <= one.run_at <= end]
    late = [(one, (one.started_at or now) - one.run_at) for one in meant if one.status is not Status.CANCELLED]
    delayed = [one for one, lateness in late if lateness > LATE and (one.started_at is None or one.started_at > act.at)]
    ends = [victim.took for victim in victims if victim.took is not None]
    ends += [one.started_at - act.at for one in delayed if one.started_at is not None]
    goes_on = any(victim.needed and victim.took is None for victim in victims)
    goes_on = goes_on or any(one.started_at is None and one.status not in RESTING for one in delayed)
    latest = max((lateness for _, lateness in late), default=timedelta(0))
    return Recovery(victims, None if goes_on else max(ends, default=None), goes_on, latest)


def _victim(act: Act, one: Standing, before: int) -> Victim:
    again = one.token > before
    took = one.started_at - act.at if again and one.started_at is not None and one.started_at > act.at else None
    return Victim(one, before, took, again or one.status not in RESTING)
