"""What one tick does with what it has popped: workers chosen, rows dispatched or put aside, the rest given back."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import psycopg

from apps.dispatcher import exact_limits
from apps.dispatcher.assigning import Assigner
from apps.dispatcher.exact_limits import Chosen
from apps.dispatcher.fleet import Fleet
from apps.dispatcher.hot_tier import Popped
from apps.dispatcher.pools import ASIDE
from apps.dispatcher.retry_budget import RetryBudget
from apps.executions import ids, store
from apps.executions.rows import Dispatched
from apps.executions.states import Status
from chronoweb.runtime import wakeup
from chronoweb.runtime.config import Config

_WINDOW_SLACK_MS = 100


@dataclass
class Outcome:
    """answered: what the ledger made of it. unsettled: execution → worker of what another transaction held."""

    answered: list[Dispatched]
    unsettled: Chosen


class Sending:
    """Remembers who got what, and how many retries went."""

    def __init__(self, config: Config, fleet: Fleet) -> None:
        self._window_ms = config.dispatch_lead_ms + _WINDOW_SLACK_MS
        self._fleet = fleet
        self._assigner = Assigner()
        self._budget = RetryBudget(config.retry_budget_percent, config.retry_budget_floor)

    def send(
        self, ledger: psycopg.Connection, popped: Popped, again: Chosen, held: Mapping[int, int], *, now: float
    ) -> Outcome:
        """Dispatch what was popped, and what an earlier tick could not settle.

        held: shard → epoch of this dispatcher. now: monotonic seconds. Publishing is the caller's.
        """
        pools = self._fleet.pools
        self._budget.handed_over(self._fleet.take_handed_over(), now=now, share=len(held) / ids.SHARDS)
        chosen = self._still_sendable(ledger, again)
        exact: dict[str, Chosen] = {}
        for (class_index, pool), group in popped.by_pool.items():
            if pool == ASIDE:
                continue
            assigned = self._assigner.assign(group, class_index, pools.members[pool])
            owner = pools.tenants[pool]
            (chosen if owner is None else exact.setdefault(owner, {})).update(assigned)
        answered = self._dispatch(ledger, chosen, held, now)
        settled = {row.id for row in answered}
        unsettled = {identity: worker for identity, worker in chosen.items() if identity not in settled}
        if exact:
            answered += self._dispatch_exactly(ledger, exact, held, now)
        self._fleet.tenancy.spend(row for row in answered if row.status == Status.DISPATCHED)
        return Outcome(answered, unsettled)

    def put_aside(self, ledger: psycopg.Connection, popped: Popped, held: Mapping[int, int]) -> None:
        """What no live worker may run."""
        group = sorted(i for (_, pool), found in popped.by_pool.items() if pool == ASIDE for i in found)
        if group:
            _back(ledger, set(group) - self._fleet.unroutable.put_aside(ledger, group, held))

    def _still_sendable(self, ledger: psycopg.Connection, again: Chosen) -> Chosen:
        """What goes once more, to the worker that it was meant for."""
        if not again:
            return {}
        alive = {credit.worker_id for credit in self._fleet.pools.credits}
        _back(ledger, [identity for identity, worker in again.items() if worker not in alive])
        return {identity: worker for identity, worker in again.items() if worker in alive}

    def _dispatch(
        self, ledger: psycopg.Connection, chosen: Chosen, held: Mapping[int, int], now: float
    ) -> list[Dispatched]:
        identities = sorted(chosen)
        answered: list[Dispatched] = []
        for _, positions in ids.by_day(identities):
            rows = store.dispatch(
                ledger,
                [identities[p] for p in positions],
                [chosen[identities[p]] for p in positions],
                window_ms=self._window_ms,
                held=held,
                retries=self._budget.room(now=now, share=len(held) / ids.SHARDS),
            )
            self._budget.spend((row for row in rows if row.status == Status.DISPATCHED), now=now)
            answered += rows
        return answered

    def _dispatch_exactly(
        self, ledger: psycopg.Connection, exact: Mapping[str, Chosen], held: Mapping[int, int], now: float
    ) -> list[Dispatched]:
        """The same for tenants whose small limits hold exactly; what has no room goes back."""

        def send(going: Chosen) -> list[Dispatched]:
            return self._dispatch(ledger, going, held, now)

        answered = exact_limits.dispatch(ledger, exact, self._fleet.limits.exact(), send)
        _back(ledger, {i for chosen in exact.values() for i in chosen} - {row.id for row in answered})
        return answered


def _back(ledger: psycopg.Connection, identities: Collection[bytes]) -> None:
    """To the hot tier again, by way of the preloader."""
    if identities:
        store.wake_preloaded(ledger, sorted(identities))
        wakeup.preloader.wake()
