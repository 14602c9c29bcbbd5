"""The live tail: server-sent events, one for each line, from any line on, through any web process.

    id: <token>-<sequence>        what the browser sends back as Last-Event-ID
    data: <the JSON line>

A comment comes when nothing else has for some seconds. `event: end` comes once an attempt has ended and nothing is
about to run; the connection then ends. A connection that has carried CONNECTION_BYTES ends without it: browsers
connect again and go on behind the last line, and memory for a viewer that does not read is bounded. One whose viewer
may not look any more ends likewise.
"""

import asyncio
import json
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from django.db import close_old_connections
from django.http import StreamingHttpResponse
from prometheus_client import Gauge

from apps.executions.models import Execution
from apps.logs import reading
from apps.logs.records import Batch, Position
from apps.logs.transport import LogTail
from apps.tenants.onlookers import RECHECK_SECONDS, place
from apps.tenants.principal import Principal
from chronoweb.runtime import statement_limit
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.errors import ServiceUnavailable

T = TypeVar("T")

FOLLOW_SECONDS = 0.5
LOOK_SECONDS = 1.0
CALM_LOOK_SECONDS = 4.0
"""While an attempt runs and shows nothing for long; its end comes by the transport, unless its worker was lost."""
HEARTBEAT_SECONDS = 10.0
SILENT_SECONDS = 2.0
"""After so long an attempt that has shown no line is believed to have none."""
UNSAID_SECONDS = 60.0
"""So long the last words of an attempt that has shown lines are waited for; they may be held up by a full transport."""
AWAY_SECONDS = 0.5
CONNECTION_BYTES = 64 << 20
RETRY_MS = 500

VIEWERS = Gauge("chronoweb_log_viewers", "Live views of logs that this process serves")
_threads = ThreadPoolExecutor(4, thread_name_prefix="log tail")
"""Reading for viewers must not hold up requests, which Django runs on one thread."""


def respond(
    principal: Principal,
    execution: Execution,
    tail: LogTail,
    after: Position,
    *,
    may_look: Callable[[], bool],
    grouped: bool = False,
) -> StreamingHttpResponse:
    """grouped: events carry many lines each, a JSON line in each data line. may_look: asks the database again.

    Raises NoPlace.
    """
    taken = ExitStack()
    taken.enter_context(place(principal))
    stream = Stream(principal, execution, tail, after, may_look=may_look, grouped=grouped)
    answer = StreamingHttpResponse(stream.events(), content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    answer._resource_closers.append(taken.close)  # type: ignore[attr-defined]
    weakref.finalize(answer, taken.close)  # an answer that nobody waited for is never closed
    return answer


class Stream:
    """One viewer."""

    def __init__(
        self,
        principal: Principal,
        execution: Execution,
        tail: LogTail,
        after: Position,
        *,
        may_look: Callable[[], bool] = lambda: True,
        grouped: bool = False,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._principal = principal
        self._execution = execution
        self._tail = tail
        self._grouped = grouped
        self._clock = clock
        self.after = after
        self._ended: set[int] = set()
        """Tokens whose end was said."""
        self._seen: set[int] = {after.token}
        self._looked_at = float("-inf")
        self._look_seconds = LOOK_SECONDS
        self._may_look = may_look
        self._asked_at = clock.monotonic()
        self._sent_at = clock.monotonic()
        self._sent = 0

    async def events(self) -> AsyncIterator[bytes]:
        """Until the end, or until nobody listens."""
        VIEWERS.inc()
        try:
            yield f"retry: {RETRY_MS}\n\n".encode()
            async for data in self._all():
                self._sent += len(data)
                self._sent_at = self._clock.monotonic()
                yield data
                if self._sent > CONNECTION_BYTES:
                    return
        finally:
            VIEWERS.dec()
            await asyncio.shield(self._tail.close())

    async def _all(self) -> AsyncIterator[bytes]:
        async for data in self._kept():
            yield data
        while True:
            try:
                waiting = await self._tail.follow(self.after, FOLLOW_SECONDS, ended=self.after.token in self._ended)
            except ServiceUnavailable:
                await asyncio.sleep(AWAY_SECONDS)
                waiting = []
            if waiting and not reading.follows(self.after, waiting[0]):
                async for data in self._kept():
                    yield data
            for batch in waiting:
                for data in self._show(batch):
                    yield data
            now = self._clock.monotonic()
            if now - self._asked_at >= RECHECK_SECONDS:
                self._asked_at = now
                if not await in_thread(self._may_look):
                    return
            if waiting:
                self._look_seconds = LOOK_SECONDS
            elif now - self._looked_at >= self._look_seconds:
                self._looked_at = now
                standing = await in_thread(self._standing)
                calm = not standing.over and self.after.token not in self._ended
                self._look_seconds = min(2 * self._look_seconds, CALM_LOOK_SECONDS) if calm else LOOK_SECONDS
                async for data in self._kept():  # what came and was shipped between two looks
                    yield data
                if self._is_over(standing):
                    yield self._end(standing)
                    return
            if now - self._sent_at >= HEARTBEAT_SECONDS:
                yield b": still here\n\n"

    def _standing(self) -> reading.Standing:
        return reading.standing(self._principal, self._execution.id, now=self._clock.now())

    async def _kept(self) -> AsyncIterator[bytes]:
        """What the index has behind the last line; a chunk at a time."""
        rows = reading.chunks(self._principal, self._execution, self.after)
        while (batch := await in_thread(lambda: _next(rows))) is not None:
            for data in self._show(batch):
                yield data

    def _show(self, batch: Batch) -> Iterator[bytes]:
        if batch.ended:
            self._ended.add(batch.token)
        rest = batch.behind(self.after)
        if rest is None or not rest.lines:
            return
        self.after = rest.position
        self._seen.add(rest.token)
        if self._grouped:
            lines = rest.lines[:-1].replace(b"\n", b"\ndata: ")
            yield b"event: lines\nid: %s\ndata: %s\n\n" % (str(rest.position).encode(), lines)
        else:
            yield b"".join(b"id: %s\ndata: %s\n\n" % (str(p).encode(), line) for p, line in rest.numbered())

    def _is_over(self, standing: reading.Standing) -> bool:
        if not standing.over:
            return False
        if standing.token == 0 or standing.token in self._ended:
            return True
        patience = UNSAID_SECONDS if standing.token in self._seen and not standing.silent else SILENT_SECONDS
        return standing.since_seconds > patience

    def _end(self, standing: reading.Standing) -> bytes:
        told = {"status": standing.status.word, "attempt": standing.attempt, "last": str(self.after)}
        return b"event: end\ndata: %s\n\n" % json.dumps(told).encode()


def _next(rows: Iterator[Any]) -> Batch | None:
    row = next(rows, None)
    return None if row is None else reading.load(row)


async def in_thread(act: Callable[[], T]) -> T:
    """Run on a thread of this module's own: what is streamed may take longer than a request."""

    def run() -> T:
        try:
            with statement_limit.unlimited():
                return act()
        finally:
            close_old_connections()

    return await asyncio.get_running_loop().run_in_executor(_threads, run)
