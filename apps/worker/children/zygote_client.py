"""The worker's side of a zygote: start it, ask it, hear from it, end it."""

import logging
import marshal
import os
import socket
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

from apps.worker.handlers.sources import HandlerSources

log = logging.getLogger(__name__)
ROOT = Path(__file__).resolve().parents[3]
MESSAGE_BYTES = 1 << 20
_FOR_COMMANDS = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PYTHONHOME", "TMPDIR", "TZ")
"""What a zygote that only starts commands gets of our environment: they can read their parent's in /proc."""


class ZygoteClient:
    """One zygote process. Not thread-safe: one thread starts it, talks to it and ends it.

    That thread must live as long as the zygote should: Linux ties the parent-death signal to the thread.
    """

    def __init__(self, sources: HandlerSources | None) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for end in (self._control, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MESSAGE_BYTES)
        self._control.setblocking(False)
        self._waiting: deque[tuple[bytes, list[int]]] = deque()
        self.catalogue: dict[str, Any] | None = None
        """Handler isolations and broken modules; None until it is ready."""
        self.lost = False
        with theirs:
            text = sources.to_json() if sources is not None else ""
            self._process = subprocess.Popen(
                [sys.executable, "-m", "apps.worker.children.zygote", str(theirs.fileno()), str(os.getpid()), text],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=2,  # what handlers print goes where the worker's log goes
                start_new_session=True,
                env={**_environment(sources), "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def fileno(self) -> int:
        return self._control.fileno()

    def ask(self, what: str, key: int, descriptors: list[int] | None = None) -> None:
        """Send a request; never blocks. The descriptors are closed here once they are sent."""
        self._waiting.append((marshal.dumps((what, key)), descriptors or []))
        self.flush()

    def flush(self) -> None:
        """Send what could not be sent before."""
        while self._waiting:
            data, descriptors = self._waiting[0]
            try:
                socket.send_fds(self._control, [data], descriptors)
            except BlockingIOError:
                return
            except OSError:
                self.lost = True
            self._waiting.popleft()
            for descriptor in descriptors:
                os.close(descriptor)

    def events(self) -> list[tuple[Any, ...]]:
        """What it said since the last call. When it is gone, `lost` is set."""
        heard = []
        while True:
            try:
                data = self._control.recv(MESSAGE_BYTES)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.lost = True
                break
            message = marshal.loads(data)  # noqa: S302 - from the process that this one started
            if message[0] == "ready":
                self.catalogue = message[1]
            heard.append(message)
        self.flush()
        return heard

    def close(self) -> None:
        """Hang up: it kills what it started and ends. Call `reap` until that is so."""
        self._control.close()
        for _, descriptors in self._waiting:
            for descriptor in descriptors:
                os.close(descriptor)
        self._waiting.clear()

    def kill(self) -> None:
        """For one that does not answer."""
        self._process.kill()

    def reap(self, wait_seconds: float = 0.0) -> bool:
        """Whether the process has ended. After `wait_seconds` > 0 without an end it is killed."""
        try:
            self._process.wait(wait_seconds)
        except subprocess.TimeoutExpired:
            if not wait_seconds:
                return False
            log.warning("a zygote did not end in %s s and is killed", wait_seconds)
            self._process.kill()
            self._process.wait()
        return True

    @property
    def exit_words(self) -> str:
        """How it ended, for people."""
        return death_words(self._process.poll())


def _environment(sources: HandlerSources | None) -> dict[str, str]:
    if sources is not None:
        return dict(os.environ)
    return {name: os.environ[name] for name in _FOR_COMMANDS if name in os.environ}


def death_words(status: int | None) -> str:
    """ "signal 9", "exit code 9"."""
    if status is None:
        return "no exit status"
    return f"signal {-status}" if status < 0 else f"exit code {status}"
