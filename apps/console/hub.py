"""What viewers of one thing are sent: read once a process, however many look.

A hub lives while somebody looks. It hears its tenant's feed, reads what changed as often as the process can afford
(console/pace.py), and looks by itself now and then: what the feed lost is made good then. Hubs of one process share a
few threads, and the hubs of one tenant share one subscription.
"""

import asyncio
import contextlib
import json
import logging
import time
import zlib
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from apps.console.pace import SENDING_SECONDS, Pace
from apps.executions.feed_watch import watch

logger = logging.getLogger(__name__)

_THREADS = 4
_SHARE = 4
"""What takes long to read is read less often: at most a fourth of the time is spent on it."""
_MOST_BATCHES_BEHIND = 8
_RETRY_SECONDS = 1.0
_SILENT_SECONDS = 4.0
"""A read that has taken so long may never end: viewers are told that what they see may be old."""
_LONGEST_REST_SECONDS = 15.0
"""After a read that took long, such as one that waited for a database that was away."""
_LEAST_PACKED_BYTES = 1000
_PACKING_LEVEL = 3
"""Rows of a table are alike: a tenth is left, for 1 ms of the processor a 100 kB. Higher levels gain little."""
T = TypeVar("T")
U = TypeVar("U")
Told = TypeVar("Told", covariant=True)


class Source(Protocol[Told]):
    """What a hub reads, in a thread of its own; one call at a time."""

    @property
    def look_seconds(self) -> float:
        """How often it looks by itself."""

    @property
    def patience_seconds(self) -> float:
        """What changed is read after so long at the latest, also where that is more than the process can afford."""

    @property
    def minds_gaps(self) -> bool:
        """Whether it looks at once when the feed could not name all that changed."""

    def wants(self, identities: set[UUID]) -> set[UUID]:
        """Which of these changed executions and runs concern it."""

    def update(self, changed: set[UUID], *, looking: bool) -> Told | None:
        """What viewers are to be told now; None: nothing. looking: read more than what changed."""


@dataclass(frozen=True)
class Written:
    """A message for many: as JSON, and packed for those who can unpack it."""

    message: dict[str, Any]

    @cached_property
    def text(self) -> str:
        return json.dumps(self.message, ensure_ascii=False)

    @cached_property
    def packed(self) -> bytes | None:
        """By zlib; None where that gains little."""
        raw = self.text.encode()
        return zlib.compress(raw, _PACKING_LEVEL) if len(raw) > _LEAST_PACKED_BYTES else None


class Unread(Enum):
    """What viewers are told beside updates: whether the ledger can be read."""

    SILENT = "silent"
    HEARD = "heard"


class Viewer(Generic[U]):
    """One socket's place in a hub. A viewer that reads too slowly misses batches and is told to start over."""

    def __init__(self) -> None:
        self.updates: asyncio.Queue[U | Unread] = asyncio.Queue(_MOST_BATCHES_BEHIND)
        self.fell_behind = False

    def give(self, update: U | Unread) -> None:
        try:
            self.updates.put_nowait(update)
        except asyncio.QueueFull:
            self.fell_behind = True

    def forget_the_past(self) -> None:
        """Start over: a snapshot read after this holds all that was missed."""
        self.fell_behind = False
        while not self.updates.empty():
            self.updates.get_nowait()


class Hub(Generic[U]):
    """Reads one source for all its viewers in this process."""

    def __init__(self, source: Source[U], thread: ThreadPoolExecutor, pace: Pace | None = None) -> None:
        self.source = source
        self._thread = thread
        self._pace = pace or Pace()
        self._changed: set[UUID] = set()
        self._look_now = False
        self._stir = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.viewers: set[Viewer[U]] = set()
        self.started = asyncio.Event()
        self._snapshots: dict[Hashable, asyncio.Task[Any]] = {}
        self._written: dict[int, Written] = {}
        self.is_silent = False

    def start(self) -> None:
        self._running = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def hear(self, identities: set[UUID], *, left_out: bool) -> None:
        """The feed has told of these; left_out: and of more than it could name."""
        self._changed |= self.source.wants(identities)
        self._look_now = self._look_now or (left_out and self.source.minds_gaps)
        if self._changed or self._look_now:
            self._stir.set()

    async def read(self, reading: Callable[[], T]) -> T:
        """Run a database read in the hub's thread. Its connection goes back to where requests share a few."""

        def guarded() -> tuple[T, float]:
            began = time.thread_time()
            try:
                answer = reading()
            finally:
                connection.close()
            return answer, time.thread_time() - began

        answer, seconds = await asyncio.get_running_loop().run_in_executor(self._thread, guarded)
        self._pace.spend(seconds)
        return answer

    async def shared(self, key: Hashable, reading: Callable[[], T]) -> T:
        """As `read`; who asks alike before the hub has anything new to hand out gets the same answer. A snapshot that
        was read before an update was handed out is no snapshot for who came after it.
        """
        if key not in self._snapshots:
            self._snapshots[key] = asyncio.create_task(self.read(reading))
        found = self._snapshots[key]
        try:
            answer: T = await asyncio.shield(found)
        except Exception:
            if self._snapshots.get(key) is found:
                del self._snapshots[key]
            raise
        return answer

    def written(self, message: dict[str, Any]) -> Written:
        """The message as it is sent: written once for all who are sent this very one."""
        known = self._written.get(id(message))
        if known is None or known.message is not message:
            known = self._written[id(message)] = Written(message)
        return known

    async def _run(self) -> None:
        look_at = began = 0.0
        while True:
            await self._stirred(look_at)
            while (seconds := self._pace.wait_seconds(began, patience=self.source.patience_seconds)) > 0:
                await asyncio.sleep(seconds)
            began = time.monotonic()
            changed, self._changed = self._changed, set()
            looking = began >= look_at or self._look_now
            self._look_now = False
            late = asyncio.get_running_loop().call_later(_SILENT_SECONDS, self._tell, True)
            try:
                update = await self.read(partial(self.source.update, changed, looking=looking))
                self._tell(False)
                look_at = time.monotonic() + self.source.look_seconds if looking else look_at
                self._hand_out(update)
                self.started.set()
            except (DatabaseError, InterfaceError) as error:
                logger.warning("the console cannot read", extra={"action": "console.unread", "error": str(error)})
                self._changed |= changed
                self._look_now = looking
                self._tell(True)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            finally:
                late.cancel()
            await asyncio.sleep(min((_SHARE - 1) * (time.monotonic() - began), _LONGEST_REST_SECONDS))

    def _tell(self, is_silent: bool) -> None:
        """Tell viewers once when the ledger falls silent, and once when it is read again."""
        if is_silent is self.is_silent:
            return
        self.is_silent = is_silent
        for viewer in self.viewers:
            viewer.give(Unread.SILENT if is_silent else Unread.HEARD)

    async def _stirred(self, look_at: float) -> None:
        """Wait until something has changed, or it is time to look."""
        if not self._changed and not self._look_now:
            self._stir.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stir.wait(), max(0.0, look_at - time.monotonic()))

    def _hand_out(self, update: U | None) -> None:
        self._snapshots.clear()
        self._written.clear()
        if update is not None:
            self._pace.spend(SENDING_SECONDS * len(self.viewers))
            for viewer in self.viewers:
                viewer.give(update)


class _Process:
    """The hubs of one event loop, the tenants that they hear, and the threads in which they read."""

    def __init__(self) -> None:
        self.hubs: dict[Hashable, Hub[Any]] = {}
        self._of_tenant: dict[UUID, set[Hub[Any]]] = {}
        self._listening: dict[UUID, asyncio.Task[None]] = {}
        self._threads = [ThreadPoolExecutor(1, thread_name_prefix=f"console-hub-{n}") for n in range(_THREADS)]
        self._made = 0
        self._pace = Pace()

    def add(self, key: Hashable, tenant_id: UUID, source: Source[Any]) -> Hub[Any]:
        hub = self.hubs[key] = Hub(source, self._threads[self._made % _THREADS], self._pace)
        self._made += 1
        self._of_tenant.setdefault(tenant_id, set()).add(hub)
        if tenant_id not in self._listening:
            self._listening[tenant_id] = asyncio.create_task(self._listen(tenant_id))
        hub.start()
        return hub

    async def remove(self, key: Hashable, tenant_id: UUID) -> None:
        hub = self.hubs.pop(key)
        hubs = self._of_tenant[tenant_id]
        hubs.discard(hub)
        ending = [hub.stop()]
        if not hubs:
            del self._of_tenant[tenant_id]
            listening = self._listening.pop(tenant_id)
            listening.cancel()
            ending.append(_ended(listening))
        if not self.hubs:
            for thread in self._threads:
                thread.shutdown(wait=False)
            _processes.pop(id(asyncio.get_running_loop()), None)
        await asyncio.gather(*ending)

    async def _listen(self, tenant_id: UUID) -> None:
        async for batch in watch(tenant_id):
            identities = {UUID(bytes=identity) for identity in batch.ids}
            for hub in self._of_tenant.get(tenant_id, ()):
                hub.hear(identities, left_out=batch.left_out > 0)


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)


_processes: dict[int, _Process] = {}


def hubs() -> dict[Hashable, Hub[Any]]:
    """The hubs that somebody looks at, by their keys, in whatever event loop of this process."""
    return {key: hub for process in _processes.values() for key, hub in process.hubs.items()}


@contextlib.asynccontextmanager
async def joined(
    key: Hashable, tenant_id: UUID, make: Callable[[], Source[U]]
) -> AsyncIterator[tuple[Hub[U], Viewer[U]]]:
    """A place among the viewers of `key` in this process. When this begins, changes from now on will be seen.

    make: its source, if nobody looks yet.
    """
    process = _processes.setdefault(id(asyncio.get_running_loop()), _Process())
    hub = process.hubs.get(key) or process.add(key, tenant_id, make())
    viewer: Viewer[U] = Viewer()
    hub.viewers.add(viewer)
    try:
        await hub.started.wait()
        yield hub, viewer
    finally:
        hub.viewers.discard(viewer)
        if not hub.viewers and process.hubs.get(key) is hub:
            await process.remove(key, tenant_id)
