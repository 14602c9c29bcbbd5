"""The supervisor's ear: a Unix socket in the data directory, which its owner alone may open.

One packet in, one packet out, both JSON. Only the web process is told where it is, by QUICKSTART_CONTROL.
"""

import json
import logging
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

PATH_VARIABLE = "QUICKSTART_CONTROL"
MOST_BYTES = 4096
_SERVE_SECONDS = 0.5
_BACKLOG = 32
_LONGEST_PATH = 100

After = Callable[[], None]
Answer = tuple[dict[str, Any], After | None]
"""What is answered, and what is done once it has been."""


class Channel:
    """Made by the supervisor, which serves it between two looks at its children. answer: set before it is served."""

    answer: Callable[[Mapping[str, Any]], Answer]

    def __init__(self, data_dir: Path) -> None:
        folder = data_dir / "break-it"
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / "control.sock"
        self.path.unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        old = os.umask(0o177)
        try:
            with _short(self.path) as address:
                self._socket.bind(address)
        finally:
            os.umask(old)
        self._socket.listen(_BACKLOG)

    def fileno(self) -> int:
        return self._socket.fileno()

    def serve(self) -> None:
        """One question. Whoever asks and does not wait for the answer does no harm."""
        asker, _ = self._socket.accept()
        after: After | None = None
        with closing(asker):
            asker.settimeout(_SERVE_SECONDS)
            try:
                if _is_ours(asker):
                    told, after = self.answer(_read(asker.recv(MOST_BYTES)))
                    asker.send(json.dumps(told).encode())
            except OSError as error:
                logger.info("nobody waited for the answer: %s", error)
        if after is not None:
            after()

    def close(self) -> None:
        self._socket.close()
        self.path.unlink(missing_ok=True)


def ask(path: Path, question: Mapping[str, Any], *, seconds: float) -> dict[str, Any]:
    """The supervisor's answer. Raises OSError when there is none within `seconds`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asker, _short(path) as address:
        asker.settimeout(seconds)
        asker.connect(address)
        asker.send(json.dumps(question).encode())
        answer = asker.recv(MOST_BYTES)
    if not answer:
        raise ConnectionError("the supervisor did not answer")
    return _read(answer)


def _read(packet: bytes) -> dict[str, Any]:
    try:
        found = json.loads(packet)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _is_ours(asker: socket.socket) -> bool:
    """Whether a process of this very user asks; the file's mode says so already."""
    _, uid, _ = struct.unpack("3i", asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return uid == os.geteuid()


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Addresses of sockets have at most 107 bytes: where the folder lies deeper, it is named by its descriptor."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
