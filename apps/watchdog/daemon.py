"""The watchdog: finds what silently did not happen, and puts it right.

Reclaims (lost workers, dispatches unclaimed for too long, cancels that nobody obeyed), reconciles (what the hot tier
lost, slots and places that leaked), and keeps the partitions. One leader.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import psycopg
import redis
from prometheus_client import Counter

from apps.dispatcher.hot_tier import HotTier
from apps.executions import circuit_store, feed, locks, partitions, store, usage
from apps.executions.dags.completion import settle_ended
from apps.executions.findings import WORDS, Kind
from apps.executions.leases import Leadership
from apps.executions.rows import Preloaded, WorkerRow
from apps.executions.states import RESTING
from apps.watchdog import dag_runs
from apps.watchdog.lost_workers import LostWorkers
from chronoweb.runtime import faults, postgres, redis_client, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Result, is_transient

logger = logging.getLogger(__name__)

ROLE = "watchdog"
_LOOK_SECONDS = 0.25
_ASIDE_SECONDS = 15.0
_SWEEP_SECONDS = 1.0
_RUNS_SECONDS = 5.0
_PARTITION_SECONDS = 600.0
_CHUNK = 1000
_OVERDUE_SECONDS = 5
_STRETCH = 5000
_OLDEST_SECONDS = 3600
_CANCEL_SECONDS = 30
_ORPHAN_SECONDS = 5
_FORGET_CIRCUIT_SECONDS = 86_400
_FINDINGS_DAYS = 7

RECLAIMED = Counter("chronoweb_reclaimed_total", "Executions taken back", ["reason"])
RESTORED = Counter("chronoweb_hot_tier_restored_total", "Executions that the hot tier had lost")
LOST_WORKERS = Counter("chronoweb_workers_lost_total", "Workers given up for lost")


@dataclass
class _Connections:
    ledger: psycopg.Connection
    scan: psycopg.Connection
    redis: redis.Redis
    hot_tier: HotTier


@dataclass
class Watchdog:
    """The daemon."""

    config: Config
    addresses: Addresses
    leadership: Leadership
    clock: Clock = SYSTEM_CLOCK
    name: str = ROLE
    _open: _Connections | None = None
    _did_at: dict[str, float] = field(default_factory=dict)
    _walked_to: bytes | None = None

    def __post_init__(self) -> None:
        self._judge = LostWorkers(self.config.lock_lost_seconds)

    def run_once(self) -> Result:
        """One look; the slower duties have a period of their own."""
        if self.leadership.epoch is None:
            return Result(0, self.config.takeover_poll_ms / 1000)
        links = self._links()
        did = 0
        for duty, period in self._duties():
            now = self.clock.monotonic()
            if now - self._did_at.get(duty.__name__, float("-inf")) >= period:
                self._did_at[duty.__name__] = now
                did += self._guarded(duty, links, now + _ASIDE_SECONDS - period)
        if did:
            wakeup.preloader.wake()
        return Result(did, _LOOK_SECONDS)

    def _guarded(self, duty: Callable[[_Connections], int], links: _Connections, aside: float) -> int:
        """A duty that fails by a fault of ours fails the pass, and is set aside: those behind it have their turn."""
        try:
            return duty(links)
        except Exception as error:
            if not is_transient(error):
                self._did_at[duty.__name__] = aside
            raise

    def wait(self, seconds: float) -> None:
        if self.leadership.epoch is None:
            self.leadership.wait_until_leader(seconds)
        else:
            self.clock.sleep(seconds)

    def reset(self) -> None:
        self._judge.forget()
        if self._open is not None:
            self._open.ledger.close()
            self._open.scan.close()
            self._open.redis.close()
            self._open = None

    def close(self) -> None:
        self.reset()
        self.leadership.close()

    def _links(self) -> _Connections:
        if self._open is None:
            client = redis_client.connect(self.addresses.redis_url)
            self._open = _Connections(
                ledger=postgres.connect(ROLE, url=self.addresses.database_url),
                scan=postgres.connect("watchdog-scan", url=self.addresses.database_url, hot=False),
                redis=client,
                hot_tier=HotTier(client, self.config.redis_prefix),
            )
        return self._open

    def _duties(self) -> Iterator[tuple[Callable[[_Connections], int], float]]:
        yield self.keep_partitions, _PARTITION_SECONDS
        yield self.reclaim_from_lost_workers, 0
        yield self.wake_after_quarantine, 0
        yield self.reclaim_from_the_gone, _SWEEP_SECONDS
        yield self.reclaim_unclaimed, _SWEEP_SECONDS
        yield self.end_overdue_cancels, _SWEEP_SECONDS
        yield self.restore_hot_tier, _SWEEP_SECONDS
        yield self.free_leaked_places, _SWEEP_SECONDS
        yield self.walk, _SWEEP_SECONDS
        yield self.keep_runs_in_time, _SWEEP_SECONDS
        yield self.hear_missed_ends, _RUNS_SECONDS
        yield self.forget_idempotency_keys, _PARTITION_SECONDS
        yield self.forget_circuits, _PARTITION_SECONDS
        yield self.forget_usage, _PARTITION_SECONDS
        yield self.forget_findings, _PARTITION_SECONDS

    def keep_partitions(self, links: _Connections) -> int:
        """Make the days ahead. A long reader in the way is met again at the next pass."""
        try:
            return len(partitions.keep(links.scan, self.config))
        except psycopg.errors.LockNotAvailable:
            logger.warning("partitions have to wait for a reader", extra={"action": "watchdog.partitions_wait"})
            self._did_at.pop("keep_partitions", None)
            return 0

    def reclaim_from_lost_workers(self, links: _Connections) -> int:
        """Take everything from workers that are gone."""
        rows = store.workers_alive(links.scan, lock_class=locks.WORKER)
        count = 0
        for worker, reason in self._judge.judge(rows, now=self.clock.monotonic()):
            count += self._give_up(links, worker, reason)
        return count

    def _give_up(self, links: _Connections, worker: WorkerRow, reason: str) -> int:
        if not store.mark_worker_lost(links.ledger, worker_id=worker.id, heartbeat_seen=worker.heartbeat):
            return 0  # it has just been heard of
        LOST_WORKERS.inc()
        store.note_finding(links.scan, kind=Kind.LOST_WORKER, detail=f"worker-{worker.id}: {reason}", count=1)
        logger.warning("worker lost", extra={"action": "watchdog.worker_lost", "worker": worker.id, "reason": reason})
        count = 0
        while chunk := store.sent(links.ledger, "outstanding_of_worker", worker=worker.id, limit=_CHUNK):
            taken = self._reclaim(links, chunk, f"worker lost: {reason}", "lost_worker", only_unclaimed=False)
            count += taken
            if not taken:
                # What is left in outstanding is not active any more: it leaked.
                store.remove_orphans(links.ledger, seconds=0)
                break
        return count

    def reclaim_from_the_gone(self, links: _Connections) -> int:
        """Finish what was begun: a worker is marked lost in one transaction and emptied in others."""
        left = store.sent(links.ledger, "outstanding_of_the_gone", limit=_CHUNK)
        return self._reclaim(links, left, "its worker is gone", "gone_worker", only_unclaimed=False)

    def wake_after_quarantine(self, links: _Connections) -> int:
        """What a circuit held back goes on: a share in its slow start, all of it when it is closed."""
        percent = self.config.circuit_slow_start_percent
        woken = circuit_store.wake(links.ledger, percent=percent, every_seconds=_LOOK_SECONDS)
        feed.changed_many(woken)
        return len(woken)

    def forget_circuits(self, links: _Connections) -> int:
        """What has been in order for a day need not be remembered."""
        circuit_store.forget(links.scan, seconds=_FORGET_CIRCUIT_SECONDS)
        return 0

    def forget_findings(self, links: _Connections) -> int:
        """What was mended a week ago is of no help any more."""
        store.forget_findings(links.scan, days=_FINDINGS_DAYS)
        return 0

    def forget_usage(self, links: _Connections) -> int:
        """Nobody asks how much was used of an hour that is long over."""
        usage.forget(links.scan)
        return 0

    def reclaim_unclaimed(self, links: _Connections) -> int:
        """Take back what was sent and not claimed by the deadline: the message was lost."""
        seconds = self.config.claim_deadline_seconds
        late = store.sent_by_day(links.ledger, "outstanding_unclaimed", seconds=seconds, limit=_CHUNK)
        return self._reclaim(links, late, f"not claimed within {seconds:g} s", "unclaimed", only_unclaimed=True)

    def end_overdue_cancels(self, links: _Connections) -> int:
        """A cancel is obeyed within half a minute, by the worker or against it."""
        late = store.sent_by_day(links.ledger, "cancel_overdue", seconds=_CANCEL_SECONDS, limit=_CHUNK)
        reason = f"cancelled: its worker did not stop it within {_CANCEL_SECONDS} s"
        return self._reclaim(links, late, reason, "cancel", only_unclaimed=False)

    def restore_hot_tier(self, links: _Connections) -> int:
        """What should have been popped and is nowhere in Redis goes there again."""
        overdue = store.overdue_preloaded(
            links.scan, youngest_seconds=_OVERDUE_SECONDS, oldest_seconds=_OLDEST_SECONDS, limit=_CHUNK
        )
        return self._restore(links, overdue)

    def walk(self, links: _Connections) -> int:
        """The same for everything, a stretch each second: what fell through every other net."""
        lost, self._walked_to = store.walk(
            links.scan, self._walked_to or bytes(16), youngest_seconds=_OVERDUE_SECONDS, limit=_STRETCH
        )
        return self._restore(links, lost)

    def keep_runs_in_time(self, links: _Connections) -> int:
        """Runs of DAGs, and approvals, end by their time limits; what was stopped stops."""
        return dag_runs.keep_time(links.ledger) + dag_runs.stop_what_runs(links.ledger)

    def hear_missed_ends(self, links: _Connections) -> int:
        """A run hears of an execution that ended without its knowledge: whoever ended it died before it told."""
        return dag_runs.hear_missed_ends(links.ledger)

    def forget_idempotency_keys(self, links: _Connections) -> int:
        """Keys are remembered for some days only."""
        while store.forget_idempotency_keys(links.scan, days=self.config.idempotency_days, limit=_CHUNK) == _CHUNK:
            pass
        return 0

    def _restore(self, links: _Connections, overdue: list[Preloaded]) -> int:
        if not overdue:
            return 0
        woken = store.wake_preloaded(links.ledger, sorted(links.hot_tier.missing(overdue)))
        RESTORED.inc(len(woken))
        if woken:
            store.note_finding(links.scan, kind=Kind.RESTORED, detail="not in the hot tier", count=len(woken))
            logger.warning(
                "the hot tier had lost executions", extra={"action": "watchdog.restored", "executions": len(woken)}
            )
        return len(woken)

    def free_leaked_places(self, links: _Connections) -> int:
        """Wake waiters whose wake-up was lost; drop places of what has ended."""
        leaked = len(store.remove_leaked_slots(links.ledger))
        keys = store.free_slots_with_waiters(links.scan, limit=_CHUNK)
        woken = len(store.wake_waiters(links.ledger, keys)) if keys else 0
        store.forget_leaked_progress(links.ledger)
        leaked += store.remove_orphans(links.ledger, seconds=_ORPHAN_SECONDS)
        for kind, count in ((Kind.LEAKED, leaked), (Kind.WOKEN, woken)):
            if count:
                store.note_finding(links.scan, kind=kind, detail=WORDS[kind], count=count)
        return leaked + woken

    def _reclaim(
        self, links: _Connections, taken: list[tuple[bytes, int]], reason: str, label: str, *, only_unclaimed: bool
    ) -> int:
        if not taken:
            return 0
        with links.ledger.transaction():
            found = store.reclaim(links.ledger, taken, reason=reason, actor=ROLE, only_unclaimed=only_unclaimed)
            settle_ended(links.ledger, [identity for identity, status, _ in found if status in RESTING])
        if found:
            faults.point("watchdog.reclaimed")
        RECLAIMED.labels(label).inc(len(found))
        feed.changed_many((tenant, identity) for identity, _, tenant in found)
        if found:
            store.note_finding(links.scan, kind=Kind.RECLAIMED, detail=reason, count=len(found))
            logger.warning(
                "taken back", extra={"action": "watchdog.reclaimed", "executions": len(found), "reason": reason}
            )
        return len(found)


def build(config: Config, addresses: Addresses) -> Watchdog:
    """A watchdog that stands for election from now on."""
    leadership = Leadership(ROLE, config, url=addresses.database_direct_url)
    leadership.start()
    return Watchdog(config, addresses, leadership)
