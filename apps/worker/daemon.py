"""The worker: receives what was dispatched to it, claims, runs, and writes how it ended.

The main thread receives; the claimer, the starter, the runner, the recorder, the completer and the presence have a
thread each. SIGTERM drains: nothing more is received, what fits in the grace is finished, long attempts are asked to
leave a checkpoint, the rest is given back uncounted. A second signal ends the grace.
"""

import logging
import threading
from dataclasses import dataclass, field

import psycopg
from django.conf import settings
from prometheus_client import Counter

from apps.executions import store
from apps.executions.circuits import CircuitTerms
from apps.executions.rows import Claimed
from apps.worker import presence
from apps.worker.backlog import Backlog
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.claimer import Claimer
from apps.worker.completer import Completer
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.envelope import WORKER_HEADER, EnvelopeError, decode
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.sources import HandlerSources
from apps.worker.jobs import Assignment, RunResult
from apps.worker.live_state import LiveState
from apps.worker.load import LoadMeter
from apps.worker.presence import Presence
from apps.worker.recorder import Recorder
from apps.worker.runner import Runner
from apps.worker.starter import Starter
from apps.worker.versions import Versions
from chronoweb.runtime import faults, postgres, transport, wakeup
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock
from chronoweb.runtime.errors import ZombieWriteSuppressed
from chronoweb.runtime.loop import Result, Stop

logger = logging.getLogger(__name__)

NAME = "worker"
_RECEIVE_SECONDS = 0.1
_MESSAGES = 200
_FLUSH_SECONDS = 10.0
_WITHDRAWN_SECONDS = 0.3
"""After so long no dispatcher counts on a worker that has withdrawn: they count every 0.1 s."""
_LONG_US = 1_000_000

RECEIVED = Counter("chronoweb_received_total", "Executions received from the transport")
UNREADABLE = Counter("chronoweb_unreadable_messages_total", "Messages dropped because they could not be read")


@dataclass
class Worker:
    """The daemon; made by `build`, which registers it."""

    config: Config
    addresses: Addresses
    stop: Stop
    slots: int
    name: str = NAME
    _running: dict[tuple[bytes, int], Claimed] = field(default_factory=dict)
    _told_started: set[bytes] = field(default_factory=set)
    _unreleased: list[tuple[bytes, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id, connection = presence.register(self.addresses, self.config, slots=self.slots)
        self.clock = DatabaseClock()
        self.backlog = Backlog()
        self.versions = Versions()
        self.load = LoadMeter()
        self.circuits = CircuitReporter(CircuitTerms.of(self.config))
        self.receiver = self.addresses.receiver(self.id, self.config)
        self._connect_parts(connection)
        self.recorder.start()
        self.runner.start()
        self.starter.start()
        self.completer.start()
        self.claimer.start()
        self.presence.start()
        logger.info("worker registered", extra={"action": "worker.registered", "worker": self.id})

    def _connect_parts(self, connection: psycopg.Connection) -> None:
        self.recorder = Recorder(
            worker_id=self.id, url=self.addresses.database_url, running=self._running, on_zombie=self._give_up
        )
        self.completer = Completer(
            worker_id=self.id,
            url=self.addresses.database_url,
            clock=self.clock,
            versions=self.versions,
            running=self._running,
            load=self.load,
            circuits=self.circuits,
            on_zombie=self._give_up,
            on_free=lambda: self.claimer.wake(),
            has_left=self.recorder.has_left,
        )
        self.runner = Runner(
            slots=self.slots,
            on_results=self._ended,
            sources=HandlerSources(playground=str(settings.BASE_DIR / "playground" / "tasks.py")),
            allowed_networks=self.config.outbound_allowed_networks,
            commands=CommandPolicy.of(self.config),
            containers=ContainerPolicy.of(self.config, worker=self.id),
            floor=self.slots,
            notes=self.recorder,
            cancel_grace_seconds=self.config.cancel_grace_seconds,
            long_seconds=self.config.drain_long_seconds,
        )
        self.starter = Starter(self.runner.submit, self.clock)
        self.claimer = Claimer(
            worker_id=self.id,
            url=self.addresses.database_url,
            config=self.config,
            clock=self.clock,
            backlog=self.backlog,
            starter=self.starter,
            capacity=self.runner.capacity_within,
            versions=self.versions,
            running=self._running,
        )
        self.presence = Presence(
            worker_id=self.id,
            connection=connection,
            addresses=self.addresses,
            config=self.config,
            database_clock=self.clock,
            describe=self._describe,
            measure=lambda: self.load.measure(active=len(self._running)),
            each_second=self._each_second,
            on_lost=self._give_up,
        )

    def run_once(self) -> Result:
        """Receive once, and see that every part is alive."""
        for part in (self.claimer, self.starter, self.completer, self.recorder, self.runner, self.presence):
            if not part.alive:
                self.stop.requested.set()
                raise RuntimeError(f"the worker's {type(part).__name__.lower()} has ended; the worker ends with it")
        messages = self.receiver.receive(_RECEIVE_SECONDS, max_messages=_MESSAGES)
        faults.point("worker.received" if messages else "worker.idle")
        count = 0
        for message in messages:
            count += self._take(message)
        if messages:
            # Acknowledged before the claim: `outstanding` names this worker, so its death gives the work back.
            self.receiver.acknowledge(messages)
            self.claimer.wake()
        self.presence.receiving()
        return Result(count, 0)

    def wait(self, seconds: float) -> None:
        """Receiving waits by itself."""

    def reset(self) -> None:
        """The transport recovers by itself at the next call."""

    def close(self) -> None:
        """Drain: finish what fits in the grace, give the rest back, sign off."""
        logger.info("draining", extra={"action": "worker.draining", "worker": self.id, "running": len(self._running)})
        self.presence.draining()
        self.receiver.stop_receiving()
        self.claimer.stop(_FLUSH_SECONDS)
        unclaimed = self.backlog.clear() + self.claimer.unclaimed()
        give_back = [(identity, token) for _, identity, token in unclaimed]
        give_back += [(a.execution_id, a.token) for a in self.starter.close()]
        # What is given back sooner than dispatchers have heard of the drain would be sent here again.
        self.stop.hurry.wait(_WITHDRAWN_SECONDS)
        self._release_now(give_back, unread=True)
        self._drain()
        self.recorder.stop(_FLUSH_SECONDS)
        self.completer.stop(_FLUSH_SECONDS)
        self._release(self._unreleased)
        self._release_unread("outstanding_of_worker")
        self.runner.close()
        self.receiver.close()
        self.presence.close()

    def _drain(self) -> None:
        """What is handed back goes on elsewhere while the rest still ends here."""

        def give_back(handed_back: list[Assignment]) -> None:
            self.recorder.ended(handed_back)
            self._release_now([(a.execution_id, a.token) for a in handed_back])

        self.runner.drain(self.config.drain_grace_seconds, hurry=self.stop.hurry, give_back=give_back)

    def _ended(self, results: list[RunResult]) -> None:
        self.recorder.ended([result.assignment for result in results])
        self.completer.ended(results)

    def _take(self, message: transport.Incoming) -> int:
        try:
            envelope = decode(message.body, message.headers)
        except EnvelopeError as error:
            UNREADABLE.inc()
            logger.error("a message was dropped", extra={"action": "worker.unreadable", "error": str(error)})
            return 0
        if message.headers.get(WORKER_HEADER) != str(self.id):
            self._adopt([record[0] for record in envelope.records], [record[1] for record in envelope.records])
        self.backlog.add(message.class_index, envelope.records)
        RECEIVED.inc(len(envelope.records))
        return len(envelope.records)

    def _adopt(self, identities: list[bytes], tokens: list[int]) -> None:
        with postgres.connect("worker-adopt", url=self.addresses.database_url) as connection:
            store.adopt(connection, identities, tokens, worker_id=self.id)

    def _release_now(self, give_back: list[tuple[bytes, int]], *, unread: bool = False) -> None:
        """Give back; where PostgreSQL is away, at the end of the drain. unread: what waits in the inbox, too."""
        try:
            self._release(give_back)
            if unread:
                self._release_unread("outstanding_unread")
        except psycopg.OperationalError as error:
            self._unreleased += give_back
            logger.warning("not given back yet", extra={"action": "worker.ledger_away", "error": str(error)})

    def _release(self, give_back: list[tuple[bytes, int]]) -> None:
        if not give_back:
            return
        ordered = sorted(give_back)
        with postgres.connect("worker-release", url=self.addresses.database_url) as connection:
            store.release(connection, [i for i, _ in ordered], [t for _, t in ordered], worker_id=self.id)
        faults.point("worker.released")
        wakeup.preloader.wake()
        logger.info("given back", extra={"action": "worker.released", "executions": len(give_back)})

    def _release_unread(self, query: str) -> None:
        """What was sent here and never read is given back, too: nobody need wait for the claim deadline."""
        with postgres.connect("worker-release", url=self.addresses.database_url) as connection:
            while left := store.sent(connection, query, worker=self.id, limit=_MESSAGES):
                released = store.release(connection, [i for i, _ in left], [t for _, t in left], worker_id=self.id)
                if not released:
                    break
                wakeup.preloader.wake()

    def _describe(self) -> LiveState:
        mean = self.runner.pool.estimates.overall
        return LiveState(
            claimed=self.claimer.claimed,
            slots=self.slots,
            mean_run_seconds=mean.value if mean.count else None,
            inbox=self.receiver.inbox() or {},
            capabilities=self.runner.inline.capabilities,
        )

    def _each_second(self, connection: psycopg.Connection) -> None:
        """Stop what is to be cancelled; write the real start of what runs for longer than a moment."""
        for identity in store.to_cancel(connection, worker_id=self.id):
            self.runner.cancel(identity)
        self.circuits.refresh(connection)
        if not self._running:
            self._told_started.clear()
            return
        now = self.clock.now_us()
        tokens = {identity: token for identity, token in list(self._running)}
        long = [
            (identity, tokens[identity], self.clock.from_host_us(started))
            for identity, started in self.runner.running()
            if identity in tokens
            and identity not in self._told_started
            and now - self.clock.from_host_us(started) > _LONG_US
        ]
        if long:
            store.note_started(connection, sorted(long), worker_id=self.id)
            self._told_started.update(identity for identity, _, _ in long)
        self._told_started &= tokens.keys()

    def _give_up(self, why: str) -> None:
        """This worker is no longer believed: whatever it still runs is somebody else's. Stop without a grace."""
        logger.error(
            "this worker was given up; it ends",
            extra={"action": "worker.zombie", "worker": self.id, "error": str(ZombieWriteSuppressed(why))},
        )
        self.stop.hurry.set()
        self.stop.requested.set()


def build(config: Config, addresses: Addresses, stop: Stop, *, slots: int) -> Worker:
    """A registered worker whose threads run."""
    worker = Worker(config, addresses, stop, slots)
    threading.current_thread().name = f"worker-{worker.id}"
    return worker
