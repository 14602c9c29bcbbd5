"""Log lines in Kafka: the topic `<prefix>logs`, keyed by execution, so that one partition has all of an execution.

Order is the point: the producer has one request in flight and repeats it until it is answered, so a batch is never
overtaken by the next one. The topic is bounded by the broker's retention; offsets are committed once what was read is
in the index.
"""

import zlib
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from apps.logs.records import Batch
from apps.logs.transport.base import Load, Taken
from chronoweb.runtime.clock import SYSTEM_CLOCK
from chronoweb.runtime.config import Config
from chronoweb.runtime.errors import ServiceUnavailable
from chronoweb.runtime.transport.kafka_client import CONNECTION, log_error

REQUEST_SECONDS = 5.0
PUBLISH_SECONDS = 10.0
FETCH_SECONDS = 0.1
PASS_BYTES = 2 << 20
MESSAGES = 500
RETENTION_BYTES = 256 << 20
RETENTION_MS = 86_400_000
MESSAGE_BYTES = 4 << 20
"""One line of control characters alone is six times as long in JSON."""
_EXISTS = KafkaError.TOPIC_ALREADY_EXISTS

_PRODUCER: dict[str, Any] = {
    "acks": "all",
    "linger.ms": 5,
    "enable.idempotence": False,  # an idempotent producer does not outlast a broker that came back empty
    "max.in.flight.requests.per.connection": 1,
    "message.timeout.ms": 0,
    "message.max.bytes": MESSAGE_BYTES,
    "queue.buffering.max.kbytes": 16 * 1024,
}
_CONSUMER: dict[str, Any] = {
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "session.timeout.ms": 6000,
    "heartbeat.interval.ms": 2000,
    "fetch.wait.max.ms": 50,
    "queued.max.messages.kbytes": 8 * 1024,
}


def topic_of(config: Config) -> str:
    return f"{config.kafka_prefix}logs"


def group_of(config: Config) -> str:
    return f"{config.kafka_prefix}logshippers"


def partition_of(execution: bytes, count: int) -> int:
    """The same for writers and for viewers, who read one partition."""
    return zlib.crc32(execution) % count


def partitions(bootstrap_servers: str, topic: str, wanted: int) -> int:
    """How many partitions the topic has; it is made if it is not there. Raises ServiceUnavailable."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "socket.timeout.ms": 5000})
    settings = {"retention.ms": str(RETENTION_MS), "retention.bytes": str(RETENTION_BYTES)}
    settings["max.message.bytes"] = str(MESSAGE_BYTES)
    new = NewTopic(topic, num_partitions=wanted, replication_factor=-1, config=settings)
    try:
        try:
            admin.create_topics([new], request_timeout=REQUEST_SECONDS)[topic].result(REQUEST_SECONDS)
        except KafkaException as error:
            if error.args[0].code() != _EXISTS:
                raise
        found = admin.list_topics(topic, timeout=REQUEST_SECONDS).topics[topic].partitions
    except (KafkaException, TimeoutError, KeyError) as error:
        raise ServiceUnavailable(f"Kafka does not tell the partitions of {topic}: {error}") from error
    return len(found) or wanted


class KafkaLogPublisher:
    """Sends batches and waits for their delivery; a broker that is away takes the same ones again."""

    def __init__(self, bootstrap_servers: str, config: Config) -> None:
        self._servers = bootstrap_servers
        self._topic = topic_of(config)
        self._wanted = config.kafka_partitions
        self._count = 0
        self._producer: Producer | None = None
        self._sent: dict[tuple[bytes, int, int, bool], Taken | None] = {}
        """What the producer has and what became of it: None while that is open."""

    def publish(self, batches: Sequence[Batch]) -> list[Taken]:
        if self._producer is None:
            self._count = partitions(self._servers, self._topic, self._wanted)
            settings = {"bootstrap.servers": self._servers, **CONNECTION, **_PRODUCER, "error_cb": log_error}
            self._producer = Producer(settings)
        keys = [(batch.execution, batch.token, batch.last, batch.ended) for batch in batches]
        for key, batch in zip(keys, batches, strict=True):
            if key not in self._sent:  # else it is still on its way
                self._produce(self._producer, key, batch)
        self._producer.flush(PUBLISH_SECONDS)
        answers = [self._sent.get(key) or Taken.NOT_NOW for key in keys]
        self._sent = {key: state for key, state in self._sent.items() if state is None}
        return answers

    def _produce(self, producer: Producer, key: tuple[bytes, int, int, bool], batch: Batch) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            self._sent[key] = Taken.YES if error is None else _failure(error)

        self._sent[key] = None
        try:
            producer.produce(
                self._topic,
                value=batch.pack(),
                key=batch.execution,
                partition=partition_of(batch.execution, self._count),
                on_delivery=delivered,
            )
        except KafkaException as error:
            self._sent[key] = _failure(error.args[0])
        except BufferError:
            self._sent[key] = Taken.NOT_NOW

    def close(self) -> None:
        if self._producer is not None:
            self._producer.flush(1.0)
            self._producer.purge()
            self._producer = None


class KafkaLogSource:
    """A member of the shippers' group. What it has read waits until there is enough of it, or it is old enough."""

    def __init__(self, bootstrap_servers: str, config: Config) -> None:
        self._topic = topic_of(config)
        self._wait_seconds = config.log_ship_seconds
        partitions(bootstrap_servers, self._topic, config.kafka_partitions)
        settings = {"bootstrap.servers": bootstrap_servers, **CONNECTION, **_CONSUMER, "error_cb": log_error}
        self._consumer = Consumer({**settings, "group.id": group_of(config)})
        self._consumer.subscribe([self._topic], on_revoke=self._on_revoke, on_lost=self._on_revoke)
        self._waiting: dict[int, list[tuple[int, Batch]]] = {}
        self._bytes = 0
        self._since = 0.0

    def take(self) -> list[Load]:
        try:
            self._fetch()
        except KafkaException as error:
            raise ServiceUnavailable(f"the topic {self._topic} cannot be read: {error}") from error
        old = bool(self._waiting) and SYSTEM_CLOCK.monotonic() - self._since >= self._wait_seconds
        if not (old or self._bytes >= PASS_BYTES):
            return []
        executions: dict[bytes, list[tuple[int, int, Batch]]] = {}
        for partition, entries in self._waiting.items():
            for offset, batch in entries:
                executions.setdefault(batch.execution, []).append((partition, offset, batch))
        return [Load(execution, [batch for _, _, batch in found]) for execution, found in executions.items()]

    def _fetch(self) -> None:
        wait = FETCH_SECONDS
        for _ in range(MESSAGES):
            if self._bytes >= PASS_BYTES:
                return
            message = self._consumer.poll(wait)
            wait = 0
            if message is None:
                return
            if (error := message.error()) is not None:
                log_error(error)
                continue
            self._keep(message)

    def _keep(self, message: Message) -> None:
        try:
            batch = Batch.unpack(message.value() or b"")
        except ValueError:
            return  # not ours; the next commit passes over it
        if not self._waiting:
            self._since = SYSTEM_CLOCK.monotonic()
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._waiting.setdefault(partition, []).append((offset, batch))
        self._bytes += len(batch.lines)

    def settle(self, shipped: Sequence[tuple[Load, Batch | None]]) -> None:
        """Commit behind the unbroken run of what is settled, a partition at a time; the rest is offered again."""
        done = {id(batch) for load, last in shipped if last is not None for batch in _upto(load, last)}
        commits = []
        for partition, entries in list(self._waiting.items()):
            count = next((n for n, (_, batch) in enumerate(entries) if id(batch) not in done), len(entries))
            if count:
                commits.append(TopicPartition(self._topic, partition, entries[count - 1][0] + 1))
                self._bytes -= sum(len(batch.lines) for _, batch in entries[:count])
                del entries[:count]
            if not entries:
                del self._waiting[partition]
        if commits:
            try:
                self._consumer.commit(offsets=commits, asynchronous=False)
            except KafkaException as error:
                # Whoever gets these partitions reads again what the index has, and passes over it.
                log_error(error.args[0])

    def lag_seconds(self) -> float:
        return max(0.0, SYSTEM_CLOCK.monotonic() - self._since - self._wait_seconds) if self._waiting else 0.0

    def _on_revoke(self, _consumer: Consumer, revoked: list[TopicPartition]) -> None:
        for one in revoked:
            gone = self._waiting.pop(one.partition, [])
            self._bytes -= sum(len(batch.lines) for _, batch in gone)

    def close(self) -> None:
        self._consumer.close()


def _failure(error: KafkaError) -> Taken:
    return Taken.NEVER if error.code() == KafkaError.MSG_SIZE_TOO_LARGE else Taken.NOT_NOW


def _upto(load: Load, last: Batch) -> list[Batch]:
    position = next(n for n, batch in enumerate(load.batches) if batch is last)
    return list(load.batches[: position + 1])
