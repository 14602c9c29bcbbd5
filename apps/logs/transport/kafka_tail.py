"""A viewer's side of the topic: one partition, from where the shippers have committed, one execution picked out."""

import asyncio
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from apps.logs.records import Batch, Position
from apps.logs.transport.kafka import REQUEST_SECONDS, group_of, partition_of, partitions, topic_of
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.kafka_client import CONNECTION, log_error

QUIET_SECONDS = 0.3
"""A partition that has given nothing for so long has been read to its end."""
READ_BYTES = 1 << 20
_SETTINGS: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 2 * 1024,
    "error_cb": log_error,
}


class KafkaLogTail:
    """Reads forward only; `after` must not go back."""

    def __init__(self, bootstrap_servers: str, config: Config, execution: bytes) -> None:
        self._servers = bootstrap_servers
        self._config = config
        self._execution = execution
        self._consumer: Consumer | None = None

    def read(self, after: Position, *, ended: bool = False) -> list[Batch]:
        return self._collect(after, QUIET_SECONDS)

    async def follow(self, after: Position, seconds: float, *, ended: bool = False) -> list[Batch]:
        return await asyncio.to_thread(self._collect, after, seconds)

    async def close(self) -> None:
        if self._consumer is not None:
            await asyncio.to_thread(self._consumer.close)

    def _collect(self, after: Position, seconds: float) -> list[Batch]:
        found: list[Batch] = []
        size = 0
        try:
            consumer = self._consumer or self._open()
            until = SYSTEM_CLOCK.monotonic() + seconds
            while size < READ_BYTES:
                left = until - SYSTEM_CLOCK.monotonic()
                message = consumer.poll(0 if found else max(0.0, left))
                if message is None:
                    break
                if message.error() or message.key() != self._execution:
                    continue
                batch = Batch.unpack(message.value() or b"")
                if batch.behind(after) is not None:
                    found.append(batch)
                    size += len(batch.lines)
        except KafkaException as error:
            raise ServiceUnavailable(f"Kafka does not answer: {error}") from error
        return found

    def _open(self) -> Consumer:
        topic = topic_of(self._config)
        count = partitions(self._servers, topic, self._config.kafka_partitions)
        settings = {"bootstrap.servers": self._servers, **CONNECTION, **_SETTINGS, "group.id": group_of(self._config)}
        consumer = Consumer(settings)
        place = TopicPartition(topic, partition_of(self._execution, count))
        [committed] = consumer.committed([place], timeout=REQUEST_SECONDS)
        place.offset = committed.offset if committed.offset >= 0 else OFFSET_BEGINNING
        consumer.assign([place])  # assigned and not subscribed: it joins no group
        self._consumer = consumer
        return consumer
