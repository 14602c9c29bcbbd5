"""What a data directory holds besides the servers' own files: the lock, secrets, ports, addresses.

lock             flock held by the living owner; its text is the owner's pid
secrets/NAME     generated passwords, mode 0600
ports.json       the ports of the last start, used again while they are free
services.json    the addresses of the running services, mode 0600; gone after a clean stop
logs/NAME.log    what each server printed
break-it/        the supervisor's socket for the page that breaks things, and what that page keeps
log-chunks/      what tasks printed, as the log shipper keeps it

Nobody else may read anything here: tasks' commands run on the same machine, as other users.
"""

import fcntl
import json
import os
import random
import secrets
import socket
import stat
import threading
import time
from pathlib import Path
from typing import Any

from apps.quickstart.errors import DataDirectoryInUse, EmbeddedServiceFailed

# Below the range that Linux hands to outgoing connections, so that no client can take a port that was picked.
PORTS = range(20_000, 32_000)
PRIVATE_FOLDERS = ("break-it", "logs", "log-chunks", "secrets", "valkey", "kafka")
LOCK_PATIENCE_SECONDS = 0.5  # an owner may be on its way out
READERS_PATIENCE_SECONDS = 10.0  # readers of services.json hold the lock for a moment, on a busy machine for a long one


class DataDirectory:
    """A folder of one chronoweb. Nothing in it may be touched without `acquire`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._lock_descriptor: int | None = None

    def acquire(self) -> None:
        """Create the folder if needed and hold its lock until `release` or this process's death."""
        close_to_others(self.path)
        # The lock must not be inherited: a server that outlives its parent may not keep the folder locked.
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        began = time.monotonic()
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                patience = READERS_PATIENCE_SECONDS if _only_read(descriptor) else LOCK_PATIENCE_SECONDS
                if time.monotonic() < began + patience:
                    threading.Event().wait(0.02)
                    continue
                pid = os.pread(descriptor, 32, 0).decode().strip() or "unknown"
                os.close(descriptor)
                raise DataDirectoryInUse(
                    f"{self.path} is in use by the running process {pid}: stop it first, "
                    "or give this one a data directory of its own"
                ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._lock_descriptor = descriptor

    def release(self) -> None:
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    def is_owned(self) -> bool:
        """Whether a living process (this one included) holds the folder."""
        try:
            descriptor = os.open(self.path / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def log_path(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def secret(self, name: str) -> str:
        """A generated password, the same at each start."""
        path = self.path / "secrets" / name
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_private(path, secrets.token_hex(24))
        return path.read_text().strip()

    def port(self, name: str, *, avoid: int | None = None) -> int:
        """The port of the last start if it is free now and not `avoid`, else another free one."""
        path = self.path / "ports.json"
        ports: dict[str, int] = read_json(path) or {}
        known = ports.get(name)
        if known is not None and known != avoid and is_free(known):
            return known
        ports[name] = free_port(taken=set(ports.values()))
        write_private(path, json.dumps(ports))
        return ports[name]

    def write_addresses(self, addresses: dict[str, Any]) -> None:
        write_private(self.path / "services.json", json.dumps(addresses, indent=2) + "\n")

    def read_addresses(self) -> dict[str, Any] | None:
        return read_json(self.path / "services.json")

    def forget_addresses(self) -> None:
        (self.path / "services.json").unlink(missing_ok=True)


def _only_read(descriptor: int) -> bool:
    """Whether those that hold the lock share it: they look whether the folder is owned."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return True


def close_to_others(path: Path) -> None:
    """Make the data folder if there is none, and take from other users what they could read or list in it.

    Under root they may still pass through the folder itself, to names that they know: PostgreSQL, which then is
    another user, has its cluster in it. What is not ours, or for everybody (as /tmp is), stays as it is.
    """
    passing = stat.S_IXGRP | stat.S_IXOTH if os.geteuid() == 0 else 0
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700 | passing)
    _tighten(path, stat.S_IRWXU | passing)
    for name in PRIVATE_FOLDERS:
        if (path / name).is_dir():
            _tighten(path / name, stat.S_IRWXU)
    for file in (path / "logs").glob("*.log*"):
        _tighten(file, stat.S_IRUSR | stat.S_IWUSR)


def _tighten(path: Path, most: int) -> None:
    found = path.lstat()
    mode = stat.S_IMODE(found.st_mode)
    if found.st_uid == os.geteuid() and not stat.S_ISLNK(found.st_mode) and not mode & stat.S_ISVTX and mode & ~most:
        path.chmod(mode & most)


def write_private(path: Path, text: str) -> None:
    """Replace a file in one step, readable by its owner only."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """The parsed file, or None when there is none."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # Connections of an earlier server that linger in TIME_WAIT do not count; a listener still does.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(*, taken: set[int]) -> int:
    """A random port that nobody listens on; random, so that starts at the same moment rarely meet."""
    for port in random.sample(PORTS, 200):
        if port not in taken and is_free(port):
            return port
    raise EmbeddedServiceFailed(f"no free port among 200 tried between {PORTS.start} and {PORTS.stop - 1}")
