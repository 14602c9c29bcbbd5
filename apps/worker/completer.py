"""Writes how attempts ended, by group commit: a flush starts when the last one has ended.

So batches grow under load and nothing waits for a timer. A batch that PostgreSQL refuses for its data is halved until
the culprit alone fails, permanently. Zero rows for an id is not yet a zombie: the row is read again first.
"""

import json
import logging
import threading
import time
from collections.abc import Callable

import psycopg
from prometheus_client import Counter, Histogram

from apps.executions import feed, ids, store
from apps.executions.dags.completion import finish_of_runs
from apps.executions.dags.settle import Outcome as Settlement
from apps.executions.failure import FailureClass
from apps.executions.rows import Claimed, Finish
from apps.executions.states import RESTING, Outcome, Status
from apps.executions.usage import UsageMeter
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.handing_over import HandingOver
from apps.worker.jobs import RunResult
from apps.worker.ledger_thread import LedgerThread
from apps.worker.load import LoadMeter
from apps.worker.verdict import decide
from apps.worker.versions import Versions
from apps.worker.zombies import look_again
from chronoweb.runtime import faults, wakeup
from chronoweb.runtime.database_clock import DatabaseClock

logger = logging.getLogger(__name__)

_BATCH = 1000
_IDLE_SECONDS = 0.5
_REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    # psycopg counts these among the errors of a server that is away, but no repetition mends them.
    psycopg.errors.StatementTooComplex,  # JSON nested too deep
    psycopg.errors.ProgramLimitExceeded,
)

FINISHED = Counter("chronoweb_attempts_total", "Attempts ended, by outcome", ["outcome"])
LATENESS = Histogram(
    "chronoweb_start_lateness_seconds",
    "Start of an attempt after it was due",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)


class Completer(LedgerThread):
    """A thread with a connection of its own. `on_zombie` is told when this worker turns out to be given up.

    handing_over: begins nodes here whose parents end here; None: nobody does. has_left: whether an attempt said
    something while it ran, which goes when its execution rests.
    """

    def __init__(
        self,
        *,
        worker_id: int,
        url: str,
        clock: DatabaseClock,
        versions: Versions,
        running: dict[tuple[bytes, int], Claimed],
        load: LoadMeter,
        circuits: CircuitReporter,
        on_zombie: Callable[[str], None],
        on_free: Callable[[], None],
        handing_over: HandingOver | None = None,
        has_left: Callable[[tuple[bytes, int]], bool] = lambda _: False,
    ) -> None:
        super().__init__("completer", url)
        self._worker_id = worker_id
        self._clock = clock
        self._versions = versions
        self._running = running
        self._load = load
        self._circuits = circuits
        self._on_zombie = on_zombie
        self._on_free = on_free
        self._handing_over = handing_over
        self._has_left = has_left
        self._ended: list[RunResult] = []
        self._writing: list[tuple[Claimed, Finish]] = []
        self._released = 0
        self._usage = UsageMeter()
        self._lock = threading.Lock()
        self._changed = threading.Event()

    def ended(self, results: list[RunResult]) -> None:
        """Take results from the runner; called from its thread."""
        with self._lock:
            self._ended += results
        self._changed.set()
        self._on_free()

    def wake(self) -> None:
        self._changed.set()

    def finished(self) -> bool:
        return not self._ended and not self._writing and self._usage.is_empty

    def step(self, connection: psycopg.Connection) -> None:
        """Write what has ended, or wait for something to end."""
        if not self._writing:
            self._writing = self._collect()
        if not self._writing:
            self._add_usage(connection, at_once=self._stop.is_set())
            self._changed.wait(_IDLE_SECONDS)
            self._changed.clear()
            return
        batch = self._writing
        for _, positions in ids.by_day([finish.id for _, finish in batch]):
            day = [batch[p] for p in positions]
            self._write(connection, [pair for pair in day if pair[0].dag_run is None])
            self._write(connection, [pair for pair in day if pair[0].dag_run is not None])
        faults.point("worker.completed")
        if self._handing_over is not None:
            self._handing_over.ask_for_unanswered()
        self._writing = []
        self._note(connection, batch)

    def _collect(self) -> list[tuple[Claimed, Finish]]:
        with self._lock:
            results, self._ended = self._ended[:_BATCH], self._ended[_BATCH:]
        pairs = []
        for result in results:
            claimed = self._running[result.assignment.execution_id, result.assignment.token]
            pairs.append((claimed, decide(claimed, result, self._versions.terms(claimed.version_id), self._clock)))
        return sorted(pairs, key=lambda pair: pair[1].id)

    def _write(self, connection: psycopg.Connection, batch: list[tuple[Claimed, Finish]]) -> None:
        """Write ends of one day, all of them of nodes of runs or none."""
        if not batch:
            return
        try:
            written = self._finish(connection, batch)
        except _REFUSED as error:
            if len(batch) > 1:
                middle = len(batch) // 2
                self._write(connection, batch[:middle])
                self._write(connection, batch[middle:])
            else:
                self._fail_for_good(connection, batch[0], error)
            return
        if len(written) < len(batch):
            self._look_again(connection, [pair for pair in batch if pair[1].id not in written])

    def _finish(self, connection: psycopg.Connection, batch: list[tuple[Claimed, Finish]]) -> set[bytes]:
        """What ends a node of a run decides about the nodes behind it in the same transaction."""
        ends = [finish for _, finish in batch]
        if batch[0][0].dag_run is None:
            return store.finish(connection, ends, worker_id=self._worker_id)
        written, settled = self._finish_of_runs(connection, batch, ends)
        feed.changed_many(settled.changed)
        self._released += settled.released
        return written

    def _finish_of_runs(
        self, connection: psycopg.Connection, batch: list[tuple[Claimed, Finish]], ends: list[Finish]
    ) -> tuple[set[bytes], Settlement]:
        handing_over = self._handing_over
        if handing_over is None:
            return finish_of_runs(connection, ends, worker_id=self._worker_id)
        offer = handing_over.offer(batch)
        try:
            written, settled = finish_of_runs(connection, ends, worker_id=self._worker_id, offer=offer)
        except psycopg.Error as error:
            handing_over.failed(unanswered=not isinstance(error, _REFUSED))
            raise
        handing_over.answered(settled.begun)
        self._usage.dispatched(claimed.tenant_id for claimed in settled.begun)
        return written, settled

    def _fail_for_good(
        self, connection: psycopg.Connection, pair: tuple[Claimed, Finish], error: psycopg.Error
    ) -> None:
        """What this attempt returned cannot be stored: it alone fails, permanently."""
        claimed, finish = pair
        message = f"PostgreSQL refused the result: SQLSTATE {error.sqlstate}"
        told = {"type": "UnstorableResult", "message": message, "class": FailureClass.PERMANENT.value}
        finish.result, finish.error = None, json.dumps(told).encode()
        finish.target, finish.outcome, finish.delay_us = Status.DEAD_LETTER, Outcome.FAILED, None
        finish.fingerprint = b"UnstorableResult"
        if not self._finish(connection, [(claimed, finish)]):
            self._look_again(connection, [(claimed, finish)])

    def _look_again(self, connection: psycopg.Connection, refused: list[tuple[Claimed, Finish]]) -> None:
        """Tell a lost lease from a write that was done (its answer was lost) and from a cancel under our token.

        The row shows our own outcome, unless another attempt has been sent out since: then `attempts` does.
        """
        ends = [finish for _, finish in refused]
        written = store.attempts_written(connection, ends, worker_id=self._worker_id)
        left = [(end.id, end.token) for end in ends if (end.id, end.token) not in written]
        if left:
            look_again(connection, left, self._on_zombie)

    def _note(self, connection: psycopg.Connection, batch: list[tuple[Claimed, Finish]]) -> None:
        """What follows a write: metrics, the feed, waiters of slots, the preloader for what is to be tried again."""
        freed, spoken, again = [], [], False
        for claimed, finish in batch:
            has_left = self._has_left((finish.id, finish.token)) or claimed.left_behind is not None
            if has_left and finish.target in RESTING and finish.target is not Status.DEAD_LETTER:
                spoken.append(finish.id)
            self._running.pop((finish.id, finish.token), None)
            if self._handing_over is not None:
                self._handing_over.ended(claimed)
            self._tell_circuit(claimed, finish)
            self._usage.ran(claimed.tenant_id, finish.started_us, finish.finished_us)
            FINISHED.labels(finish.outcome.word).inc()
            if finish.started_us is not None:
                LATENESS.observe(max(0.0, (finish.started_us - finish.due_us) / 1e6))
            again = again or finish.target is Status.RETRYING
            if claimed.slot_key and finish.target is not Status.RETRYING:
                freed.append(claimed.slot_key)
            if claimed.concurrency_key:
                freed.append(claimed.concurrency_key)
        self._load.ended([finish.outcome for _, finish in batch])
        self._load.pace.ended((claimed.tenant_id, claimed.class_index) for claimed, _ in batch)
        feed.changed_many((claimed.tenant_id, claimed.id) for claimed, _ in batch)
        self._circuits.flush(connection)
        self._add_usage(connection)
        # A crash before these lines costs a waiter, or what was said, one pass of the watchdog.
        if spoken:
            store.forget_progress(connection, spoken)
        if (freed and store.wake_waiters(connection, freed)) or again or self._released:
            wakeup.preloader.wake()
        self._released = 0

    def _add_usage(self, connection: psycopg.Connection, *, at_once: bool = False) -> None:
        """Tell, each second, how long tenants' attempts have run."""
        now = time.monotonic()
        if at_once or self._usage.is_due(now):
            self._usage.flush(connection, now=now)

    def _tell_circuit(self, claimed: Claimed, finish: Finish) -> None:
        key = self._versions.terms(claimed.version_id).circuit_key
        if key is not None:
            self._circuits.note((claimed.tenant_id, key), finish.circuit, finish.told)
