"""The processes under attack: chronoweb's own, kept alive by the supervisor, and signals to them."""

import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from apps.quickstart import processes
from apps.quickstart.chaos.plan import FLEET
from apps.quickstart.supervisor import ManagedProcess, Supervisor

_MOST_BACKOFF_SECONDS = 1.0  # they die of us, not of a fault that a longer wait would spare


class Fleet:
    """`start`, `check` and `stop` belong to the main thread: children die with the thread that starts them."""

    def __init__(self, *, environment: Mapping[str, str], logs: Path, web_port: int) -> None:
        self._supervisor = Supervisor(
            _definitions(environment, logs, web_port), most_backoff_seconds=_MOST_BACKOFF_SECONDS
        )
        self._lock = threading.Lock()
        self._stopped: dict[str, int] = {}

    def start(self) -> None:
        with self._lock:
            self._supervisor.start()

    def check(self) -> None:
        """Restart what has died."""
        with self._lock:
            self._supervisor.check()

    def send(self, name: str, number: signal.Signals) -> bool:
        """Signal a process; False if it does not run now."""
        with self._lock:
            pid = self._supervisor.pids().get(name)
            if pid is None:
                return False
            os.kill(pid, number)  # only `check` reaps, under the same lock: the pid is nobody else's
            if number == signal.SIGSTOP:
                self._stopped[name] = pid
            return True

    def resume(self, name: str) -> None:
        """SIGCONT, if it is still the process that was stopped."""
        with self._lock:
            pid = self._stopped.pop(name, None)
            if pid is not None and self._supervisor.pids().get(name) == pid:
                os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """End all."""
        for name in list(self._stopped):
            self.resume(name)
        with self._lock:
            self._supervisor.stop()


def _definitions(environment: Mapping[str, str], logs: Path, web_port: int) -> list[ManagedProcess]:
    """The whole fleet; web first, so that it is also told to stop first."""
    found = []
    web = ("-m", "daphne", "-b", "127.0.0.1", "-p", str(web_port), "--no-server-name", "chronoweb.asgi:application")
    for kind, count in FLEET.items():
        argv = (sys.executable, *web) if kind == "web" else processes.manage(kind)
        group = processes.WEB_GROUP if kind == "web" else processes.DAEMON_GROUP
        for number in range(1, count + 1):
            name = f"{kind}-{number}"
            found.append(ManagedProcess(name, argv, environment, logs / f"{name}.log", group))
    return found
