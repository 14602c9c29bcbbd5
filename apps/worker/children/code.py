"""Which code the children run: the zygote that has it loaded, and its successor when a file was saved."""

import logging
import selectors
from collections.abc import Callable
from typing import Any

from apps.worker.children.zygote_client import ZygoteClient
from apps.worker.handlers.registry import Isolation
from apps.worker.handlers.sources import HandlerSources, Signature
from chronoweb.runtime.clock import Clock

log = logging.getLogger(__name__)
WATCH_SECONDS = 1.0
LOAD_SECONDS = 60.0
RETRY_SECONDS = 1.0


class LoadedCode:
    """The present zygote; a successor while that loads; and predecessors until their children have ended.

    on_event: hears every message of any zygote. on_lost: a zygote is gone, and with it its children.
    """

    def __init__(
        self,
        sources: HandlerSources,
        selector: selectors.BaseSelector,
        clock: Clock,
        *,
        on_event: Callable[[tuple[Any, ...]], None],
        on_lost: Callable[[ZygoteClient], None],
    ) -> None:
        self._sources = sources
        self._selector = selector
        self._clock = clock
        self._on_event = on_event
        self._on_lost = on_lost
        self.zygote: ZygoteClient | None = None
        self.generation = 0
        """Grows each time that other code becomes current."""
        self.failure: str | None = None
        """Why there is no code at all; None while there is some or it is still loading."""
        self.failed_loads = 0
        self._next: ZygoteClient | None = None
        self._next_since = 0.0
        self._retry_at = 0.0
        self._known: list[ZygoteClient] = []
        self._ending: list[ZygoteClient] = []
        self._signature: Signature = ()
        self._watch_at = 0.0

    def start(self) -> None:
        """Begin to load; what is ready is used until then."""
        if self._next is not None:
            self._drop(self._next)
        self._signature = self._sources.playground_signature()
        zygote = self._next = ZygoteClient(self._sources)
        self._next_since = self._clock.monotonic()
        self._known.append(zygote)
        self._selector.register(zygote, selectors.EVENT_READ, lambda _mask: self._hear(zygote))

    @property
    def isolations(self) -> dict[str, Isolation] | None:
        """Handler name → isolation; None while nothing is loaded."""
        return self.zygote.catalogue["isolations"] if self.zygote and self.zygote.catalogue else None

    @property
    def broken(self) -> dict[str, str]:
        return self.zygote.catalogue["broken"] if self.zygote and self.zygote.catalogue else {}

    def tick(self, now: float) -> None:
        """Watch the file, the successor's loading, and the end of predecessors."""
        for zygote in self._known:
            zygote.flush()
        self._ending = [zygote for zygote in self._ending if not zygote.reap()]
        if self._next is not None:
            if now - self._next_since > LOAD_SECONDS:
                self._fail(self._next, f"loading them took longer than {LOAD_SECONDS:g} s")
        elif self.zygote is None and now >= self._retry_at:
            self.start()
        if now >= self._watch_at:
            self._watch_at = now + WATCH_SECONDS
            if self._sources.playground_signature() != self._signature:
                log.info("the playground was saved; loading it", extra={"action": "handlers.reload"})
                self.start()

    def end_unused(self, in_use: set[ZygoteClient]) -> None:
        """Let predecessors go that have no children left."""
        for zygote in list(self._known):
            if zygote is not self.zygote and zygote is not self._next and zygote not in in_use:
                self._drop(zygote)

    def close(self) -> None:
        """End every zygote; that kills their children."""
        for zygote in list(self._known):
            self._drop(zygote)
        for zygote in self._ending:
            zygote.reap(wait_seconds=5.0)
        self._ending.clear()

    def _hear(self, zygote: ZygoteClient) -> None:
        if zygote not in self._known:
            return  # dropped earlier in the same round of events
        for message in zygote.events():
            if message[0] != "ready":
                self._on_event(message)
            elif zygote is self._next:
                self.zygote, self._next, self.failure = zygote, None, None
                self.generation += 1
                self._on_event(("ready",))
        if not zygote.lost:
            return
        if zygote is self._next:
            self._fail(zygote, "the process that loads them ended")
        else:
            log.error("a zygote was lost; its children went with it", extra={"action": "worker.zygote_lost"})
            if zygote is self.zygote:
                self.zygote = None
            self._drop(zygote)
            self._on_lost(zygote)

    def _fail(self, zygote: ZygoteClient, how: str) -> None:
        self.failed_loads += 1
        self._next = None
        self._retry_at = self._clock.monotonic() + RETRY_SECONDS
        zygote.kill()
        self._drop(zygote)
        log.error("the handlers could not be loaded: %s", how, extra={"action": "handlers.not_loaded"})
        if self.zygote is None:
            self.failure = f"the handlers could not be loaded: {how}; the worker's log says more"

    def _drop(self, zygote: ZygoteClient) -> None:
        if zygote in self._known:
            self._known.remove(zygote)
            self._selector.unregister(zygote)
            zygote.close()
            self._ending.append(zygote)
        if zygote is self._next:
            self._next = None
