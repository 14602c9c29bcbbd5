"""Where PostgreSQL, Redis and Kafka are: the environment's word, else the embedded services that run beside us."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Services:
    """Addresses; an empty string means that the service is not named anywhere."""

    database_url: str
    database_direct_url: str
    redis_url: str
    kafka_bootstrap_servers: str


def find(environment: Mapping[str, str], data_dir: Path) -> Services:
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
    return Services(
        database_url=database,
        database_direct_url=environment.get("DATABASE_DIRECT_URL") or database,
        redis_url=address("REDIS_URL"),
        kafka_bootstrap_servers=address("KAFKA_BOOTSTRAP_SERVERS"),
    )
