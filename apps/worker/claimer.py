"""Claims, in batches, no more of each class than can start within moments, and hands it to the starter.

What the ledger refuses (held, to be cancelled, moved on) is given back, uncounted. What the completer has begun itself
(a hand-over) starts here, too; slots are promised to it so that nothing else is claimed for them.
"""

import logging
import threading
from collections.abc import Callable, Sequence

import psycopg
from prometheus_client import Counter

from apps.executions import feed, ids, store
from apps.executions.dags.completion import settle_ended
from apps.executions.rows import Claimed
from apps.worker import dag_inputs
from apps.worker.backlog import Backlog, Waiting
from apps.worker.class_slots import CLASSES, CRITICAL, STANDARD, Lending
from apps.worker.jobs import Assignment
from apps.worker.ledger_thread import LedgerThread
from apps.worker.starter import Starter
from apps.worker.versions import Versions
from chronoweb.runtime import faults, wakeup
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock

logger = logging.getLogger(__name__)

_WITHIN_SECONDS = 0.05
_BATCH = 1000
_LONGEST_WAIT_SECONDS = 0.05
_FULL_WAIT_SECONDS = 0.02
_SHORTEST_WAIT_SECONDS = 0.0001

CLAIMED = Counter("chronoweb_claimed_total", "Attempts begun")
GIVEN_BACK = Counter("chronoweb_given_back_total", "Executions received and given back unclaimed")


class Claimer(LedgerThread):
    """A thread with a connection of its own. `running` maps (id, token) of what was claimed and has not ended."""

    def __init__(
        self,
        *,
        worker_id: int,
        url: str,
        config: Config,
        clock: DatabaseClock,
        backlog: Backlog,
        starter: Starter,
        capacity: Callable[[float, int], int],
        free: Callable[[int], int],
        stranded: Callable[[], list[Assignment]],
        lending: Lending,
        versions: Versions,
        running: dict[tuple[bytes, int], Claimed],
    ) -> None:
        super().__init__("claimer", url)
        self.claimed = [0] * CLASSES
        """Executions begun since the start, by class."""
        self._worker_id = worker_id
        self._ahead_us = config.claim_ahead_ms * 1000
        self._clock = clock
        self._backlog = backlog
        self._starter = starter
        self._capacity = capacity
        self._free = free
        self._take_stranded = stranded
        self._stranded: list[Assignment] = []
        self._lending = lending
        self._rooms = [0] * CLASSES
        self._versions = versions
        self._running = running
        self._held: list[Waiting] = []
        self._handed: list[Claimed] = []
        self._promised = [0] * CLASSES
        self._slots = threading.Lock()
        self._changed = threading.Event()

    def wake(self) -> None:
        """Something was received, or a slot has become free."""
        self._changed.set()

    def step(self, connection: psycopg.Connection) -> None:
        """Claim what may start now, or wait until something may."""
        self._changed.clear()
        if self._handed:
            self._start_handed(connection)
        self._return_stranded(connection)
        # A batch whose claim failed on the way is claimed again first: the same token and worker get the same answer.
        with self._slots:
            self._held = batch = self._held or self._take()
        if not batch:
            self._changed.wait(self._pause())
            return
        self._claim(connection, batch)
        self._held = []

    def unclaimed(self) -> list[Waiting]:
        """What was taken from the backlog and perhaps not claimed, or handed over and not started; only after the
        thread has ended.
        """
        return self._held + [(claimed.run_at_us, claimed.id, claimed.token) for claimed in self._handed]

    # For hand-overs, from the completer's thread

    def promise(self, *, most: int) -> list[int]:
        """Free slots by class, up to `most` of each, kept until `begin`; none where such or more urgent work waits."""
        rooms = [0] * CLASSES
        with self._slots:
            for c in range(CLASSES):
                if self._backlog.waiting(c):
                    break  # the slots of the classes below may be lent by this one
                taken = self._starter.waiting(c) + self._promised[c] + len(self._held)
                rooms[c] = max(0, min(most, self._free(c) - taken))
                self._promised[c] += rooms[c]
        return rooms

    def begin(self, begun: Sequence[Claimed], *, promised: Sequence[int]) -> None:
        """Start what the ledger says this worker has begun; the slots that were promised and not used are free."""
        with self._slots:
            for c in range(CLASSES):
                self._promised[c] -= promised[c]
            for claimed in begun:
                self._promised[claimed.class_index] += 1
            self._handed += begun
        self._changed.set()

    def ask_for(self, unsure: Sequence[tuple[bytes, int]]) -> None:
        """Claim (id, token) that may be this worker's; those that are not are left alone."""
        now = self._clock.now_us()
        self._backlog.add(STANDARD, [(identity, token, now) for identity, token in unsure])
        self._changed.set()

    # On its own thread

    def _start_handed(self, connection: psycopg.Connection) -> None:
        handed = list(self._handed)
        self._begin(connection, handed)
        with self._slots:
            del self._handed[: len(handed)]
            for claimed in handed:
                self._promised[claimed.class_index] -= 1

    def _take(self) -> list[Waiting]:
        if self._backlog.waiting(CRITICAL):
            self._lending.critical_seen()
        left = _BATCH
        for class_index in range(CLASSES):
            spoken_for = self._starter.waiting(class_index) + self._promised[class_index]
            room = self._capacity(_WITHIN_SECONDS, class_index) - spoken_for
            self._rooms[class_index] = max(0, min(left, room))
            left -= self._rooms[class_index] if self._backlog.waiting(class_index) else 0
        taken = self._backlog.take(self._clock.now_us() + self._ahead_us, self._rooms)
        # Delivered again while it runs: a claim would succeed once more, and run it twice.
        return [waiting for waiting in taken if (waiting[1], waiting[2]) not in self._running]

    def _pause(self) -> float:
        # What a class has no room for: the end of an attempt wakes us, but not the end of critical work, after which
        # bulk has more.
        full = any(room == 0 and self._backlog.waiting(c) for c, room in enumerate(self._rooms))
        longest = _FULL_WAIT_SECONDS if full else _LONGEST_WAIT_SECONDS
        due = self._backlog.next_due_us(self._rooms)
        if due is None:
            return longest
        return min(longest, max(_SHORTEST_WAIT_SECONDS, (due - self._ahead_us - self._clock.now_us()) / 1e6))

    def _claim(self, connection: psycopg.Connection, batch: list[Waiting]) -> None:
        batch.sort(key=lambda waiting: waiting[1])
        identities = [waiting[1] for waiting in batch]
        got: list[Claimed] = []
        for _, positions in ids.by_day(identities):
            group = [batch[p] for p in positions]
            got += store.claim(connection, [w[1] for w in group], [w[2] for w in group], worker_id=self._worker_id)
        faults.point("worker.claimed")
        self._begin(connection, got)
        # What has begun is never claimed again, nor given back, if PostgreSQL goes away before the rest is given back.
        begun = {claimed.id for claimed in got}
        self._held = [waiting for waiting in batch if waiting[1] not in begun]
        feed.changed_many((claimed.tenant_id, claimed.id) for claimed in got)
        if self._held:
            self._give_back(connection, self._held)

    def _begin(self, connection: psycopg.Connection, got: Sequence[Claimed]) -> None:
        self._versions.load(connection, {claimed.version_id for claimed in got})
        self._versions.load_secrets(connection, got)
        for claimed in got:
            self._running[claimed.id, claimed.token] = claimed
        self._starter.add(self._assignments(connection, got))
        for claimed in got:
            self.claimed[claimed.class_index] += 1
        CLAIMED.inc(len(got))

    def _assignments(self, connection: psycopg.Connection, got: Sequence[Claimed]) -> list[tuple[int, Assignment]]:
        limited = [(c.id, after) for c in got if (after := self._versions.counts_after(c)) is not None]
        starts = store.first_starts(connection, limited) if limited else {}
        now = self._clock.now_us() if limited else 0
        made = [self._versions.assignment(c, first_start_us=starts.get(c.id), now_us=now) for c in got]
        if any(c.dag_run is not None for c in got):
            made = dag_inputs.complete(connection, got, made)
        return [(c.run_at_us, assignment) for c, assignment in zip(got, made, strict=True)]

    def _return_stranded(self, connection: psycopg.Connection) -> None:
        """What waited in vain for a slot of this worker. Known as running until the ledger has taken it back."""
        self._stranded += self._take_stranded()
        if not self._stranded:
            return
        back = sorted((one.execution_id, one.token) for one in self._stranded)
        self._give_back(connection, [(0, identity, token) for identity, token in back])
        faults.point("worker.stranded")
        for known in back:
            self._running.pop(known, None)
        self._stranded = []

    def _give_back(self, connection: psycopg.Connection, refused: list[Waiting]) -> None:
        released = store.release(
            connection, [w[1] for w in refused], [w[2] for w in refused], worker_id=self._worker_id
        )
        settle_ended(connection, released)
        GIVEN_BACK.inc(len(released))
        if released:
            wakeup.preloader.wake()
