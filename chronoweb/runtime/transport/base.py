"""What every transport promises: publish to a worker's inbox, receive from one's own, acknowledge.

A transport carries notices that work was dispatched; the ledger stays the truth. So delivery is at least once
and may fail: a message can come twice (the reader must know what it already holds, fencing tokens do the rest)
or never (the ledger's claim deadline takes the work back).

Publishers and receivers belong to one thread each; only `Receiver.inbox` may be called from another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

CLASSES = ("critical", "standard", "bulk")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message for one worker.

    inbox: what the worker's `Receiver.inbox` said, possibly after a trip through JSON.
    class_index: index into CLASSES.
    """

    inbox: Mapping[str, Any]
    class_index: int
    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message as it was published; `receipt` means something to the receiver that returned it only."""

    class_index: int
    body: bytes
    headers: Mapping[str, str]
    receipt: Any


class Confirmation:
    """What became of one published message.

    `confirmed`: the server has it. `failed`: nobody knows that it has it; when the connection broke between
    the server's write and its answer, the message may still be delivered.
    """

    __slots__ = ("error", "state")

    def __init__(self) -> None:
        self.state: Literal["pending", "confirmed", "failed"] = "pending"
        self.error: Exception | None = None

    def confirm(self) -> None:
        self.state = "confirmed"

    def fail(self, error: Exception) -> None:
        self.state = "failed"
        self.error = error


class Publisher(Protocol):
    """The dispatcher's side. Nothing here raises for a server that is away: confirmations fail instead."""

    def publish(self, message: Outgoing) -> Confirmation:
        """Take the message without waiting for the server."""

    def flush_soon(self) -> None:
        """Send what is buffered: the end of a tick."""

    def poll(self, timeout_seconds: float) -> None:
        """Let confirmations progress, waiting at most this long for one."""

    def close(self) -> None:
        """Send what is left, for a few seconds at most; what is not confirmed then has failed. Idempotent."""


class Receiver(Protocol):
    """The worker's side. `receive` wants to be called at least every few seconds, also by a full worker."""

    def inbox(self) -> Mapping[str, Any] | None:
        """The address that publishers need, small and JSON-able; None while there is none. Any thread may ask."""

    def receive(self, timeout_seconds: float, *, max_messages: int) -> list[Incoming]:
        """Up to `max_messages`, critical ones first; waits at most `timeout_seconds` for the first one.

        `max_messages=0` takes nothing but keeps the membership alive. May return nothing before the timeout.
        Raises ServiceUnavailable while the server is away; the next call tries again.
        """

    def acknowledge(self, messages: Sequence[Incoming]) -> None:
        """These need not come again. Never raises for a server that is away: then they may come again."""

    def stop_receiving(self) -> None:
        """Give the inbox up (a draining worker): `inbox` is None and `receive` empty from now on. Idempotent."""

    def close(self) -> None:
        """Let go of the server. What was not acknowledged stays unacknowledged. Idempotent."""
