"""What carries dispatched work to workers' inboxes: Redis streams, or Kafka where bootstrap servers are named."""

from chronoweb.runtime.transport.base import CLASSES, Confirmation, Incoming, Outgoing, Publisher, Receiver
from chronoweb.runtime.transport.redis_streams import RedisPublisher, RedisReceiver

__all__ = [
    "CLASSES",
    "Confirmation",
    "Incoming",
    "Outgoing",
    "Publisher",
    "Receiver",
    "make_publisher",
    "make_receiver",
]

DEFAULT_PARTITIONS = 16


def make_publisher(
    *,
    redis_url: str,
    kafka_bootstrap_servers: str = "",
    redis_prefix: str = "chronoweb:",
    topic_prefix: str = "chronoweb.",
) -> Publisher:
    """The publishing side. Does not connect yet: the first message does.

    kafka_bootstrap_servers: "host:port,…"; empty chooses Redis streams.
    """
    if not kafka_bootstrap_servers:
        return RedisPublisher(url=redis_url, prefix=redis_prefix)
    # Imported here so that installations without Kafka do not load its C library into every process.
    from chronoweb.runtime.transport.kafka_publisher import KafkaPublisher
    from chronoweb.runtime.transport.kafka_topics import topic_names

    return KafkaPublisher(bootstrap_servers=kafka_bootstrap_servers, topics=topic_names(topic_prefix))


def make_receiver(
    worker_id: int,
    *,
    redis_url: str,
    kafka_bootstrap_servers: str = "",
    redis_prefix: str = "chronoweb:",
    topic_prefix: str = "chronoweb.",
    kafka_partitions: int = DEFAULT_PARTITIONS,
) -> Receiver:
    """The receiving side of one worker process; parameters as for `make_publisher`.

    worker_id: the id of this process's row in `workers`, never used by another process.
    kafka_partitions: of each topic that has to be made; at least as many as there will ever be workers at once.
    """
    if not kafka_bootstrap_servers:
        return RedisReceiver(worker_id, url=redis_url, prefix=redis_prefix)
    from chronoweb.runtime.transport.kafka import KafkaReceiver
    from chronoweb.runtime.transport.kafka_topics import Topics

    return KafkaReceiver(
        worker_id,
        bootstrap_servers=kafka_bootstrap_servers,
        topics=Topics(kafka_bootstrap_servers, prefix=topic_prefix, partitions=kafka_partitions),
        group=f"{topic_prefix}workers",
    )
