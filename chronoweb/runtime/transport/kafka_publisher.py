"""Publishing to Kafka: a message goes to one of the partitions that are the worker's inbox.

`enable.idempotence` stays off: fencing tokens make duplicates harmless, and an idempotent producer does not
recover from a broker that lost its data.
"""

import logging
from collections.abc import Sequence
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.base import Confirmation, Outgoing
from chronoweb.runtime.transport.kafka_client import CONNECTION, log_error

LOG = logging.getLogger(__name__)

CLOSE_TIMEOUT_SECONDS = 5.0

_PRODUCER = {
    "acks": "all",
    "linger.ms": 0,
    "enable.idempotence": False,
    "message.timeout.ms": 5000,
    "queue.buffering.max.messages": 200_000,
}


class KafkaPublisher:
    """Delivery reports, which arrive in `poll`, become confirmations.

    It makes no topics: whoever reads an inbox does, and without a reader there is no address to publish to.
    """

    def __init__(self, *, bootstrap_servers: str, topics: Sequence[str]) -> None:
        self._topics = topics
        settings = {"bootstrap.servers": bootstrap_servers, **CONNECTION, **_PRODUCER}
        self._producer = Producer({**settings, "error_cb": log_error}, logger=LOG)
        self._turn = 0
        self._closed = False

    def publish(self, message: Outgoing) -> Confirmation:
        confirmation = Confirmation()
        partitions = message.inbox.get("kafka", {}).get(str(message.class_index))
        if self._closed or not partitions:
            reason = "the publisher is closed" if self._closed else f"no partitions in {message.inbox!r}"
            confirmation.fail(ServiceUnavailable(f"Not published: {reason}"))
            return confirmation
        self._turn += 1
        try:
            self._producer.produce(
                self._topics[message.class_index],
                value=message.body,
                partition=partitions[self._turn % len(partitions)],
                headers=[(name, value.encode()) for name, value in message.headers.items()],
                on_delivery=partial(_delivered, confirmation),
            )
        except (BufferError, KafkaException) as error:
            confirmation.fail(ServiceUnavailable(f"The Kafka producer refused the message: {error}"))
        return confirmation

    def flush_soon(self) -> None:
        self._producer.poll(0)

    def poll(self, timeout_seconds: float) -> None:
        self._producer.poll(timeout_seconds)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._producer.flush(CLOSE_TIMEOUT_SECONDS):
            self._producer.purge()
            self._producer.flush(CLOSE_TIMEOUT_SECONDS)


def _delivered(confirmation: Confirmation, error: KafkaError | None, _message: Message) -> None:
    if error is None:
        confirmation.confirm()
    else:
        confirmation.fail(ServiceUnavailable(f"The broker did not take the message: {error}"))
