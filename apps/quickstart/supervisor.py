"""Keeps processes alive: starts them, restarts what dies with back-off, stops all in order and in time.

One thread, no polling: the wake-up is SIGCHLD. Each process leads a group of its own, and what is left of the
group dies with it; all of them die with the supervisor, also when that is killed.
"""

import logging
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from apps.quickstart import child_process

logger = logging.getLogger(__name__)

BACKOFF_FIRST_SECONDS = 0.2
BACKOFF_MOST_SECONDS = 10.0
BACKOFF_RESET_SECONDS = 30.0  # a process that lived this long starts afresh
GROUP_STOP_SECONDS = 2.0  # how long those of one stop_group may hold up the next
STOP_POLL_SECONDS = 0.02
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """What to run. argv[0] is an absolute path; lower stop_groups are told to stop first (web 0, daemons 1).

    nice: how much it gives way to the others, 0 to 19.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)  # it holds passwords
    log_path: Path
    stop_group: int = 0
    nice: int = 0


class _Child:
    """One managed process and its present run. Times are of the monotonic clock."""

    def __init__(self, definition: ManagedProcess, *, most_backoff_seconds: float) -> None:
        self.definition = definition
        self.process: subprocess.Popen[bytes] | None = None
        self.restart_at: float | None = None
        self._started_at = 0.0
        self._delay = BACKOFF_FIRST_SECONDS
        self._most = most_backoff_seconds

    def start(self) -> None:
        definition = self.definition
        self.restart_at = None
        self._started_at = time.monotonic()
        self.process = child_process.spawn(
            definition.argv,
            environment=definition.environment,
            log_path=definition.log_path,
            death_signal=signal.SIGKILL,
            nice=definition.nice,
        )
        logger.info("%s started, pid %d", definition.name, self.process.pid)

    def reap(self) -> int | None:
        """The exit code if the process has ended, after killing what it left in its group; else None."""
        if self.process is None or not has_ended(self.process):
            return None
        # Not reaped yet, so the group's number cannot belong to anybody else.
        kill_group(self.process)
        code = self.process.wait()
        logger.info("%s exited, pid %d, code %d", self.definition.name, self.process.pid, code)
        self.process = None
        return code

    def schedule_restart(self) -> None:
        now = time.monotonic()
        if now - self._started_at >= BACKOFF_RESET_SECONDS:
            self._delay = BACKOFF_FIRST_SECONDS
        self.restart_at = now + self._delay
        logger.warning("%s died, restarting it in %.1f s", self.definition.name, self._delay)
        self._delay = min(self._delay * 2, self._most)


class Listener(Protocol):
    """Something that is served between two looks, in the supervisor's own thread: there no pid changes meanwhile."""

    def fileno(self) -> int: ...
    def serve(self) -> None: ...


class Supervisor:
    """Call from the main thread: children die with the thread that starts them, and signals arrive there."""

    def __init__(
        self, processes: Sequence[ManagedProcess], *, most_backoff_seconds: float = BACKOFF_MOST_SECONDS
    ) -> None:
        self._children = [_Child(definition, most_backoff_seconds=most_backoff_seconds) for definition in processes]

    def start(self) -> None:
        for child in self._children:
            child.start()

    def pids(self) -> dict[str, int]:
        """Names and pids of what runs now."""
        return {child.definition.name: child.process.pid for child in self._children if child.process}

    def kill(self, name: str) -> int | None:
        """SIGKILL to the process of that name; its pid, or None if it does not run now. `check` starts it again."""
        pid = self.pids().get(name)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)  # not reaped yet, so the number is nobody else's
        return pid

    def check(self) -> float | None:
        """Note what has died, restart what is due; returns the seconds until the next restart, None for none."""
        for child in self._children:
            if child.reap() is not None:
                child.schedule_restart()
            if child.restart_at is not None and child.restart_at <= time.monotonic():
                child.start()
        due = [child.restart_at for child in self._children if child.restart_at is not None]
        return max(0.0, min(due) - time.monotonic()) if due else None

    def run_until_signal(
        self, each_pass: Callable[[], None] | None = None, *, listener: Listener | None = None
    ) -> None:
        """Start all, keep them alive until SIGINT, SIGTERM or SIGHUP, then stop all.

        each_pass is called after each death of any child of this process: others may have something to restart.
        listener is served whenever it is readable.
        """
        with signals_as_bytes((*STOP_SIGNALS, signal.SIGCHLD)) as arrived:
            try:
                self.start()
                while True:
                    pause = self.check()
                    if each_pass is not None:
                        each_pass()
                    received = wait_for_signals(arrived, pause, listener)
                    if received & set(STOP_SIGNALS):
                        logger.info("stopping on %s", ", ".join(signal.Signals(n).name for n in sorted(received)))
                        return
            finally:
                self.stop()

    def stop(self, grace_seconds: float = 8.0) -> None:
        """SIGTERM to each stop group in turn, SIGKILL to what remains when grace_seconds are over."""
        deadline = time.monotonic() + grace_seconds
        for child in self._children:
            child.restart_at = None
        for group in sorted({child.definition.stop_group for child in self._children}):
            members = [child for child in self._children if child.definition.stop_group == group]
            for child in members:
                if child.process is not None:
                    child.process.terminate()
            self._wait(members, until=min(deadline, time.monotonic() + GROUP_STOP_SECONDS))
        self._wait(self._children, until=deadline)
        for child in self._children:
            if child.process is not None:
                logger.warning("%s does not stop, killing pid %d", child.definition.name, child.process.pid)
                kill_group(child.process)
        self._wait(self._children, until=time.monotonic() + 1.0)

    def _wait(self, children: Sequence[_Child], *, until: float) -> None:
        while True:
            for child in children:
                child.reap()
            if all(child.process is None for child in children) or time.monotonic() >= until:
                return
            select.select([], [], [], STOP_POLL_SECONDS)


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process is a zombie now; it is left one, so that its pid stays its own."""
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return  # nobody is left in the group (macOS: nobody but zombies)


@contextmanager
def signals_as_bytes(numbers: Sequence[signal.Signals]) -> Iterator[socket.socket]:
    """While open, each of these signals only writes its number to the socket: nothing is interrupted half way."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    old_handlers = {number: signal.signal(number, lambda *_: None) for number in numbers}
    old_wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(old_wakeup)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def wait_for_signals(reader: socket.socket, seconds: float | None, listener: Listener | None = None) -> set[int]:
    """The numbers that arrive within seconds (None: however long it takes); none when it was listener that woke it."""
    watched = [reader.fileno(), *([listener.fileno()] if listener else [])]
    readable, _, _ = select.select(watched, [], [], seconds)
    if listener is not None and listener.fileno() in readable:
        listener.serve()
    return set(reader.recv(4096)) if reader.fileno() in readable else set()
