"""What carries log lines from workers to the shipper and to whoever looks on: keyed by execution, in order, bounded.

Batches of one execution keep their order; a batch may come twice and is known by its position. What was taken stays
until it has been shipped. Nothing here touches PostgreSQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from apps.logs.records import Batch, Position


class Taken(Enum):
    """What became of a batch that was offered."""

    YES = "yes"
    NOT_NOW = "not now"
    """There is no room until the shipper has made some: offer it again."""
    FENCED = "fenced"
    """A newer attempt of the execution has written already: what an older one says now is dropped."""
    NEVER = "never"
    """The server refuses a message of this size."""


class LogPublisher(Protocol):
    """The worker's side; one thread uses it."""

    def publish(self, batches: Sequence[Batch]) -> list[Taken]:
        """Offer batches, of each execution one at a time. Raises ServiceUnavailable: none is known to be taken."""

    def close(self) -> None:
        """Let go of the server. Idempotent."""


@dataclass(frozen=True, slots=True)
class Load:
    """What waits to be shipped of one execution, in order. receipt: means something to its source."""

    execution: bytes
    batches: Sequence[Batch]
    receipt: Any = None


class LogSource(Protocol):
    """The shipper's side; several shippers share what waits."""

    def take(self) -> list[Load]:
        """What should be shipped now, some megabytes at most. What is not settled comes again, maybe to another."""

    def settle(self, shipped: Sequence[tuple[Load, Batch | None]]) -> None:
        """Of each load, the last batch that need not come again, with all before it; None: all must come again."""

    def lag_seconds(self) -> float:
        """How long the oldest thing that should be shipped has waited."""

    def close(self) -> None:
        """Let go of the server. Idempotent."""


class LogTail(Protocol):
    """One viewer's side of one execution: what has not been shipped yet."""

    def read(self, after: Position, *, ended: bool = False) -> list[Batch]:
        """What waits behind `after`, a megabyte or so of it; empty if nothing does. Does not wait.

        ended: whether the end of the attempt that `after` is in is known already; else that may come again.
        """

    async def follow(self, after: Position, seconds: float, *, ended: bool = False) -> list[Batch]:
        """The same, but waits up to `seconds` for something to come."""

    async def close(self) -> None:
        """Let go of the server."""
