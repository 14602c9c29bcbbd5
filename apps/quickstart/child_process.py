"""Start a child that does not outlive this process; stop it by escalating signals."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EXEC_WITH_PARENT = Path(__file__).with_name("exec_with_parent.py")
LOG_BYTES_KEPT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RunAs:
    """The user that a child becomes before it starts; only root may choose one."""

    uid: int
    gid: int


def spawn(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    log_path: Path,
    directory: Path | None = None,
    death_signal: signal.Signals,
    run_as: RunAs | None = None,
    nice: int = 0,
    stdout: int | None = None,
) -> subprocess.Popen[bytes]:
    """Start argv (argv[0] an absolute path) in a session of its own, output appended to log_path.

    nice: how much it gives way to other processes. stdout: where standard output goes instead, such as subprocess.PIPE.

    The child gets death_signal when the *thread* that calls this ends (that is what Linux watches), so call
    it from a thread that lives as long as the child should. Its own session keeps a Ctrl-C in the terminal
    from reaching it before its parent has decided the order in which things stop.
    """
    wrapper = [sys.executable, "-I", "-S", str(EXEC_WITH_PARENT)]
    wrapper += ["--parent", str(os.getpid()), "--signal", str(int(death_signal))]
    if run_as is not None:
        wrapper += ["--uid", str(run_as.uid), "--gid", str(run_as.gid)]
    if nice:
        wrapper += ["--nice", str(nice)]
    rotate(log_path)
    with open(log_path, "ab", opener=_private) as log:
        return subprocess.Popen(
            [*wrapper, "--", *argv],
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log if stdout is None else stdout,
            stderr=log,
            start_new_session=True,
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def rotate(log_path: Path) -> None:
    """Keep one older generation once the log has grown past LOG_BYTES_KEPT."""
    log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if log_path.exists() and log_path.stat().st_size > LOG_BYTES_KEPT:
        log_path.replace(log_path.with_suffix(".log.1"))


def last_lines(log_path: Path, count: int = 20) -> str:
    """The end of a log for an error message; the empty string when there is none."""
    if not log_path.exists():
        return ""
    with log_path.open("rb") as log:
        log.seek(max(0, log_path.stat().st_size - 8192))
        return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-count:])


def stop(process: subprocess.Popen[bytes], steps: Sequence[tuple[signal.Signals, float]]) -> int:
    """Send each signal and wait its seconds until the process is gone, at last SIGKILL. Returns its code."""
    for number, seconds in steps:
        if process.poll() is not None:
            break
        process.send_signal(number)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    return process.wait()
