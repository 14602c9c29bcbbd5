"""Starting programs from the worker's event loop, and keeping the end of what they print.

They are started by a zygote that loads no handlers, so that nothing forks from a process with threads.
"""

import asyncio
import json
import os
from dataclasses import dataclass, field

from apps.logs.attempt_log import AttemptLog
from apps.logs.records import STDERR, STDOUT
from apps.worker.children.zygote_client import ZygoteClient
from apps.worker.handlers.report import clean_text
from chronoweb.runtime.clock import SYSTEM_CLOCK

OUTPUT_BYTES = 64 * 1024
PIPES_SECONDS = 1.0
"""How long after the end its pipes may stay open: what cannot be killed may hold them."""
KILL_SECONDS = 5.0
HELD_SECONDS = 0.05
"""A pipe whose log had no room is looked at again after so long."""


class Tail:
    """Reads one pipe on the event loop, keeps its last 64 KiB, and passes everything on to the attempt's log.

    While the log has no room the pipe is not read, so the program waits; after `patience_seconds` lines are dropped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: int = STDOUT, log: AttemptLog | None = None) -> None:
        self._loop = loop
        self._stream = stream
        self._log = log
        self._held_since: float | None = None
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._kept = bytearray()
        self._dropped = False
        self.closed = loop.create_future()
        loop.add_reader(self._read_end, self._read)

    def _read(self) -> None:
        if self._log is not None and not self._log.has_room(OUTPUT_BYTES) and self._waits():
            return
        try:
            data = os.read(self._read_end, OUTPUT_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._take(data)

    def _waits(self) -> bool:
        """Stop reading until there is room; False when that has lasted too long."""
        now = self._loop.time()
        self._held_since = now if self._held_since is None else self._held_since
        assert self._log is not None
        if now - self._held_since > self._log.patience_seconds:
            return False
        self._loop.remove_reader(self._read_end)
        self._loop.call_later(HELD_SECONDS, self._read_again)
        return True

    def _read_again(self) -> None:
        if not self.closed.done():
            self._loop.add_reader(self._read_end, self._read)

    def _take(self, data: bytes, *, forced: bool = False) -> None:
        if self._log is not None:
            if self._log.write(self._stream, int(SYSTEM_CLOCK.time() * 1e6), data, forced=forced):
                self._held_since = None
            else:
                self._log.drop(max(1, data.count(b"\n")))
        self._kept += data
        if len(self._kept) > OUTPUT_BYTES:
            del self._kept[:-OUTPUT_BYTES]
            self._dropped = True

    def text(self) -> str:
        text = clean_text(self._kept.decode("utf-8", "replace"), OUTPUT_BYTES)
        if self._log is not None:
            text = self._log.mask(text)
        return f"…{text}" if self._dropped else text

    def close(self) -> None:
        """What the pipe still holds is taken, however full the log is."""
        if not self.closed.done():
            self._loop.remove_reader(self._read_end)
            if self._held_since is not None and (rest := _rest(self._read_end)):
                self._take(rest, forced=True)
            os.close(self._read_end)
            self.closed.set_result(None)


def _rest(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, OUTPUT_BYTES)
    except BlockingIOError:
        return b""


@dataclass(frozen=True, slots=True)
class Program:
    """What to start.

    kept: it ends with all of its descendants, may gain no rights, and `user` (uid, gid; None: the worker's) and
    `limits` (command_limits.effective) hold.
    stdin: what it may read; None: nothing. on_death: arguments of a program to start, in the same environment, if the
    worker dies before this one has ended.
    """

    argv: list[str]
    directory: str
    environment: dict[str, str]
    kept: bool = False
    user: tuple[int, int] | None = None
    limits: dict[str, int] = field(default_factory=dict)
    on_death: list[str] | None = None
    stdin: str | None = None

    def to_json(self) -> bytes:
        names = ("argv", "directory", "environment", "kept", "user", "limits", "on_death", "stdin")
        return json.dumps({name: getattr(self, name) for name in names}).encode()


@dataclass(slots=True, eq=False)
class Started:
    """One program that was asked for."""

    key: int
    ended: asyncio.Future[int]
    """Its exit status as Popen.returncode."""
    refused: OSError | None = None
    tails: list[Tail] = field(default_factory=list)

    def outputs(self) -> dict[str, str]:
        """What it printed, at the end; its pipes are closed."""
        stdout, stderr = self.tails
        texts = {"stdout": stdout.text(), "stderr": stderr.text()}
        for tail in self.tails:
            tail.close()
        return texts


class Programs:
    """Starts programs from one event loop."""

    def __init__(self) -> None:
        self._zygote: ZygoteClient | None = None
        self._started: dict[int, Started] = {}
        self._last_key = 0

    def start(self, program: Program, log: AttemptLog | None = None) -> Started:
        """Returns at once; `ended` says the rest. log: where its output goes."""
        loop = asyncio.get_running_loop()
        if self._zygote is None:
            self._zygote = ZygoteClient(None)
            loop.add_reader(self._zygote.fileno(), self._hear)
        self._last_key += 1
        started = Started(
            self._last_key, loop.create_future(), tails=[Tail(loop, STDOUT, log), Tail(loop, STDERR, log)]
        )
        self._started[started.key] = started
        spec_fd = os.memfd_create("chronoweb-program", os.MFD_CLOEXEC)
        os.write(spec_fd, program.to_json())
        self._zygote.ask("spawn", started.key, [spec_fd, *(tail.write_end for tail in started.tails)])
        return started

    async def end_of(self, started: Started) -> int:
        """Its exit status, once its output is complete as well. Cancelled, it leaves the program running."""
        status = await asyncio.shield(started.ended)
        await asyncio.wait([tail.closed for tail in started.tails], timeout=PIPES_SECONDS)
        return status

    async def kill(self, started: Started) -> None:
        """End it; returns when it has ended, or will not."""
        if self._zygote is not None:
            self._zygote.ask("kill", started.key)
        await asyncio.wait([started.ended, *(tail.closed for tail in started.tails)], timeout=KILL_SECONDS)

    def close(self) -> None:
        """End the zygote; what it started is killed."""
        if self._zygote is not None:
            asyncio.get_running_loop().remove_reader(self._zygote.fileno())
            self._zygote.close()
            self._zygote.reap(wait_seconds=5.0)
            self._zygote = None

    def _hear(self) -> None:
        zygote = self._zygote
        if zygote is None:
            return
        for message in zygote.events():
            if message[0] == "exited":
                self._end(message[1], message[2], None)
            elif message[0] == "refused":
                self._end(message[1], 127, OSError(message[2], message[3]))
        if zygote.lost:
            asyncio.get_running_loop().remove_reader(zygote.fileno())
            zygote.close()
            zygote.reap(wait_seconds=1.0)
            self._zygote = None
            for key in list(self._started):
                self._end(key, -9, None)

    def _end(self, key: int, status: int, refused: OSError | None) -> None:
        started = self._started.pop(key, None)
        if started is not None and not started.ended.done():
            started.refused = refused
            started.ended.set_result(status)
