"""Execution ids: UUIDv7 whose 48-bit timestamp is scheduled_at, so that an id alone names its day's partition."""

import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

MILLISECONDS_A_DAY = 86_400_000
SHARDS = 16
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
LATEST = datetime(2200, 1, 1, tzinfo=UTC)
"""Ids outside these years name no partition that ever existed: a lookup answers 404 without asking the database."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def new_id(scheduled_ms: int, entropy: bytes | None = None, *, of: bytes | None = None) -> bytes:
    """16 bytes of a UUIDv7 for an execution scheduled at `scheduled_ms` (ms since the epoch, UTC).

    entropy: 10 random bytes, for callers that draw many at once. of: the task's id; its mark takes the place of the
    first 12 random bits, 62 are left.
    """
    r = entropy or os.urandom(10)
    if of is not None:
        r = of[14:16] + r[2:]
    return scheduled_ms.to_bytes(6, "big") + bytes((0x70 | (r[0] & 15), r[1], 0x80 | (r[2] & 0x3F))) + r[3:10]


def new_ids(scheduled_ms: Iterable[int], *, of: bytes | None = None) -> list[bytes]:
    """One id for each instant (ms since the epoch); the randomness is drawn in one system call. of: as in new_id."""
    instants = list(scheduled_ms)
    random = os.urandom(10 * len(instants))
    return [new_id(ms, random[10 * n : 10 * n + 10], of=of) for n, ms in enumerate(instants)]


def task_mark(identity: bytes) -> int:
    """12 bits that executions of a task share; other tasks may have the same. A hint for routing, never a key."""
    return (identity[6] & 15) << 8 | identity[7]


def milliseconds(identity: bytes) -> int:
    """scheduled_at in ms since the epoch."""
    return int.from_bytes(identity[:6], "big")


def scheduled_at(identity: UUID | bytes) -> datetime | None:
    """scheduled_at of the id, aware UTC; None if no execution can have this id."""
    raw = identity.bytes if isinstance(identity, UUID) else identity
    instant = milliseconds(raw)
    if not to_ms(EARLIEST) <= instant < to_ms(LATEST):
        return None
    return from_ms(instant)


def lowest(instant: datetime) -> UUID:
    """A bound for ranges: every id scheduled at `instant` or later is at least this, every earlier one is less."""
    return UUID(bytes=to_ms(instant).to_bytes(6, "big") + bytes(10))


def shard(identity: bytes) -> int:
    """The hot tier's shard of an id: its last four bits, which are random."""
    return identity[15] & (SHARDS - 1)


def day(identity: bytes) -> int:
    """Days since the epoch (UTC) of scheduled_at: which partition the row is in."""
    return milliseconds(identity) // MILLISECONDS_A_DAY


def by_day(identities: list[bytes]) -> Iterator[tuple[int, list[int]]]:
    """Group by partition: (day, positions in `identities`). Mostly there is one group; that case costs little."""
    if not identities:
        return
    first = day(identities[0])
    if all(day(i) == first for i in identities):
        yield first, list(range(len(identities)))
        return
    groups: dict[int, list[int]] = {}
    for position, identity in enumerate(identities):
        groups.setdefault(day(identity), []).append(position)
    yield from sorted(groups.items())


def to_ms(instant: datetime) -> int:
    """Whole milliseconds since the epoch; what is below a millisecond is cut off."""
    return (instant - _EPOCH) // timedelta(milliseconds=1)


def to_us(instant: datetime) -> int:
    """Microseconds since the epoch."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


def from_ms(milliseconds_since_epoch: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds_since_epoch)


def from_us(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def day_of(instant: datetime) -> int:
    return to_ms(instant) // MILLISECONDS_A_DAY


def new_uuid7(clock_ms: int) -> UUID:
    """A UUIDv7 for rows that are not executions (tenants, tasks, DAGs)."""
    return UUID(bytes=new_id(clock_ms))
