"""Processes that are born quickly: one that has imported the libraries forks whatever a test starts.

Most of the second of processor time that a start of `manage.py` costs are libraries. Each process of the tests has them
imported once, beside it; what is born of that imports Django's settings and chronoweb itself, in an environment of its
own. It is a whole process of the program, and is killed, paused and asked to end like all others.

Run as a script: each line is an order (see `Nursery.start`); the answer is the child's pid, later its end.
"""

import atexit
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = (
    *("asyncio", "click", "confluent_kafka", "cryptography.fernet", "environ", "httpx", "igraph", "jsonpath"),
    *("jsonschema", "prometheus_client", "psutil", "psycopg", "redis.asyncio", "requests", "yaml"),
    *("django.contrib.admin.options", "django.core.management", "django.db.models", "django.forms", "django.urls"),
)
"""What takes long to import and asks no settings for it."""
_PR_SET_PDEATHSIG = 1
_ANSWERS_WITHIN_SECONDS = 120.0


class Born(subprocess.Popen[bytes]):
    """A process of the nursery. It is the nursery's child, which tells its end; all else is a Popen's."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self._nursery = nursery
        self.args: Sequence[str] = ()
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = self.stdout = self.stderr = None

    def poll(self) -> int | None:
        self._nursery.listen(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout if timeout is not None else float("inf"))
        while self.returncode is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self._nursery.listen(min(left, 0.1))
        return self.returncode


class Nursery:
    """The caller's side. Whoever waits for a process listens for all, so that no thread is needed for it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(os.getpid())],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._born: dict[int, Born] = {}
        self._pids: list[int] = []
        self._unread = b""
        self._lock = threading.RLock()

    def start(self, argv: Sequence[str], *, environment: Mapping[str, str], log: Path, death_signal: int) -> Born:
        """Run a Python program, argv, whose output goes to the end of `log`.

        environment: all of it. death_signal: by which it dies with this process.
        """
        order = {"argv": argv, "environment": dict(environment), "log": str(log), "signal": death_signal}
        log.touch()  # whoever looks into it need not wait for the child
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            deadline = time.monotonic() + _ANSWERS_WITHIN_SECONDS
            while not self._pids:
                assert time.monotonic() < deadline, "the nursery does not answer"
                self.listen(0.1)
            return self._born[self._pids.pop()]

    def listen(self, seconds: float) -> None:
        """Take in what the nursery has told, or tells within so many seconds."""
        assert self._process.stdout is not None
        with self._lock:
            if not select.select([self._process.stdout], [], [], seconds)[0]:
                return
            got = os.read(self._process.stdout.fileno(), 65536)
            assert got, "the nursery has ended"
            *lines, self._unread = (self._unread + got).split(b"\n")
            for line in lines:
                told = json.loads(line)
                if "code" in told:
                    self._born.pop(told["pid"]).returncode = told["code"]
                else:
                    self._born[told["pid"]] = Born(self, told["pid"])
                    self._pids.append(told["pid"])

    def close(self) -> None:
        """End it, and with it what still runs of it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@functools.cache
def nursery() -> Nursery:
    """The one of this process."""
    made = Nursery()
    atexit.register(made.close)
    return made


# ---- the nursery itself ---------------------------------------------------------------------------------------------


def serve() -> dict[str, Any] | None:
    """Fork at each order: the order, in the child; None once there will be no more. One thread: forks are clean."""
    _die_with(int(sys.argv[1]), signal.SIGKILL)
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.collect()
    gc.freeze()
    children: dict[int, int] = {}
    """By the descriptor that tells of its end."""
    unread = b""
    while True:
        ready, _, _ = select.select([0, *children], [], [])
        for descriptor in filter(children.__contains__, ready):
            pid = children.pop(descriptor)
            os.close(descriptor)
            _say(pid=pid, code=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        if 0 not in ready:
            continue
        got = os.read(0, 1 << 20)
        if not got:
            return None
        *lines, unread = (unread + got).split(b"\n")
        for line in lines:
            order, parent = json.loads(line), os.getpid()
            pid = os.fork()
            if not pid:
                for descriptor in children:
                    os.close(descriptor)
                _die_with(parent, order["signal"])
                return order
            children[os.pidfd_open(pid)] = pid
            _say(pid=pid)


def become(order: dict[str, Any]) -> None:
    """The program, as if Python had been started with it."""
    nothing, log = os.open(os.devnull, os.O_RDONLY), os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, place)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[:] = order["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")


def _die_with(parent: int, number: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _say(**told: int) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__" and (_order := serve()) is not None:
    become(_order)
