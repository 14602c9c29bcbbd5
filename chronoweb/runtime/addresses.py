"""Where PostgreSQL, Redis and Kafka are: the environment's word, else the embedded services that run beside us."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chronoweb.runtime import transport
from chronoweb.runtime.config import Config


@dataclass(frozen=True)
class Addresses:
    """Addresses; an empty string means that the service is not named anywhere."""

    database_url: str
    database_direct_url: str
    redis_url: str
    kafka_bootstrap_servers: str

    def publisher(self, config: Config) -> transport.Publisher:
        """The dispatcher's side of the transport that these addresses choose."""
        return transport.make_publisher(
            redis_url=self.redis_url,
            kafka_bootstrap_servers=self.kafka_bootstrap_servers,
            redis_prefix=config.redis_prefix,
            topic_prefix=config.kafka_prefix,
        )

    def receiver(self, worker_id: int, config: Config) -> transport.Receiver:
        """The side of one worker."""
        return transport.make_receiver(
            worker_id,
            redis_url=self.redis_url,
            kafka_bootstrap_servers=self.kafka_bootstrap_servers,
            redis_prefix=config.redis_prefix,
            topic_prefix=config.kafka_prefix,
            kafka_partitions=config.kafka_partitions,
        )


def configured() -> Addresses:
    """The running process's addresses."""
    from django.conf import settings

    return settings.SERVICES


def find(environment: Mapping[str, str], data_dir: Path) -> Addresses:
    """Read the addresses from `environment`; what it does not name comes from `data_dir`/services.json.

    That file is there while `manage.py quickstart` runs, so that every other command finds its services.
    """
    running: dict[str, str] = {}
    file = data_dir / "services.json"
    if "DATABASE_URL" not in environment and file.exists():
        running = json.loads(file.read_text())

    def address(variable: str) -> str:
        return environment.get(variable) or running.get(variable.lower()) or ""

    database = address("DATABASE_URL")
    return Addresses(
        database_url=database,
        database_direct_url=environment.get("DATABASE_DIRECT_URL") or database,
        redis_url=address("REDIS_URL"),
        kafka_bootstrap_servers=address("KAFKA_BOOTSTRAP_SERVERS"),
    )
