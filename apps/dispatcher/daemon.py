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
from apps.executions import feed, ids, store
from apps.executions.leases import Leadership
from apps.executions.rows import Dispatched
from apps.executions.states import Overlap, Status
from apps.worker.live_state import LiveStates
from chronoweb.runtime import faults, postgres, redis_client, transport, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import LeadershipLost
from chronoweb.runtime.loop import Result

logger = logging.getLogger(__name__)

ROLE = "dispatcher"
_LONGEST_TICK_SECONDS = 0.05
_CREDITS_EVERY_SECONDS = 0.1
_WINDOW_SLACK_MS = 100
_CONFIRM_SECONDS = 10.0

DISPATCHED = Counter("chronoweb_dispatched_total", "Executions sent to workers")
REFUSED = Counter("chronoweb_dispatch_refused_total", "Executions popped and refused", ["status"])
CREDIT = Gauge("chronoweb_dispatch_credits", "Executions that all workers together may be sent now")


@dataclass
class _Tick:
    """A tick whose messages are not all confirmed yet."""

    number: int
    shards: list[int]
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
    """The daemon. Leads while its lease stands; a standby otherwise."""

    config: Config
    addresses: Addresses
    leadership: Leadership
    clock: Clock = SYSTEM_CLOCK
    name: str = ROLE
    _open: _Connections | None = None
    _epoch: int | None = None
    _tick: int = 0
    _credits: list[credits.Credit] = field(default_factory=list)
    _counted_at: float = float("-inf")
    _pending: list[_Tick] = field(default_factory=list)
    _again: list[bytes] = field(default_factory=list)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._counter = credits.Credits(self.config.credit_floor)

    def run_once(self) -> Result:
        """One tick."""
        epoch = self.leadership.epoch
        if epoch is None:
            self._epoch = None
            return Result(0, self.config.takeover_poll_ms / 1000)
        self._began = self.clock.monotonic()
        links = self._links()
        try:
            if epoch != self._epoch:
                self._take_over(links, epoch)
            return self._dispatch(links, epoch)
        except LeadershipLost:
            logger.warning("stale epoch", extra={"action": "dispatcher.stale", "epoch": epoch})
            self.leadership.lost()
            return Result(0, 0)

    def wait(self, seconds: float) -> None:
        """Until the next entry is due, an addition wakes us, or the shortest tick has passed."""
        if self._epoch is None:
            self.leadership.wait_until_leader(seconds)
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
            self._open.redis.close()
            self._open.publisher.close()
            self._open = None
        self._epoch = None
        self._pending.clear()
        self._again.clear()

    def close(self) -> None:
        """Let what was published be confirmed, then give the role up."""
        deadline = self.clock.monotonic() + 2
        if self._open is not None:
            while self._pending and self.clock.monotonic() < deadline:
                self._open.publisher.poll(0.01)
                self._acknowledge(self._open, self._epoch or 0)
        self.reset()
        self.leadership.close()

    def _links(self) -> _Connections:
        if self._open is None:
            client = redis_client.connect(self.addresses.redis_url)
            self._open = _Connections(
                ledger=postgres.connect(ROLE, url=self.addresses.database_url),
                redis=client,
                hot_tier=HotTier(client, self.config.redis_prefix),
                live_states=LiveStates(client, self.config.redis_prefix),
                publisher=self.addresses.publisher(self.config),
            )
        return self._open

    def _take_over(self, links: _Connections, epoch: int) -> None:
        recovery.recover(links.ledger, links.hot_tier, epoch=epoch)
        self._pending.clear()
        self._again.clear()
        self._counted_at = float("-inf")
        self._epoch = epoch
        wakeup.preloader.wake()

    def _dispatch(self, links: _Connections, epoch: int) -> Result:
        self._count_credits(links)
        limit = min(self.config.dispatch_batch, sum(credit.left for credit in self._credits))
        if limit == 0:
            links.publisher.poll(0)
            self._acknowledge(links, epoch)
            return Result(0, self.config.dispatch_tick_ms / 1000)
        self._tick += 1
        popped = links.hot_tier.pop(epoch=epoch, lead_ms=self.config.dispatch_lead_ms, tick=self._tick, limit=limit)
        faults.point("dispatcher.popped")
        identities = sorted({i for group in popped.by_shard.values() for i in group} | set(self._again))
        self._again = []
        if identities:
            self._send(links, epoch, popped, identities)
        links.publisher.poll(0)
        self._acknowledge(links, epoch)
        return Result(len(identities), self._pause(popped, len(identities), limit))

    def _count_credits(self, links: _Connections) -> None:
        now = self.clock.monotonic()
        if now - self._counted_at < _CREDITS_EVERY_SECONDS:
            return
        self._counted_at = now
        self._credits = self._counter.count(links.live_states.read(), store.outstanding_by_worker(links.ledger))
        CREDIT.set(sum(credit.left for credit in self._credits))

    def _send(self, links: _Connections, epoch: int, popped: Popped, identities: list[bytes]) -> None:
        workers = credits.assign(len(identities), self._credits)
        answered: list[Dispatched] = []
        for _, positions in ids.by_day(identities):
            answered += store.dispatch(
                links.ledger,
                [identities[p] for p in positions],
                [workers[p] for p in positions],
                window_ms=self.config.dispatch_lead_ms + _WINDOW_SLACK_MS,
                role=ROLE,
                epoch=epoch,
            )
        faults.point("dispatcher.committed")
        sent = [row for row in answered if row.status == Status.DISPATCHED]
        confirmations = publisher.publish(
            links.publisher,
            sent,
            {credit.worker_id: credit.inbox for credit in self._credits},
            epoch=epoch,
            records_each=self.config.message_records,
        )
        faults.point("dispatcher.published")
        unsettled = set(identities) - {row.id for row in answered}
        self._pending.append(_Tick(self._tick, list(popped.by_shard), confirmations, unsettled, self.clock.monotonic()))
        self._spend(sent)
        self._note(links, answered)

    def _spend(self, sent: list[Dispatched]) -> None:
        """Count what was sent against the credits until they are counted afresh."""
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
            if row.status == Status.SCHEDULED and row.overlap == Overlap.CANCEL_OTHER and row.slot_key
        ]
        if rivals:
            store.request_cancel_of_slot_holders(links.ledger, sorted(rivals))

    def _acknowledge(self, links: _Connections, epoch: int) -> None:
        """Forget ticks that have landed; take back what the transport failed to carry."""
        landed: list[tuple[int, int]] = []
        waiting: list[_Tick] = []
        for tick in self._pending:
            states = {confirmation.state for confirmation in tick.confirmations}
            if "pending" in states and self.clock.monotonic() - tick.began < _CONFIRM_SECONDS:
                waiting.append(tick)
                continue
            if states - {"confirmed"}:
                # Nobody knows what arrived. The new epoch's recovery asks the ledger.
                raise LeadershipLost(f"tick {tick.number} was not confirmed by the transport")
            if tick.unsettled:
                # Locked by another transaction a moment ago: those that still wait go with the next tick.
                still = store.still_preloaded(links.ledger, sorted(tick.unsettled))
                self._again += sorted(still)
                if still:
                    tick.unsettled = still
            landed += [(tick.number, shard) for shard in tick.shards]
        self._pending = waiting
        if landed:
            links.hot_tier.landed(epoch, landed)

    def _pause(self, popped: Popped, did: int, limit: int) -> float:
        shortest = self.config.dispatch_tick_ms / 1000
        if did or self._again:
            return shortest
        if popped.next_due_ms is None:
            return _LONGEST_TICK_SECONDS
        return min(_LONGEST_TICK_SECONDS, max(shortest, popped.next_due_ms / 1000))


def build(config: Config, addresses: Addresses) -> Dispatcher:
    """A dispatcher that stands for election from now on."""
    leadership = Leadership(ROLE, config, url=addresses.database_direct_url)
    leadership.start()
    return Dispatcher(config, addresses, leadership)
