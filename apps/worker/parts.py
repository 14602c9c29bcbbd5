"""The parts of one registered worker, and how they are connected."""

from collections.abc import Callable

import psycopg
from django.conf import settings

from apps.executions.circuits import CircuitTerms
from apps.executions.rows import Claimed
from apps.logs.desk import LogDesk
from apps.logs.transport import make_publisher
from apps.worker.backlog import Backlog
from apps.worker.circuit_reporter import CircuitReporter
from apps.worker.claimer import Claimer
from apps.worker.class_slots import CLASSES, ClassSlots, Lending
from apps.worker.completer import Completer
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.giving_back import GivingBack
from apps.worker.handing_over import HandingOver
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.sources import HandlerSources
from apps.worker.jobs import RunResult
from apps.worker.live_state import LiveState
from apps.worker.load import LoadMeter
from apps.worker.output.secrets import own_secrets
from apps.worker.presence import Identity, Presence
from apps.worker.recorder import Recorder
from apps.worker.runner import Runner
from apps.worker.second_look import SecondLook
from apps.worker.starter import Starter
from apps.worker.versions import Versions
from apps.worker.zombies import GivenUp
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import Config
from chronoweb.runtime.database_clock import DatabaseClock

_STRANDED_SECONDS = 2.0
"""What a worker has claimed and has had no slot for so long goes back: another may have one."""


class Parts:
    """connection: the direct one that holds the worker's lock. given_up: told when the worker is believed no more.

    asked_to_drain: told, once or more, when a person wants it to leave.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        connection: psycopg.Connection,
        config: Config,
        addresses: Addresses,
        slots: ClassSlots,
        given_up: GivenUp,
        asked_to_drain: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.id = identity.worker_id
        self.slots = slots
        self.lending = Lending(config.bulk_lend_after_ms / 1000, SYSTEM_CLOCK)
        self.running: dict[tuple[bytes, int], Claimed] = {}
        self.clock = DatabaseClock()
        self.backlog = Backlog()
        self.versions = Versions()
        self.load = LoadMeter()
        self.circuits = CircuitReporter(CircuitTerms.of(config))
        self.receiver = addresses.receiver(self.id, config)
        self.recorder = Recorder(
            worker_id=self.id, url=addresses.database_url, running=self.running, on_zombie=given_up
        )
        self.desk = LogDesk(make_publisher(addresses, config), config, hidden=own_secrets(addresses))
        self._make_runner(config)
        self.starter = Starter(self.runner.submit, self.clock)
        self.claimer = Claimer(
            worker_id=self.id,
            url=addresses.database_url,
            config=config,
            clock=self.clock,
            backlog=self.backlog,
            starter=self.starter,
            capacity=self.runner.capacity_within,
            free=self.runner.free,
            stranded=self.runner.take_stranded,
            lending=self.lending,
            versions=self.versions,
            running=self.running,
        )
        self._make_completer(addresses.database_url, given_up)
        self._make_presence(connection, config, addresses, given_up, asked_to_drain)
        self.giving_back = GivingBack(worker_id=self.id, url=addresses.database_url)

    def start(self) -> None:
        """Start the threads; each is ready for what the ones after it send."""
        for part in (self.desk, self.recorder, self.runner, self.starter, self.completer, self.claimer, self.presence):
            part.start()

    def ended(self) -> str | None:
        """The name of a part whose thread has ended, which ends the worker; None while all live."""
        for part in (self.claimer, self.starter, self.completer, self.recorder, self.runner, self.presence, self.desk):
            if not part.alive:
                return type(part).__name__.lower()
        return None

    def carried(self) -> list[str]:
        """The worker's labels, and what it has found out that it can do."""
        return sorted({*self.identity.labels, *self.runner.inline.capabilities})

    def _make_completer(self, url: str, given_up: GivenUp) -> None:
        self.handing_over = HandingOver(worker_id=self.id, claimer=self.claimer, clock=self.clock, carried=self.carried)
        self.completer = Completer(
            worker_id=self.id,
            url=url,
            clock=self.clock,
            versions=self.versions,
            running=self.running,
            load=self.load,
            circuits=self.circuits,
            on_zombie=given_up,
            on_free=self.claimer.wake,
            handing_over=self.handing_over,
            has_left=self.recorder.has_left,
        )

    def _make_runner(self, config: Config) -> None:
        self.runner = Runner(
            slots=self.slots.total,
            class_slots=self.slots,
            lending=self.lending,
            on_results=self._take_results,
            sources=HandlerSources(playground=str(settings.BASE_DIR / "playground")),
            allowed_networks=config.outbound_allowed_networks,
            commands=CommandPolicy.of(config),
            containers=ContainerPolicy.of(config, worker=self.id),
            notes=self.recorder,
            cancel_grace_seconds=config.cancel_grace_seconds,
            long_seconds=config.drain_long_seconds,
            stranded_seconds=_STRANDED_SECONDS,
            desk=self.desk,
        )

    def _make_presence(
        self,
        connection: psycopg.Connection,
        config: Config,
        addresses: Addresses,
        given_up: GivenUp,
        asked_to_drain: Callable[[], None],
    ) -> None:
        look = SecondLook(
            worker_id=self.id, runner=self.runner, running=self.running, circuits=self.circuits, clock=self.clock
        )
        self.presence = Presence(
            identity=self.identity,
            connection=connection,
            addresses=addresses,
            config=config,
            database_clock=self.clock,
            describe=self._describe,
            measure=lambda: self.load.measure(active=len(self.running)),
            slots_used=self.runner.used,
            each_second=look.look,
            on_lost=given_up,
            on_drain=asked_to_drain,
            paces=self.load.pace.to_tell,
        )

    def _take_results(self, results: list[RunResult]) -> None:
        self.recorder.ended([result.assignment for result in results])
        self.completer.ended(results)

    def _describe(self) -> LiveState:
        classes = range(CLASSES)
        return LiveState(
            claimed=list(self.claimer.claimed),
            slots=[self.slots.reach(c) for c in classes],
            free=[max(0, self.runner.free(c) - self.backlog.waiting(c)) for c in classes],
            mean_run_seconds=[self.runner.mean_run_seconds(c) for c in classes],
            inbox=self.receiver.inbox() or {},
            labels=self.carried(),
            tenant=self.identity.tenant,
            handed_over=self.handing_over.tallies.totals(),
        )
