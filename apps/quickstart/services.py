"""The embedded services: real servers that pip installed, for installations that name none of their own.

    with EmbeddedServices(Path("var")) as addresses:
        os.environ.update(addresses.environment())

They listen on 127.0.0.1 only and die with the thread that started them; the data stays for the next start.
"""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol

import redis

from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.errors import PortTaken
from apps.quickstart.kafka_broker import KafkaBroker
from apps.quickstart.postgres_server import PostgresServer
from apps.quickstart.valkey_server import ValkeyServer

logger = logging.getLogger(__name__)

PORT_TRIES = 5


@dataclass(frozen=True, slots=True)
class ServiceAddresses:
    """Where the services listen, passwords included."""

    database_url: str
    redis_url: str
    kafka_bootstrap_servers: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables that chronoweb's settings read."""
        variables = {
            "DATABASE_URL": self.database_url,
            "DATABASE_DIRECT_URL": self.database_url,
            "REDIS_URL": self.redis_url,
        }
        if self.kafka_bootstrap_servers is not None:
            variables["KAFKA_BOOTSTRAP_SERVERS"] = self.kafka_bootstrap_servers
        return variables


class Server(Protocol):
    """What the three servers have in common."""

    def start(self, *, avoid_port: int | None = None) -> int: ...
    def wait_until_ready(self) -> None: ...
    def has_died(self) -> bool: ...
    def stop(self) -> None: ...


class EmbeddedServices:
    """PostgreSQL and Valkey, and with kafka=True the Kafka-protocol broker, in one data directory.

    postgres_settings: PostgreSQL settings over the defaults, e.g. {"shared_buffers": "128MB"}.
    """

    def __init__(
        self, data_dir: Path, *, kafka: bool = False, postgres_settings: Mapping[str, str] | None = None
    ) -> None:
        self._data = DataDirectory(data_dir)
        self._postgres = PostgresServer(self._data, postgres_settings or {})
        self._valkey = ValkeyServer(self._data)
        self._kafka = KafkaBroker(self._data) if kafka else None

    @property
    def _servers(self) -> list[Server]:
        return [server for server in (self._postgres, self._valkey, self._kafka) if server is not None]

    def start(self) -> ServiceAddresses:
        """Start all and return once each answers.

        Raises DataDirectoryInUse, EmbeddedServiceMissing, EmbeddedServiceFailed: then nothing still runs.
        """
        self._data.acquire()
        try:
            self._data.forget_addresses()
            ports = [(server, server.start()) for server in self._servers]
            for server, port in ports:
                wait_or_try_other_ports(server, port)
            addresses = ServiceAddresses(
                database_url=self._postgres.url,
                redis_url=self._valkey.url,
                kafka_bootstrap_servers=self._kafka.bootstrap_servers if self._kafka else None,
            )
            self._data.write_addresses(asdict(addresses))
        except BaseException:
            self.stop()
            raise
        return addresses

    def revive(self) -> None:
        """Start again what has died since, where it listened before; returns at once if nothing has."""
        for server in self._servers:
            if server.has_died():
                logger.warning("%s died, starting it again", type(server).__name__)
                server.start()
                server.wait_until_ready()

    def restart_postgres(self) -> None:
        """A fast shutdown and a new start: everybody's connection breaks, and what was committed is there again."""
        self._postgres.stop()
        self._postgres.start()
        self._postgres.wait_until_ready()

    def flush_redis(self) -> None:
        """FLUSHALL. Raises redis.RedisError while it is away."""
        with redis.Redis.from_url(self._valkey.url, socket_timeout=3, socket_connect_timeout=2) as client:
            client.flushall()

    def stop(self) -> None:
        """Stop all, PostgreSQL last, and let go of the data directory; stopping twice is harmless."""
        for server in reversed(self._servers):
            server.stop()
        self._data.forget_addresses()
        self._data.release()

    def __enter__(self) -> ServiceAddresses:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def wait_or_try_other_ports(server: Server, port: int) -> None:
    """Wait until the server answers; where its port was taken in the last moment, try others."""
    for _ in range(PORT_TRIES - 1):
        try:
            server.wait_until_ready()
            return
        except PortTaken as error:
            logger.warning("port %d was taken, trying another: %s", port, str(error).splitlines()[0])
            server.stop()
            port = server.start(avoid_port=port)
    server.wait_until_ready()


def running_services(data_dir: Path) -> ServiceAddresses | None:
    """The addresses of the services that a living process runs in data_dir, or None."""
    data = DataDirectory(data_dir)
    if not data.is_owned():
        return None
    addresses = data.read_addresses()
    return None if addresses is None else ServiceAddresses(**addresses)
