"""The dispatcher: pops what is due, marks it with a higher fencing token, publishes it to workers.

One tick = one round trip to Redis for all shards, one statement a day to PostgreSQL, one message per worker and
class. Confirmation and the in-flight acknowledgement overlap the next tick.
"""

import logging
from dataclasses import dataclass, field

import psycopg
import redis
from prometheus_client import Counter, Gauge

from apps.dispatcher import credits, publisher, recovery
from apps.dispatcher.hot_tier import HotTier, Popped
from apps.dispatcher.retry_budget import RetryBudget
from apps.dispatcher.shards import Shards
from apps.dispatcher.tenant_limits import TenantLimits
from apps.executions import feed, ids, store
from apps.executions.dags.completion import settle_ended
from apps.executions.rows import Dispatched
from apps.executions.states import RESTING, Hold, Overlap, Status
from apps.worker.live_state import LiveStates
from chronoweb.runtime import faults, postgres, redis_client, transport, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from chronoweb.runtime.loop import Result

logger = logging.getLogger(__name__)

NAME = "dispatcher"
_LONGEST_TICK_SECONDS = 0.05
_CREDITS_EVERY_SECONDS = 0.1
_WINDOW_SLACK_MS = 100
_CONFIRM_SECONDS = 10.0

DISPATCHED = Counter("chronoweb_dispatched_total", "Executions sent to workers")
REFUSED = Counter("chronoweb_dispatch_refused_total", "Executions popped and refused", ["status"])
CREDIT = Gauge("chronoweb_dispatch_credits", "Executions that all workers together may be sent now")


@dataclass
class _Tick:
    """A tick whose messages are not all confirmed yet. shards: shard → epoch that it popped."""

    number: int
    shards: dict[int, int]
    confirmations: list[transport.Confirmation]
    unsettled: set[bytes]
    began: float


@dataclass
class _Connections:
    ledger: psycopg.Connection
    redis: redis.Redis
    hot_tier: HotTier
    live_states: LiveStates
    publisher: transport.Publisher


@dataclass
class Dispatcher:
    """The daemon: works on the shards that it holds; a standby while it holds none."""

    config: Config
    addresses: Addresses
    shards: Shards
    clock: Clock = SYSTEM_CLOCK
    name: str = NAME
    _open: _Connections | None = None
    _held: dict[int, int] = field(default_factory=dict)
    _tick: int = 0
    _credits: list[credits.Credit] = field(default_factory=list)
    _counted_at: float = float("-inf")
    _pending: list[_Tick] = field(default_factory=list)
    _again: list[bytes] = field(default_factory=list)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._counter = credits.Credits(self.config.credit_floor)
        self._limits = TenantLimits()
        self._budget = RetryBudget(self.config.retry_budget_percent, self.config.retry_budget_floor)

    def run_once(self) -> Result:
        """One tick."""
        held = self.shards.held()
        if not held and not self._pending:
            self._held = {}
            self.shards.settle(self.shards.leaving())
            return Result(0, self.config.takeover_poll_ms / 1000)
        self._began = self.clock.monotonic()
        links = self._links()
        try:
            gained = {shard: epoch for shard, epoch in held.items() if self._held.get(shard) != epoch}
            if gained:
                self._take_over(links, gained)
            self._held = held
            return self._dispatch(links)
        except LeadershipLost as error:
            logger.warning("stale", extra={"action": "dispatcher.stale", "error": str(error)})
            self.shards.lost()
            self._forget()
            return Result(0, 0)

    def wait(self, seconds: float) -> None:
        """Until the next entry is due, an addition wakes us, or the shortest tick has passed."""
        if not self._held:
            self.shards.wait_until_held(seconds)
            return
        rest = self.config.dispatch_tick_ms / 1000 - (self.clock.monotonic() - self._began)
        links = self._links()
        if seconds <= rest + 0.002 or self._pending:
            links.publisher.poll(0)
            self.clock.sleep(max(rest, 0.001))
        else:
            links.hot_tier.wait(seconds)

    def reset(self) -> None:
        """Drop every connection; what was in flight is settled as after a takeover."""
        if self._open is not None:
            self._open.ledger.close()
            self._open.hot_tier.close()
            self._open.redis.close()
            self._open.publisher.close()
            self._open = None
        self._forget()

    def close(self) -> None:
        """Let what was published be confirmed, then give the shards up."""
        deadline = self.clock.monotonic() + 2
        if self._open is not None:
            while self._pending and self.clock.monotonic() < deadline:
                self._open.publisher.poll(0.01)
                self._acknowledge(self._open)
        self.reset()
        self.shards.close()

    def _links(self) -> _Connections:
        if self._open is None:
            client = redis_client.connect(self.addresses.redis_url)
            self._open = _Connections(
                ledger=postgres.connect(NAME, url=self.addresses.database_url),
                redis=client,
                hot_tier=HotTier(client, self.config.redis_prefix),
                live_states=LiveStates(client, self.config.redis_prefix),
                publisher=self.addresses.publisher(self.config),
            )
        return self._open

    def _forget(self) -> None:
        """What was under way is no longer this process's: the next owner's recovery settles it."""
        self._held = {}
        self._pending.clear()
        self._again.clear()
        self._counted_at = float("-inf")

    def _take_over(self, links: _Connections, gained: dict[int, int]) -> None:
        recovery.recover(links.ledger, links.hot_tier, gained)
        self._counted_at = float("-inf")
        wakeup.preloader.wake()

    def _dispatch(self, links: _Connections) -> Result:
        self._count_credits(links)
        limit = min(self.config.dispatch_batch, sum(credit.left for credit in self._credits))
        if limit == 0 or not self._held:
            links.publisher.poll(0)
            self._acknowledge(links)
            return Result(0, self.config.dispatch_tick_ms / 1000)
        self._tick += 1
        popped = links.hot_tier.pop(
            self._held, self._limits, lead_ms=self.config.dispatch_lead_ms, tick=self._tick, limit=limit
        )
        identities = sorted({i for group in popped.by_shard.values() for i in group} | set(self._again))
        self._again = []
        if identities:
            faults.point("dispatcher.popped")
            self._send(links, popped, identities)
        links.publisher.poll(0)
        self._acknowledge(links)
        return Result(len(identities), self._pause(popped, len(identities)))

    def _count_credits(self, links: _Connections) -> None:
        now = self.clock.monotonic()
        if now - self._counted_at < _CREDITS_EVERY_SECONDS:
            return
        self._counted_at = now
        share = len(self._held) / ids.SHARDS
        self._credits = self._counter.count(
            links.live_states.read(), store.outstanding_by_worker(links.ledger), share=share
        )
        self._limits.count(store.limited_tenants(links.ledger), now=now, share=share)
        CREDIT.set(sum(credit.left for credit in self._credits))

    def _send(self, links: _Connections, popped: Popped, identities: list[bytes]) -> None:
        workers = credits.assign(len(identities), self._credits)
        answered: list[Dispatched] = []
        for _, positions in ids.by_day(identities):
            rows = store.dispatch(
                links.ledger,
                [identities[p] for p in positions],
                [workers[p] for p in positions],
                window_ms=self.config.dispatch_lead_ms + _WINDOW_SLACK_MS,
                held=self._held,
                retries=self._budget.room(now=self._began, share=len(self._held) / ids.SHARDS),
            )
            self._budget.spend((row for row in rows if row.status == Status.DISPATCHED), now=self._began)
            answered += rows
        faults.point("dispatcher.committed")
        sent = [row for row in answered if row.status == Status.DISPATCHED]
        confirmations = publisher.publish(
            links.publisher,
            sent,
            {credit.worker_id: credit.inbox for credit in self._credits},
            epoch=max(self._held.values()),
            records_each=self.config.message_records,
        )
        faults.point("dispatcher.published")
        unsettled = set(identities) - {row.id for row in answered}
        self._pending.append(
            _Tick(
                number=self._tick,
                shards={shard: self._held[shard] for shard in popped.by_shard},
                confirmations=confirmations,
                unsettled=unsettled,
                began=self.clock.monotonic(),
            )
        )
        self._spend(sent)
        self._note(links, answered)

    def _spend(self, sent: list[Dispatched]) -> None:
        """Count what was sent against credits and limits until they are counted afresh."""
        self._limits.spend(sent)
        spent: dict[int, int] = {}
        for row in sent:
            assert row.worker_id is not None
            spent[row.worker_id] = spent.get(row.worker_id, 0) + 1
        for credit in self._credits:
            credit.left = max(0, credit.left - spent.get(credit.worker_id, 0))
        self._credits.sort(key=lambda credit: -credit.left)

    def _note(self, links: _Connections, answered: list[Dispatched]) -> None:
        """Metrics, the feed, and what a refusal asks for."""
        feed.changed_many((row.tenant_id, row.id) for row in answered)
        sent = sum(row.status == Status.DISPATCHED for row in answered)
        DISPATCHED.inc(sent)
        if sent == len(answered):
            return
        for row in answered:
            if row.status != Status.DISPATCHED:
                REFUSED.labels(Status(row.status).word).inc()
        rivals = [
            row.slot_key
            for row in answered
            if row.hold == Hold.OVERLAP and row.overlap == Overlap.CANCEL_OTHER and row.slot_key
        ]
        over = [row.id for row in answered if row.status in RESTING]
        if rivals:
            over += store.request_cancel_of_slot_holders(links.ledger, sorted(rivals))
        settle_ended(links.ledger, over)

    def _acknowledge(self, links: _Connections) -> None:
        """Forget ticks that have landed, and give back leaving shards of which none is under way."""
        landed: list[tuple[int, int, int]] = []
        waiting: list[_Tick] = []
        for tick in self._pending:
            states = {confirmation.state for confirmation in tick.confirmations}
            if "pending" in states and self.clock.monotonic() - tick.began < _CONFIRM_SECONDS:
                waiting.append(tick)
                continue
            if states - {"confirmed"}:
                # Nobody knows what arrived. The recovery under the next epoch asks the ledger.
                raise LeadershipLost(f"tick {tick.number} was not confirmed by the transport")
            if tick.unsettled:
                # Locked by another transaction a moment ago: those that still wait go with the next tick.
                still = store.still_preloaded(links.ledger, sorted(tick.unsettled))
                self._again += sorted(i for i in still if ids.shard(i) in self._held)
                if still:
                    tick.unsettled = still
            landed += [(shard, epoch, tick.number) for shard, epoch in tick.shards.items()]
        self._pending = waiting
        if landed:
            links.hot_tier.landed(landed)
        leaving = self.shards.leaving()
        if leaving:
            self.shards.settle(leaving - {shard for tick in waiting for shard in tick.shards})

    def _pause(self, popped: Popped, did: int) -> float:
        shortest = self.config.dispatch_tick_ms / 1000
        if did or self._again:
            return shortest
        if popped.next_due_ms is None:
            return _LONGEST_TICK_SECONDS
        return min(_LONGEST_TICK_SECONDS, max(shortest, popped.next_due_ms / 1000))


def build(config: Config, addresses: Addresses) -> Dispatcher:
    """A dispatcher that stands for its share of the shards from now on."""
    shards = Shards(config, url=addresses.database_direct_url)
    shards.start()
    return Dispatcher(config, addresses, shards)
