"""Both transports behind one handle, for tests that must hold on either."""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport import (
    CLASSES,
    Confirmation,
    Incoming,
    Outgoing,
    Publisher,
    Receiver,
    make_publisher,
    make_receiver,
)
from tests.waiting import PATIENCE_SECONDS, eventually

JOIN_SECONDS = PATIENCE_SECONDS


@dataclass
class Transport:
    """Makes publishers and receivers that share keys or topics of this test's own, and closes them all."""

    redis_url: str
    kafka_bootstrap_servers: str
    name: str = field(default_factory=lambda: "t" + secrets.token_hex(5))
    partitions: int = 2
    made: list[Publisher | Receiver] = field(default_factory=list)

    @property
    def is_kafka(self) -> bool:
        return bool(self.kafka_bootstrap_servers)

    @property
    def _parameters(self) -> dict[str, Any]:
        return {
            "redis_url": self.redis_url,
            "kafka_bootstrap_servers": self.kafka_bootstrap_servers,
            "redis_prefix": f"{self.name}:",
            "topic_prefix": f"{self.name}.",
        }

    def publisher(self) -> Publisher:
        publisher = make_publisher(**self._parameters)
        self.made.append(publisher)
        return publisher

    def receiver(self, worker_id: int) -> Receiver:
        receiver = make_receiver(worker_id, **self._parameters, kafka_partitions=self.partitions)
        self.made.append(receiver)
        return receiver

    def receivers(self, *worker_ids: int) -> list[Receiver]:
        """Receivers that have their inboxes, all of them together everything that there is."""
        receivers = [self.receiver(worker_id) for worker_id in worker_ids]
        self.settle(receivers)
        return receivers

    def settle(self, receivers: Sequence[Receiver]) -> None:
        def settled() -> bool:
            for receiver in receivers:
                assert take(receiver, 0.02, max_messages=0) == []
            inboxes = [receiver.inbox() for receiver in receivers]
            if not self.is_kafka:
                return all(inboxes)
            shares = Counter(part for inbox in inboxes if inbox for part in inbox["kafka"]["0"])
            return all(inboxes) and shares == Counter(range(self.partitions))

        eventually(settled, seconds=JOIN_SECONDS)

    def close(self) -> None:
        for each in self.made:
            each.close()


@contextmanager
def transport(redis_url: str, kafka_bootstrap_servers: str = "", *, partitions: int = 2) -> Iterator[Transport]:
    handle = Transport(redis_url, kafka_bootstrap_servers, partitions=partitions)
    try:
        yield handle
    finally:
        handle.close()


def take(receiver: Receiver, timeout_seconds: float = 0.05, *, max_messages: int = 100) -> list[Incoming]:
    """What a worker's loop does: a server that is away is nothing received."""
    try:
        return receiver.receive(timeout_seconds, max_messages=max_messages)
    except ServiceUnavailable:
        return []


def collect(
    receiver: Receiver, count: int, *, acknowledge: bool = True, seconds: float = PATIENCE_SECONDS
) -> list[Incoming]:
    """The next `count` messages, and none beyond them that is there already."""
    messages: list[Incoming] = []

    def enough() -> bool:
        received = take(receiver)
        if acknowledge:
            receiver.acknowledge(received)
        messages.extend(received)
        return len(messages) >= count

    eventually(enough, seconds=seconds, every=0.001)
    messages += take(receiver)
    return messages


def send(publisher: Publisher, inbox: Mapping[str, Any] | None, *bodies: bytes, to: str = "standard") -> None:
    """Publish, and wait until the server has all of it."""
    assert inbox is not None
    index = CLASSES.index(to)
    settle_confirmations(publisher, [publisher.publish(Outgoing(inbox, index, body, {"v": "1"})) for body in bodies])


def settle_confirmations(publisher: Publisher, confirmations: Sequence[Confirmation]) -> None:
    """Poll until none is pending; all must be confirmed."""
    publisher.flush_soon()
    eventually(lambda: are_settled(publisher, confirmations), every=0.001)
    assert [c.error for c in confirmations if c.state != "confirmed"] == []


def are_settled(publisher: Publisher, confirmations: Sequence[Confirmation]) -> bool:
    publisher.poll(0.01)
    return all(confirmation.state != "pending" for confirmation in confirmations)


def bodies(messages: Sequence[Incoming]) -> list[bytes]:
    return [message.body for message in messages]
