"""What the Kafka producer and consumer have in common: how they connect, and how their errors are logged."""

import logging

from confluent_kafka import KafkaError

LOG = logging.getLogger(__name__)

CONNECTION = {
    "log_level": 2,  # the error callback says the same once; the client's own log repeats it with each reconnect
    "reconnect.backoff.ms": 200,
    "reconnect.backoff.max.ms": 1000,
    "socket.keepalive.enable": True,
    "allow.auto.create.topics": False,  # a topic made by the broker's own default has the wrong partitions
    "topic.metadata.refresh.interval.ms": 2000,  # how soon topics that were lost and made again are seen
}


def log_error(error: KafkaError) -> None:
    level = logging.DEBUG if error.code() == KafkaError._TRANSPORT else logging.WARNING  # one for each reconnect
    LOG.log(level, "Kafka: %s", error, extra={"action": "transport.error"})
