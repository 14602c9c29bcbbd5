"""The process between the zygote and one command: whatever the command starts ends with it.

It adopts the command's orphans, so that a process that left its group and its session is still among its
descendants. When the command ends, or SIGTERM comes (from the zygote, or from the kernel when that died), it
kills all of them, says how the command ended, and ends. It keeps the worker's user, out of the command's reach.
"""

import json
import marshal
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from typing import Any, BinaryIO, NoReturn

from apps.worker.children.confinement import adopt_orphans, forbid_new_rights, set_limits
from apps.worker.children.descendants import end_descendants
from apps.worker.children.with_parent import die_with_parent

ROUNDS = 500
"""Of some ms each. What outlasts them falls to the zygote."""
LEFT_BEHIND = 75
SIGNALS = (signal.SIGTERM, signal.SIGCHLD)


def read_spec(descriptor: int) -> dict[str, Any]:
    """What to start: argv, directory, environment, and what handlers/programs.py adds."""
    data: dict[str, Any] = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    return data


def start(spec: dict[str, Any], stdout: int, stderr: int, prepare: Callable[[], None]) -> int:
    """Start the program in a session of its own; its pid, which the caller reaps. Raises OSError.

    `prepare` runs last before it, as its user.
    """
    user = spec.get("user")
    identity: dict[str, Any] = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}
    with _standard_input(spec.get("stdin")) as stdin:
        process = subprocess.Popen(
            spec["argv"],
            cwd=spec["directory"],
            env=spec["environment"],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=prepare,  # safe: neither the zygote nor a keeper has threads
            **identity,
        )
    process.returncode = 0  # else Popen reaps it when it is forgotten
    return process.pid


def _standard_input(text: str | None) -> BinaryIO:
    """A file to read from, in memory: unlike a pipe it needs nobody who feeds it while the program runs."""
    if text is None:
        return open(os.devnull, "rb")
    file = open(os.memfd_create("chronoweb-stdin", os.MFD_CLOEXEC), "w+b", buffering=0)
    file.write(text.encode())
    file.seek(0)
    return file


def refusal(key: int, problem: Exception) -> tuple[Any, ...]:
    """The message that a program could not be started."""
    number = getattr(problem, "errno", None) or 0
    return ("refused", key, number, getattr(problem, "strerror", None) or str(problem))


def keep(key: int, descriptors: list[int], control: socket.socket, zygote: int) -> NoReturn:
    """Start the command under `key`, and see to its end. Runs in a fork of the zygote; never returns."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # as they have been since the fork
    die_with_parent(zygote, signal.SIGTERM)
    adopt_orphans()
    spec_fd, stdout, stderr = descriptors
    spec = read_spec(spec_fd)
    keeper = os.getpid()

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        die_with_parent(keeper)
        forbid_new_rights()
        set_limits(spec["limits"])

    try:
        pid = start(spec, stdout, stderr, prepare)
    except (OSError, ValueError, subprocess.SubprocessError) as problem:
        _say(control, refusal(key, problem))
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)  # the pipes end with the last that writes
    status = _wait(pid)
    all_ended = end_descendants(rounds=ROUNDS)
    _say(control, ("exited", key, status))
    os._exit(0 if all_ended else LEFT_BEHIND)


def _wait(pid: int) -> int:
    """How `pid` ended, as Popen.returncode; -9 if it is to be killed."""
    while signal.sigwait(SIGNALS) == signal.SIGCHLD:
        while (seen := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)) is not None:
            if seen.si_pid == pid:
                return int(seen.si_status if seen.si_code == os.CLD_EXITED else -seen.si_status)
    return -int(signal.SIGKILL)


def _say(control: socket.socket, message: tuple[Any, ...]) -> None:
    try:
        control.send(marshal.dumps(message))
    except OSError:
        os._exit(0)  # the worker is gone: nobody listens
