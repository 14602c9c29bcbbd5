"""The daemons under measurement: started as the README starts them, in a folder of their own."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from django.conf import settings


class Daemons:
    """Processes of `manage.py …`; each dies with this one."""

    def __init__(self, environment: Mapping[str, str], log_folder: Path) -> None:
        self.environment = {**os.environ, **environment}
        self._logs = log_folder
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str) -> None:
        """Start `manage.py ARGUMENTS`, under `name`."""
        self.start_program(name, sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), *arguments)

    def start_program(self, name: str, *argv: str, nice: int = 0, **variables: str) -> None:
        """Start a program, under `name`. nice: how much it gives way; variables: over the environment of all."""
        wrapper = Path(settings.BASE_DIR) / "apps" / "quickstart" / "exec_with_parent.py"
        with (self._logs / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-S", str(wrapper), "--parent", str(os.getpid()), "--signal", "15"),
                    *("--nice", str(nice), "--"),
                    *argv,
                ],
                env={**self.environment, **variables},
                cwd=settings.BASE_DIR,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def kill(self, name: str) -> None:
        """SIGKILL one, as a power cut would."""
        self.running[name].kill()
        self.running.pop(name).wait()

    def stop(self) -> None:
        """End all; what does not end in time is killed."""
        for process in self.running.values():
            process.terminate()
        deadline = time.monotonic() + 15
        for process in self.running.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.running.clear()
