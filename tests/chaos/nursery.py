"""Daemons that are born quickly: a process that has imported everything forks one at each line of its input.

What takes a second of processor time at each start is done once, so that a drill of hundreds of deaths is about deaths.
The children are whole processes of `manage.py`, and are killed and die like all others.

Run as a script: each line is {"name", "fault", "log"}; the answer is the child's pid, later {"pid", "code"} of its end.
"""

import ctypes
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_PR_SET_PDEATHSIG = 1
_LOOK_SECONDS = 0.02


@dataclass
class Born:
    """A daemon, with what is used of Popen."""

    pid: int
    returncode: int | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("daemon", timeout or 0)
        assert self.returncode is not None
        return self.returncode


class Nursery:
    """The caller's side. Daemons die with it, and it with its caller."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), str(os.getpid())],
            env={**os.environ, **environment},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._born: dict[int, Born] = {}
        self._pids: list[int] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, name="nursery", daemon=True).start()

    def start(self, name: str, *, fault: str) -> Born:
        """A daemon that dies at the point `fault`."""
        assert self._process.stdin is not None
        order = {"name": name, "fault": fault, "log": str(self._folder / f"{name}-born.log")}
        with self._changed:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            assert self._changed.wait_for(lambda: self._pids, timeout=60), "the nursery does not answer"
            return self._born[self._pids.pop()]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                if "code" in told:
                    born = self._born[told["pid"]]
                    born.returncode = told["code"]
                    born.ended.set()
                else:
                    self._born[told["pid"]] = Born(told["pid"])
                    self._pids.append(told["pid"])
                    self._changed.notify_all()


def main(caller: int) -> None:
    """Fork as asked until the input ends; what still lives dies with this process. One thread: forks are clean."""
    _die_with(caller)
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chronoweb.settings")
    import django

    django.setup()
    from apps.preloader import daemon as _preloader  # noqa: F401 - imported once, for all that are born
    from apps.worker import daemon as _worker  # noqa: F401

    gc.freeze()
    children: set[int] = set()
    unread = b""
    while True:
        if select.select([0], [], [], _LOOK_SECONDS)[0]:
            got = os.read(0, 65536)
            if not got:
                return
            *lines, unread = (unread + got).split(b"\n")
            for line in lines:
                children.add(_bear(json.loads(line)))
        for pid in list(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                children.discard(pid)
                _say(pid=pid, code=os.waitstatus_to_exitcode(status))


def _bear(order: dict[str, Any]) -> int:
    nursery = os.getpid()
    pid = os.fork()
    if pid:
        _say(pid=pid)
        return pid
    _die_with(nursery)
    _take_places(order["log"])
    from chronoweb.runtime import faults

    faults.aim(order["fault"])
    from django.core.management import execute_from_command_line

    code = 1
    try:
        execute_from_command_line(["manage.py", order["name"]])
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _take_places(log: str) -> None:
    """Nothing to read, and what it says goes to its log."""
    nothing, written = os.open(os.devnull, os.O_RDONLY), os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor, place in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, place)


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _say(**told: int) -> None:
    os.write(1, json.dumps(told).encode() + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
