"""The log shipper: takes lines from the transport, keeps them in the storage, notes in the index where they are.

Save, note, settle, in this order: a shipper that dies anywhere in between is repeated by another, and what the index
has already is not noted twice, for lines have numbers. An object that nobody notes is deleted with its day. Copies
share the work.
"""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

import psycopg
from prometheus_client import Counter, Gauge

from apps.executions import ids, locks, usage
from apps.logs import index, objects, packing, partitions
from apps.logs.index import Attempt, End, NewChunk
from apps.logs.records import Batch
from apps.logs.transport import make_source
from apps.logs.transport.base import Load, LogSource
from chronoweb.runtime import faults, postgres
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock
from chronoweb.runtime.config import Config
from chronoweb.runtime.loop import Result, Stop

logger = logging.getLogger(__name__)

NAME = "logshipper"
_LOOK_SECONDS = 0.2
_RETENTION_SECONDS = 600.0

SHIPPED = Counter("chronoweb_log_shipped_lines_total", "Log lines kept and noted in the index")
SHIPPED_BYTES = Counter("chronoweb_log_shipped_bytes_total", "Bytes of JSON lines kept")
CHUNKS = Counter("chronoweb_log_chunks_total", "Chunks noted in the index")
REFUSED = Counter("chronoweb_log_chunks_refused_total", "Chunks of attempts that the ledger does not know")
LOST = Counter("chronoweb_log_lines_lost_total", "Log lines that the transport lost before they were shipped")
LAG = Gauge("chronoweb_log_shipper_lag_seconds", "How long the oldest lines have waited past their time to be shipped")


@dataclass
class LogShipper:
    """The daemon."""

    config: Config
    addresses: Addresses
    stop: Stop | None = None
    clock: Clock = SYSTEM_CLOCK
    name: str = NAME
    _source: LogSource | None = None
    _connection: psycopg.Connection | None = None
    _days: set[int] = field(default_factory=set)
    _cleaned_at: float = float("-inf")
    _sleep: threading.Event = field(default_factory=threading.Event)

    def run_once(self) -> Result:
        """Ship what waits; now and then forget what is too old."""
        if self._connection is None:
            self._connection = postgres.connect(NAME, url=self.addresses.database_url)
        if self._source is None:
            self._source = make_source(self.addresses, self.config)
        self._forget_old()
        loads = self._source.take()
        LAG.set(self._source.lag_seconds())
        if not loads:
            return Result(0, _LOOK_SECONDS)
        faults.point("logshipper.taken")
        known = self._ship(self._connection, loads)
        self._source.settle([(load, _kept(load, known)) for load in loads])
        faults.point("logshipper.settled")
        return Result(sum(len(load.batches) for load in loads), 0)

    def wait(self, seconds: float) -> None:
        (self.stop.requested if self.stop else self._sleep).wait(seconds)

    def reset(self) -> None:
        for one in (self._source, self._connection):
            if one is not None:
                one.close()
        self._source = self._connection = None
        self._days.clear()

    def close(self) -> None:
        self.reset()

    def _ship(self, connection: psycopg.Connection, loads: list[Load]) -> dict[Attempt, End]:
        """Keep and note what is new; how far each attempt is noted then."""
        attempts = sorted({(batch.execution, batch.token) for load in loads for batch in load.batches})
        if not attempts:
            return {}
        known = index.known_ends(connection, attempts)
        batches = packing.new_batches(loads, known)
        _count_lost(batches, known)
        for day, chunks in packing.keep(batches):
            partitions.ensure(connection, day, self._days)
            self._note(connection, day, chunks)
        return index.known_ends(connection, attempts)

    def _note(self, connection: psycopg.Connection, day: int, chunks: list[NewChunk]) -> None:
        try:
            added = index.add(connection, day, chunks)
        except psycopg.errors.UndefinedTable:
            if ids.day(chunks[0].execution) in self._days:
                self._days.clear()  # the partition was dropped under us: a log of a day that is too old
            added = {}
        faults.point("logshipper.noted")
        kept = [chunk for chunk in chunks if (chunk.execution, chunk.token, chunk.first) in added]
        SHIPPED.inc(sum(chunk.last - chunk.first + 1 for chunk in kept))
        SHIPPED_BYTES.inc(sum(chunk.bytes for chunk in kept))
        CHUNKS.inc(len(kept))
        _count_use(connection, day, kept, added)
        if not kept and chunks[0].name:
            objects.delete(chunks[0].name)
        if len(kept) < len(chunks):
            # Another shipper noted them first, or the ledger knows no such attempt; `_kept` tells the two apart.
            logger.info("chunks refused", extra={"action": "logshipper.refused", "chunks": len(chunks) - len(kept)})

    def _forget_old(self) -> None:
        """Drop whole days, index first: an object without a row harms nobody, and goes with its day.

        The lock lives in a session of its own, past any pooler: where sessions are lent by the transaction it would be
        taken in one and given back in another, and nobody would ever get it again.
        """
        now = self.clock.monotonic()
        if now - self._cleaned_at < _RETENTION_SECONDS:
            return
        self._cleaned_at = now
        url = self.addresses.database_direct_url
        with postgres.connect("logshipper-retention", url=url, direct=True, hot=False) as keeper:
            row = keeper.execute(
                "SELECT floor(extract(epoch FROM now()) / 86400)::int, pg_try_advisory_lock(%s, %s)",
                (locks.ROLE, locks.role_object("log retention")),
            ).fetchone()
            assert row is not None
            if row[1]:  # or another shipper sees to it
                self._drop_before(keeper, row[0] - self.config.log_days)

    def _drop_before(self, keeper: psycopg.Connection, first: int) -> None:
        dropped = partitions.drop_before(keeper, first)
        usage.drop_logs(keeper, first)
        self._days.difference_update(dropped)
        count = objects.delete_days_before(first)
        if dropped or count:
            logger.info(
                "old logs deleted", extra={"action": "logshipper.forgot", "days": len(dropped), "objects": count}
            )


def _count_use(
    connection: psycopg.Connection, day: int, kept: list[NewChunk], tenants: Mapping[tuple[bytes, int, int], bytes]
) -> None:
    """What was kept counts for the quotas of its tenants."""
    sums: dict[bytes, int] = {}
    for chunk in kept:
        tenant = tenants[chunk.execution, chunk.token, chunk.first]
        sums[tenant] = sums.get(tenant, 0) + chunk.length
    if sums:
        usage.add_logs(connection, day, sums)


def _kept(load: Load, known: dict[Attempt, End]) -> Batch | None:
    """The last batch of a load that need not be read again."""
    reached: Batch | None = None
    for batch in load.batches:
        end = known.get((batch.execution, batch.token), End(0, False))
        if end.ended or (end.last >= batch.last and not batch.ended):
            reached = batch
        elif end.last:
            break  # another shipper has noted a part of it
        else:
            REFUSED.inc()
            logger.warning(
                "log lines of an attempt that the ledger does not know were dropped",
                extra={"action": "logshipper.unknown", "execution": batch.execution.hex(), "token": batch.token},
            )
            reached = batch
    return reached


def _count_lost(batches: list[Batch], known: dict[Attempt, End]) -> None:
    reached = {attempt: end.last for attempt, end in known.items()}
    for batch in batches:
        attempt = batch.execution, batch.token
        missing = batch.first - 1 - reached.get(attempt, 0)
        if missing > 0:
            LOST.inc(missing)
            logger.warning(
                "the transport lost log lines",
                extra={"action": "logshipper.lost", "execution": batch.execution.hex(), "lines": missing},
            )
        reached[attempt] = batch.last


def build(config: Config, addresses: Addresses, stop: Stop) -> LogShipper:
    objects.close_to_others()
    return LogShipper(config, addresses, stop)
