"""One embedded server: started, probed until it answers, stopped; and what an earlier start left of it."""

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from apps.quickstart import child_process
from apps.quickstart.child_process import RunAs
from apps.quickstart.errors import EmbeddedServiceFailed, PortTaken

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.03
LEFTOVER_SECONDS = 10.0
PORT_TAKEN_PHRASES = ("address already in use", "address in use")


def base_environment(directory: Path) -> dict[str, str]:
    """What a server sees of our environment: not PGPORT, CLUSTER_ID or other things that would steer it."""
    return {"PATH": os.defpath, "HOME": str(directory), "LC_ALL": "C"}


class ServerProcess:
    """A running server. `stop_steps`: signals and the seconds each may take; SIGKILL follows the last."""

    def __init__(
        self,
        *,
        name: str,
        argv: Sequence[str],
        directory: Path,
        log_path: Path,
        environment: Mapping[str, str],
        death_signal: signal.Signals,
        stop_steps: Sequence[tuple[signal.Signals, float]],
        run_as: RunAs | None = None,
    ) -> None:
        self.name = name
        self._log_path = log_path
        self._stop_steps = stop_steps
        log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._log_offset = log_path.stat().st_size if log_path.exists() else 0
        self._process: subprocess.Popen[bytes] = child_process.spawn(
            argv,
            environment=environment,
            log_path=log_path,
            directory=directory,
            death_signal=death_signal,
            run_as=run_as,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until(self, answers: Callable[[], bool], *, seconds: float) -> None:
        """Return once answers() is true; raise with the log's end if the server exits or stays silent."""
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            code = self._process.poll()
            if code is not None:
                raise self._failure(f"exited with code {code} while starting")
            if answers():
                elapsed_ms = round((time.monotonic() - started) * 1000)
                logger.info("%s answers, pid %d, after %d ms", self.name, self.pid, elapsed_ms)
                return
            threading.Event().wait(POLL_SECONDS)
        raise self._failure(f"did not answer within {seconds:g} s")

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self) -> None:
        code = child_process.stop(self._process, self._stop_steps)
        logger.info("%s stopped, pid %d, code %d", self.name, self.pid, code)

    def _failure(self, what: str) -> EmbeddedServiceFailed:
        lines = child_process.last_lines(self._log_path)
        fresh = self._log_path.read_bytes()[self._log_offset :].decode("utf-8", "replace").lower()
        kind = PortTaken if any(phrase in fresh for phrase in PORT_TAKEN_PHRASES) else EmbeddedServiceFailed
        return kind(f"{self.name} {what}. The end of {self._log_path}:\n{lines}")


def stop_leftovers(directory: Path, *, program: str, number: signal.Signals) -> None:
    """Stop what an earlier start left running in this folder, and wait for what is already on its way out.

    Every embedded server works in a folder of its own, so its current directory says whose it is: no pid file
    is believed, which after a crash or in a restarted container may name a stranger.

    Raises EmbeddedServiceFailed if something survives even SIGKILL.
    """
    leftovers = processes_in(directory, program=program)
    if not leftovers:
        return
    logger.warning("%s of an earlier start still runs, pids %s: stopping it", program, pids_of(leftovers))
    for step in (number, signal.SIGKILL):
        for process in leftovers:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(step)
        deadline = time.monotonic() + LEFTOVER_SECONDS
        # Looked up again each time: dying servers may still fork, and a zombie that nobody reaps is gone enough.
        while leftovers and time.monotonic() < deadline:
            threading.Event().wait(POLL_SECONDS)
            leftovers = processes_in(directory, program=program)
        if not leftovers:
            return
    raise EmbeddedServiceFailed(f"{program} of an earlier start cannot be stopped: pids {pids_of(leftovers)}")


def processes_in(directory: Path, *, program: str) -> list[psutil.Process]:
    """Processes of that program name whose current directory is this folder."""
    wanted = str(directory.resolve())
    found = []
    for process in psutil.process_iter():
        try:
            if program in process.name() and process.cwd() == wanted and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # gone meanwhile, or somebody else's: not ours either way
    return found


def pids_of(processes: Sequence[psutil.Process]) -> str:
    return ", ".join(str(process.pid) for process in processes)
