"""Doing what the plan says, and undoing it: the injector and the faults of processes.

A fault that cannot be done at its moment (its victim is away already) is tried again for a while, then missed and
counted as such.
"""

import heapq
import itertools
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

import psycopg
import redis

from apps.quickstart.chaos.fleet import Fleet
from apps.quickstart.chaos.plan import FLEET, Fault
from apps.quickstart.chaos.service_faults import ServiceFaults

logger = logging.getLogger(__name__)

Undo = Callable[[], None]

_AWAY = (psycopg.Error, redis.RedisError, OSError)
_PATIENCE_SECONDS = 3.0
_UNDO_PATIENCE_SECONDS = 60.0
_RETRY_SECONDS = 0.2
_SIGNALS = {"kill": signal.SIGKILL, "terminate": signal.SIGTERM, "stop": signal.SIGSTOP}


class Injector:
    """A thread that goes through the plan; what lasts is undone in its time, and all of it at the end."""

    def __init__(self, plan: Sequence[Fault], *, fleet: Fleet, services: ServiceFaults) -> None:
        self.done: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self._plan = plan
        self._fleet = fleet
        self._services = services
        self._order = itertools.count()
        self._queue: list[tuple[float, int, Fault | Undo]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="injector", daemon=True)

    def start(self) -> None:
        self._began = time.monotonic()
        for fault in self._plan:
            self._at(self._began + fault.at, fault)
        self._thread.start()

    def stop(self) -> None:
        """No fault more; what lasts still is undone now."""
        self._stop.set()
        self._thread.join(_UNDO_PATIENCE_SECONDS + 30)

    def _at(self, moment: float, what: "Fault | Undo") -> None:
        heapq.heappush(self._queue, (moment, next(self._order), what))

    def _run(self) -> None:
        while self._queue and not self._stop.is_set():
            wait = self._queue[0][0] - time.monotonic()
            if wait > 0:
                self._stop.wait(wait)
                continue
            what = heapq.heappop(self._queue)[2]
            if isinstance(what, Fault):
                self._inject(what)
            else:
                self._undo(what)
        for _, _, what in self._queue:
            if not isinstance(what, Fault):
                self._undo(what)

    def _inject(self, fault: Fault) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self._stop.is_set():
            try:
                is_done, undo = self._do(fault)
            except _AWAY as error:
                logger.info("fault not possible now: %s: %s", fault.kind, error)
                is_done, undo = False, None
            if undo is not None:
                self._at(time.monotonic() + fault.seconds, undo)
            if is_done:
                self.done[fault.kind] += 1
                logger.info("fault: %s (now %.1f s)", fault.line(), time.monotonic() - self._began)
                return
            if time.monotonic() > deadline:
                break
            self._stop.wait(_RETRY_SECONDS)
        self.missed[fault.kind] += 1

    def _undo(self, undo: Undo) -> None:
        deadline = time.monotonic() + _UNDO_PATIENCE_SECONDS
        while True:
            try:
                undo()
                return
            except _AWAY:
                if time.monotonic() > deadline:
                    raise
                threading.Event().wait(_RETRY_SECONDS)

    def _do(self, fault: Fault) -> tuple[bool, Undo | None]:
        """Whether it was done, and what undoes it."""
        victim, act = fault.kind.split(".")
        if victim not in FLEET:
            return self._services.do(fault)
        if act == "kill_all":
            return any([self._fleet.send(f"{victim}-{n + 1}", signal.SIGKILL) for n in range(FLEET[victim])]), None
        is_done = self._fleet.send(fault.target, _SIGNALS[act])
        return is_done, (lambda: self._fleet.resume(fault.target)) if act == "stop" else None
