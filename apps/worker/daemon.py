"""The worker: receives what was dispatched to it, claims, runs, and writes how it ended.

The main thread receives; the claimer, the starter, the runner, the recorder, the completer and the presence have a
thread each. SIGTERM drains, and so does a person who asks for it: nothing more is received, what fits in the grace is
finished, long attempts are asked to leave a checkpoint, the rest is given back uncounted. A second signal ends
the grace.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import Counter

from apps.executions import store
from apps.executions.labels import read_worker_labels
from apps.worker import presence
from apps.worker.class_slots import CRITICAL, ClassSlots
from apps.worker.envelope import WORKER_HEADER, Envelope, EnvelopeError, decode
from apps.worker.jobs import Assignment
from apps.worker.parts import Parts
from chronoweb.runtime import faults, postgres, transport
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import ZombieWriteSuppressed
from chronoweb.runtime.loop import Result, Stop

logger = logging.getLogger(__name__)

NAME = "worker"
_RECEIVE_SECONDS = 0.1
_MESSAGES = 200
_FLUSH_SECONDS = 10.0
_WITHDRAWN_SECONDS = 0.3
"""After so long no dispatcher counts on a worker that has withdrawn: they count every 0.1 s."""

RECEIVED = Counter("chronoweb_received_total", "Executions received from the transport")
UNREADABLE = Counter("chronoweb_unreadable_messages_total", "Messages dropped because they could not be read")


@dataclass
class Worker:
    """The daemon. Its first pass registers it: until PostgreSQL is there it is nobody and gets nothing."""

    config: Config
    addresses: Addresses
    stop: Stop
    slots: int
    labels: Sequence[str] = ()
    name: str = NAME
    _parts: Parts | None = None

    def run_once(self) -> Result:
        """Receive once, and see that every part is alive."""
        parts = self._registered()
        if (ended := parts.ended()) is not None:
            self.stop.requested.set()
            raise RuntimeError(f"the worker's {ended} has ended; the worker ends with it")
        messages = parts.receiver.receive(_RECEIVE_SECONDS, max_messages=_MESSAGES)
        faults.point("worker.received" if messages else "worker.idle")
        count = 0
        for message in messages:
            count += self._take(parts, message)
        if messages:
            # Acknowledged before the claim: `outstanding` names this worker, so its death gives the work back.
            parts.receiver.acknowledge(messages)
            parts.claimer.wake()
        parts.presence.receiving()
        return Result(count, 0)

    def wait(self, seconds: float) -> None:
        """Receiving waits by itself."""

    def reset(self) -> None:
        """The transport recovers by itself at the next call."""

    def close(self) -> None:
        """Drain: finish what fits in the grace, give the rest back, sign off."""
        if self._parts is None:
            return
        parts, held = self._parts, len(self._parts.running)
        logger.info("draining", extra={"action": "worker.draining", "worker": parts.id, "running": held})
        parts.presence.draining()
        parts.receiver.stop_receiving()
        parts.handing_over.close()
        parts.claimer.stop(_FLUSH_SECONDS)
        unclaimed = parts.backlog.clear() + parts.claimer.unclaimed()
        give_back = [(identity, token) for _, identity, token in unclaimed]
        give_back += [(a.execution_id, a.token) for a in parts.starter.close()]
        # What is given back sooner than dispatchers have heard of the drain would be sent here again.
        self.stop.hurry.wait(_WITHDRAWN_SECONDS)
        parts.giving_back.now(give_back, unread=True)
        self._drain(parts)
        parts.recorder.stop(_FLUSH_SECONDS)
        parts.completer.stop(_FLUSH_SECONDS)
        parts.giving_back.rest()
        parts.runner.close()
        parts.desk.stop(_FLUSH_SECONDS)
        parts.receiver.close()
        parts.presence.close()

    def _drain(self, parts: Parts) -> None:
        """What is handed back goes on elsewhere while the rest still ends here."""

        def give_back(handed_back: list[Assignment]) -> None:
            parts.recorder.ended(handed_back)
            parts.giving_back.now([(a.execution_id, a.token) for a in handed_back])

        parts.runner.drain(self.config.drain_grace_seconds, hurry=self.stop.hurry, give_back=give_back)

    def _registered(self) -> Parts:
        if self._parts is not None:
            return self._parts
        slots = ClassSlots.split(
            self.slots,
            standard_percent=self.config.standard_slots_percent,
            bulk_percent=self.config.bulk_slots_percent,
            reserve_percent=self.config.critical_reserve_percent,
        )
        identity, connection = presence.register(self.addresses, self.config, slots=slots, labels=self.labels)
        try:
            parts = Parts(
                identity=identity,
                connection=connection,
                config=self.config,
                addresses=self.addresses,
                slots=slots,
                given_up=self._give_up,
                asked_to_drain=self._drain_on_request,
            )
        except Exception:
            store.stop_worker(connection, worker_id=identity.worker_id)
            connection.close()
            raise
        parts.start()
        self._parts = parts
        threading.current_thread().name = f"worker-{parts.id}"
        logger.info("worker registered", extra={"action": "worker.registered", "worker": parts.id})
        return parts

    def _take(self, parts: Parts, message: transport.Incoming) -> int:
        try:
            envelope = decode(message.body, message.headers)
        except EnvelopeError as error:
            UNREADABLE.inc()
            logger.error("a message was dropped", extra={"action": "worker.unreadable", "error": str(error)})
            return 0
        if message.headers.get(WORKER_HEADER) != str(parts.id):
            self._adopt(parts, envelope)
        if message.class_index == CRITICAL:
            parts.lending.critical_seen()
        parts.backlog.add(message.class_index, envelope.records)
        RECEIVED.inc(len(envelope.records))
        return len(envelope.records)

    def _adopt(self, parts: Parts, envelope: Envelope) -> None:
        """Take what was sent to another worker's inbox; what this one may not run goes back at once."""
        identities, tokens = [record[0] for record in envelope.records], [record[1] for record in envelope.records]
        with postgres.connect("worker-adopt", url=self.addresses.database_url) as ledger:
            store.adopt(ledger, identities, tokens, worker_id=parts.id)
            found = store.unfit(ledger, identities, labels=parts.carried(), tenant=parts.identity.tenant)
        unfit = set(found).intersection(zip(identities, tokens, strict=True))
        if unfit:
            parts.giving_back.now(sorted(unfit))
            envelope.records[:] = [record for record in envelope.records if record[:2] not in unfit]

    def _give_up(self, why: str) -> None:
        """This worker is no longer believed: whatever it still runs is somebody else's. Stop without a grace."""
        logger.error(
            "this worker was given up; it ends",
            extra={
                "action": "worker.zombie",
                "worker": self._parts and self._parts.id,
                "error": str(ZombieWriteSuppressed(why)),
            },
        )
        self.stop.hurry.set()
        self.stop.requested.set()

    def _drain_on_request(self) -> None:
        """A person has asked for it: what SIGTERM does. Told again while it has not begun."""
        if not self.stop.requested.is_set():
            who = self._parts and self._parts.id
            logger.info("asked to drain", extra={"action": "worker.asked_to_drain", "worker": who})
        self.stop.requested.set()


def build(
    config: Config, addresses: Addresses, stop: Stop, *, slots: int, labels: Sequence[str] | None = None
) -> Worker:
    """A worker that registers as soon as PostgreSQL lets it. labels: instead of those that the settings give.

    Raises ConfigurationError for a label that is none.
    """
    labels = config.worker_labels if labels is None else labels
    read_worker_labels(labels)
    return Worker(config, addresses, stop, slots, labels)
