"""Which services quickstart runs on: those that the environment names, else embedded ones."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.services import EmbeddedServices, ServiceAddresses
from chronoweb.runtime.errors import ConfigurationError

TRANSPORTS = ("redis", "kafka")


class Backing(Protocol):
    """The services, embedded or given."""

    def start(self) -> ServiceAddresses: ...
    def revive(self) -> None: ...
    def stop(self) -> None: ...


class GivenServices:
    """Services that somebody else runs. Only the data directory is ours, and held while we run."""

    def __init__(self, data_dir: Path, addresses: ServiceAddresses) -> None:
        self._data = DataDirectory(data_dir)
        self._addresses = addresses

    def start(self) -> ServiceAddresses:
        self._data.acquire()
        return self._addresses

    def revive(self) -> None:
        """They are not ours to start."""

    def stop(self) -> None:
        self._data.release()


def choose(*, data_dir: Path, transport: str | None, environment: Mapping[str, str]) -> tuple[Backing, str]:
    """The services and a line that says which they are; nothing is started yet.

    transport: None takes Kafka where the environment names a broker, else Redis. Raises ConfigurationError when
    the environment names some of the services that are needed and not the others.
    """
    database, redis_url = environment.get("DATABASE_URL"), environment.get("REDIS_URL")
    broker = environment.get("KAFKA_BOOTSTRAP_SERVERS") or None
    kafka = transport == "kafka" or (transport is None and broker is not None)
    if bool(database) != bool(redis_url):
        given, missing = ("DATABASE_URL", "REDIS_URL") if database else ("REDIS_URL", "DATABASE_URL")
        raise ConfigurationError(
            f"the environment sets {given} but not {missing}: set both, or neither to have both started here"
        )
    if database and redis_url:
        if kafka and broker is None:
            raise ConfigurationError(
                "--transport kafka with services of your own needs KAFKA_BOOTSTRAP_SERVERS, such as host:9092"
            )
        given_addresses = ServiceAddresses(database, redis_url, broker if kafka else None)
        names = "PostgreSQL, Redis and Kafka" if kafka else "PostgreSQL and Redis"
        return GivenServices(data_dir, given_addresses), f"{names} of the environment are used"
    names = "PostgreSQL, Valkey and a Kafka-protocol broker" if kafka else "PostgreSQL and Valkey"
    if kafka and broker is not None:
        raise ConfigurationError(
            "the environment sets KAFKA_BOOTSTRAP_SERVERS but neither DATABASE_URL nor REDIS_URL: set all three, "
            "or none to have them started here, or choose --transport redis"
        )
    return EmbeddedServices(data_dir, kafka=kafka), f"{names} are up"
