"""What carries log lines: Redis streams, or the Kafka topic `<prefix>logs` where bootstrap servers are named."""

from apps.logs.transport.base import Load, LogPublisher, LogSource, LogTail, Taken
from apps.logs.transport.redis_streams import RedisLogPublisher, RedisLogSource, RedisLogTail
from chronoweb.runtime import redis_client
from chronoweb.runtime.addresses import Addresses
from chronoweb.runtime.config import Config

__all__ = ["Load", "LogPublisher", "LogSource", "LogTail", "Taken", "make_publisher", "make_source", "make_tail"]


def make_publisher(addresses: Addresses, config: Config) -> LogPublisher:
    """The worker's side."""
    if not addresses.kafka_bootstrap_servers:
        return RedisLogPublisher(redis_client.connect(addresses.redis_url), config)
    # Imported here so that installations without Kafka do not load its C library into every process.
    from apps.logs.transport.kafka import KafkaLogPublisher

    return KafkaLogPublisher(addresses.kafka_bootstrap_servers, config)


def make_source(addresses: Addresses, config: Config) -> LogSource:
    """The shipper's side."""
    if not addresses.kafka_bootstrap_servers:
        return RedisLogSource(redis_client.connect(addresses.redis_url), config)
    from apps.logs.transport.kafka import KafkaLogSource

    return KafkaLogSource(addresses.kafka_bootstrap_servers, config)


def make_tail(addresses: Addresses, config: Config, execution: bytes) -> LogTail:
    """A viewer's side."""
    if not addresses.kafka_bootstrap_servers:
        return RedisLogTail(addresses.redis_url, config, execution)
    from apps.logs.transport.kafka_tail import KafkaLogTail

    return KafkaLogTail(addresses.kafka_bootstrap_servers, config, execution)
