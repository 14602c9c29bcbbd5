"""What viewers of one tenant are sent: read once a process, however many look.

A hub lives while somebody looks. It follows the tenant's feed, reads what changed at most every 250 ms, and looks at
the index by itself every two seconds: so a message that the feed lost is made good then, and due times come near.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, InterfaceError, connection

from apps.console import listing, rows, summary
from apps.executions.feed_watch import watch
from apps.executions.states import Status
from apps.tenants.principal import Principal
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

logger = logging.getLogger(__name__)

WINDOW_SECONDS = 0.25
LOOK_SECONDS = 2.0
_NEAR = timedelta(seconds=1)
"""Work is dispatched a moment before it is due."""
_MOST_BATCHES_BEHIND = 8
T = TypeVar("T")


@dataclass(frozen=True)
class Update:
    """rows: messages as rows.message makes them. index: None when only rows changed."""

    rows: list[dict[str, Any]]
    index: listing.Index | None
    tenant_slug: str
    _summaries: dict[Status | None, str] = field(default_factory=dict)

    def summary(self, chosen: Status | None) -> str | None:
        """The strip's HTML, made once for all viewers of the same page; None when there is no index."""
        if self.index is not None and chosen not in self._summaries:
            self._summaries[chosen] = summary.render(self.index, tenant_slug=self.tenant_slug, chosen=chosen)
        return self._summaries.get(chosen)


class Viewer:
    """One socket's place in the hub. A viewer that reads too slowly misses batches and is told to start over."""

    def __init__(self) -> None:
        self.updates: asyncio.Queue[Update] = asyncio.Queue(_MOST_BATCHES_BEHIND)
        self.fell_behind = False

    def give(self, update: Update) -> None:
        try:
            self.updates.put_nowait(update)
        except asyncio.QueueFull:
            self.fell_behind = True

    def forget_the_past(self) -> None:
        """Start over: a snapshot read after this holds all that was missed."""
        self.fell_behind = False
        while not self.updates.empty():
            self.updates.get_nowait()


class Hub:
    """Follows one tenant for all its viewers in this process."""

    def __init__(self, principal: Principal, clock: Clock = SYSTEM_CLOCK) -> None:
        self._principal = principal
        self._clock = clock
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="console-hub")
        self._changed: set[UUID] = set()
        self._known: dict[UUID, int] | None = None
        self._horizon = b""
        self._tasks: list[asyncio.Task[None]] = []
        self.viewers: set[Viewer] = set()
        self.started = asyncio.Event()

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._run())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        # Before the first await, so that a cancelled stop leaves no connection behind; looked up in the hub's
        # thread, since each thread has its own.
        self._executor.submit(lambda: connection.close())
        self._executor.shutdown(wait=False)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def read(self, reading: Callable[[], T]) -> T:
        """Run a database read in the hub's own thread. Its connection goes back to where requests share a few."""

        def guarded() -> T:
            try:
                return reading()
            finally:
                connection.close()

        return await asyncio.get_running_loop().run_in_executor(self._executor, guarded)

    async def _listen(self) -> None:
        async for batch in watch(self._principal.tenant_id):
            self._changed.update(UUID(bytes=identity) for identity in batch.ids)

    async def _run(self) -> None:
        look_at = 0.0
        while True:
            changed, self._changed = self._changed, set()
            looking = time.monotonic() >= look_at
            if changed or looking:
                try:
                    update = await self.read(partial(self._update, changed, looking=looking))
                    look_at = time.monotonic() + LOOK_SECONDS if looking else look_at
                    self._hand_out(update)
                    self.started.set()
                except (DatabaseError, InterfaceError) as error:
                    logger.warning("the console cannot read", extra={"action": "console.unread", "error": str(error)})
                    self._changed |= changed
                    await asyncio.sleep(1)
            await asyncio.sleep(WINDOW_SECONDS)

    def _hand_out(self, update: Update) -> None:
        if update.rows or update.index:
            for viewer in self.viewers:
                viewer.give(update)

    def _update(self, changed: set[UUID], *, looking: bool) -> Update:
        now = self._clock.now()
        index = None
        if looking:
            index = listing.read_index(self._principal, now=now)
            changed = changed | self._unseen(index)
        wanted = sorted(changed, reverse=True)[: listing.NEWEST]
        executions = listing.read(self._principal, wanted)
        presented = rows.present_all(self._principal, executions, now=now)
        if index is not None and index.horizon is not None:
            self._horizon = index.horizon
        slug = self._principal.tenant_slug
        # What is due later than all that is shown comes near soon enough; until then no page adds it.
        edge = max(self._horizon, listing.first_id(now + _NEAR).bytes)
        messages = [rows.message(row, slug, insert=row.id.bytes <= edge) for row in presented]
        if self._known is not None:
            self._known |= {row.id: row.version for row in presented if row.id.bytes <= edge}
        return Update(rows=messages, index=index, tenant_slug=slug)

    def _unseen(self, index: listing.Index) -> set[UUID]:
        """What the index shows in another version than was seen before; nothing at the first look."""
        entries = [*index.upcoming, *index.newest]
        known, self._known = self._known, {entry.id: entry.version for entry in entries}
        if known is None:
            return set()
        return {entry.id for entry in entries[: 3 * listing.SHOWN] if known.get(entry.id) != entry.version}


_hubs: dict[tuple[int, UUID], Hub] = {}


@contextlib.asynccontextmanager
async def joined(principal: Principal) -> AsyncIterator[tuple[Hub, Viewer]]:
    """A place among the tenant's viewers in this process. When this begins, changes from now on will be seen."""
    key = (id(asyncio.get_running_loop()), principal.tenant_id)
    hub = _hubs.get(key)
    if hub is None:
        hub = _hubs[key] = Hub(principal)
        hub.start()
    viewer = Viewer()
    hub.viewers.add(viewer)
    try:
        await hub.started.wait()
        yield hub, viewer
    finally:
        hub.viewers.discard(viewer)
        if not hub.viewers and _hubs.get(key) is hub:
            del _hubs[key]
            await hub.stop()
