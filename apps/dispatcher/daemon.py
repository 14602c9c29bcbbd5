"""The dispatcher: pops what is due, marks it with a higher fencing token, publishes it to workers.

One tick = one round trip to Redis for all shards, one statement a day to PostgreSQL, one message per worker and
class. Confirmation and the in-flight acknowledgement overlap the next tick.
"""

import logging
from dataclasses import dataclass, field

import psycopg
import redis
from prometheus_client import Counter

from apps.dispatcher import publisher, recovery, waits
from apps.dispatcher.fleet import Fleet
from apps.dispatcher.hot_tier import HotTier, Popped
from apps.dispatcher.sending import Sending
from apps.dispatcher.shards import Shards
from apps.executions import feed, ids, store
from apps.executions.dags.completion import settle_ended
from apps.executions.rows import Dispatched
from apps.executions.states import RESTING, Status
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
_CONFIRM_SECONDS = 10.0

DISPATCHED = Counter("chronoweb_dispatched_total", "Executions sent to workers")
REFUSED = Counter("chronoweb_dispatch_refused_total", "Executions popped and refused", ["status"])


@dataclass
class _Tick:
    """A tick whose messages are not all confirmed yet. shards: shard → epoch that it popped. unsettled: execution →
    worker of what another transaction held.
    """

    number: int
    shards: dict[int, int]
    confirmations: list[transport.Confirmation]
    unsettled: dict[bytes, int]
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
    _pending: list[_Tick] = field(default_factory=list)
    _again: dict[bytes, int] = field(default_factory=dict)
    _began: float = 0.0

    def __post_init__(self) -> None:
        self._fleet = Fleet(self.config)
        self._sending = Sending(self.config, self._fleet)

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
        self._fleet.forget()

    def _take_over(self, links: _Connections, gained: dict[int, int]) -> None:
        recovery.recover(links.ledger, links.hot_tier, gained)
        self._fleet.forget()
        wakeup.preloader.wake()

    def _dispatch(self, links: _Connections) -> Result:
        looked = self._fleet.look(links.ledger, links.live_states, list(self._held), now=self.clock.monotonic())
        if looked and self._fleet.over_rate:
            links.hot_tier.tell_over_rate(self._fleet.over_rate)
        limit = 0 if self._fleet.tenancy.frozen else min(self.config.dispatch_batch, sum(self._fleet.pools.totals()))
        if limit == 0 or not self._held:
            links.publisher.poll(0)
            self._acknowledge(links)
            return Result(0, self.config.dispatch_tick_ms / 1000)
        self._tick += 1
        popped = links.hot_tier.pop(
            self._held,
            self._fleet.limits,
            self._fleet.pools,
            lead_ms=self.config.dispatch_lead_ms,
            tick=self._tick,
            limit=limit,
        )
        again, self._again = self._again, {}
        did = sum(len(group) for group in popped.by_shard.values()) + len(again)
        if did:
            faults.point("dispatcher.popped")
            self._send(links, popped, again)
        links.publisher.poll(0)
        self._acknowledge(links)
        return Result(did, self._pause(popped, did))

    def _send(self, links: _Connections, popped: Popped, again: dict[bytes, int]) -> None:
        outcome = self._sending.send(links.ledger, popped, again, self._held, now=self._began)
        faults.point("dispatcher.committed")
        confirmations = publisher.publish(
            links.publisher,
            [row for row in outcome.answered if row.status == Status.DISPATCHED],
            {credit.worker_id: credit.inbox for credit in self._fleet.pools.credits},
            epoch=max(self._held.values()),
            records_each=self.config.message_records,
        )
        faults.point("dispatcher.published")
        self._sending.put_aside(links.ledger, popped, self._held)
        self._pending.append(
            _Tick(
                number=self._tick,
                shards={shard: self._held[shard] for shard in popped.by_shard},
                confirmations=confirmations,
                unsettled=outcome.unsettled,
                began=self.clock.monotonic(),
            )
        )
        self._note(links, outcome.answered)

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
        over = [row.id for row in answered if row.status in RESTING]
        if any(row.waits_for or row.left_over for row in answered):
            over += waits.settle(links.ledger, answered)
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
                self._again.update({i: tick.unsettled[i] for i in still if ids.shard(i) in self._held})
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
