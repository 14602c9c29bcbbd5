"""Commands: a program and its arguments, never a shell.

The program is started by a zygote that loads no handlers, so that nothing forks from a process with threads; it
leads a session of its own, and its whole process group is killed when it ends, times out, is cancelled, or when
the worker dies. A process that leaves its group (a daemon) is beyond that.
"""

import asyncio
import errno
import json
import os
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from apps.executions.states import Outcome
from apps.worker.children.zygote_client import ZygoteClient, death_words
from apps.worker.handlers.report import clean_text, make_error, report_texts
from apps.worker.jobs import Assignment, Report

OUTPUT_BYTES = 64 * 1024
PIPES_SECONDS = 1.0
"""How long after the end its pipes may stay open: a process that left the group may hold them for ever."""
KILL_SECONDS = 5.0
HOPELESS = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR, errno.EISDIR})


class Tail:
    """Reads one pipe on the event loop and keeps its last 64 KiB."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._read_end, self.write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        self._kept = bytearray()
        self._dropped = False
        self.closed = loop.create_future()
        loop.add_reader(self._read_end, self._read)

    def _read(self) -> None:
        try:
            data = os.read(self._read_end, OUTPUT_BYTES)
        except BlockingIOError:
            return
        if not data:
            self.close()
            return
        self._kept += data
        if len(self._kept) > OUTPUT_BYTES:
            del self._kept[:-OUTPUT_BYTES]
            self._dropped = True

    def text(self) -> str:
        text = clean_text(self._kept.decode("utf-8", "replace"), OUTPUT_BYTES)
        return f"…{text}" if self._dropped else text

    def close(self) -> None:
        if not self.closed.done():
            self._loop.remove_reader(self._read_end)
            os.close(self._read_end)
            self.closed.set_result(None)


@dataclass(slots=True, eq=False)
class Started:
    """One command that was asked for."""

    ended: asyncio.Future[int]
    """Its exit status as Popen.returncode."""
    refused: OSError | None = None
    tails: list[Tail] = field(default_factory=list)


class CommandStarter:
    """Starts commands from one event loop."""

    def __init__(self) -> None:
        self._zygote: ZygoteClient | None = None
        self._commands: dict[int, Started] = {}
        self._last_key = 0

    async def run(self, assignment: Assignment, extra: dict[str, Any]) -> Report:
        """One attempt. Exit code 0 succeeds. Cancelled, it kills the group and leaves the output in `extra`."""
        directory = tempfile.mkdtemp(prefix="chronoweb-command-")
        try:
            key, command = self._start(assignment, directory)
            try:
                status = await asyncio.shield(command.ended)
            except asyncio.CancelledError:
                await self._kill(key, command)
                extra.update(_outputs(command))
                raise
            if command.refused is not None:
                return _refused_report(assignment, command.refused)
            await asyncio.wait([tail.closed for tail in command.tails], timeout=PIPES_SECONDS)
            return _report(status, command)
        finally:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def close(self) -> None:
        """End the zygote; what it started is killed."""
        if self._zygote is not None:
            asyncio.get_running_loop().remove_reader(self._zygote.fileno())
            self._zygote.close()
            self._zygote.reap(wait_seconds=5.0)
            self._zygote = None

    def _start(self, assignment: Assignment, directory: str) -> tuple[int, Started]:
        loop = asyncio.get_running_loop()
        if self._zygote is None:
            self._zygote = ZygoteClient(None)
            loop.add_reader(self._zygote.fileno(), self._hear)
        self._last_key += 1
        command = Started(loop.create_future(), tails=[Tail(loop), Tail(loop)])
        self._commands[self._last_key] = command
        spec = {
            "argv": list(assignment.handler["argv"]),
            "directory": directory,
            "environment": _environment(assignment, directory),
        }
        spec_fd = os.memfd_create("chronoweb-command", os.MFD_CLOEXEC)
        os.write(spec_fd, json.dumps(spec).encode())
        self._zygote.ask("spawn", self._last_key, [spec_fd, *(tail.write_end for tail in command.tails)])
        return self._last_key, command

    async def _kill(self, key: int, command: Started) -> None:
        if self._zygote is not None:
            self._zygote.ask("kill", key)
        await asyncio.wait([command.ended, *(tail.closed for tail in command.tails)], timeout=KILL_SECONDS)
        for tail in command.tails:
            tail.close()

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
            for key in list(self._commands):
                self._end(key, -9, None)

    def _end(self, key: int, status: int, refused: OSError | None) -> None:
        command = self._commands.pop(key, None)
        if command is not None and not command.ended.done():
            command.refused = refused
            command.ended.set_result(status)


def _environment(assignment: Assignment, directory: str) -> dict[str, str]:
    """What the program finds: little of the worker's own environment, which holds the installation's secrets."""
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": directory,
        **{str(name): str(value) for name, value in (assignment.handler.get("environment") or {}).items()},
        "CHRONOWEB_PARAMETERS": (assignment.parameters_json or b"{}").decode(),
        "CHRONOWEB_EXECUTION_ID": str(UUID(bytes=assignment.execution_id)),
        "CHRONOWEB_ATTEMPT": str(assignment.attempt),
        "CHRONOWEB_IDEMPOTENCY_KEY": assignment.idempotency_key,
        "CHRONOWEB_FENCING_TOKEN": str(assignment.token),
    }


def _outputs(command: Started) -> dict[str, str]:
    stdout, stderr = command.tails
    texts = {"stdout": stdout.text(), "stderr": stderr.text()}
    for tail in command.tails:
        tail.close()
    return texts


def _report(status: int, command: Started) -> Report:
    outputs = _outputs(command)
    if status == 0:
        return report_texts({"exit_code": 0}, outputs)
    code = status if status > 0 else 128 - status
    error = make_error("CommandFailed", f"the command ended with {death_words(status)}", exit_code=code)
    return Report(int(Outcome.FAILED), None, {**error, **outputs})


def _refused_report(assignment: Assignment, problem: OSError) -> Report:
    program = assignment.handler["argv"][0]
    if problem.errno == errno.E2BIG:
        text = "parameters, arguments and environment are too large for a program (128 KiB each)"
    else:
        text = f"{program!r} cannot be started: {problem.strerror or problem}"
    error = make_error("CommandNotStarted", text, permanent=problem.errno in HOPELESS or problem.errno == 0)
    return Report(int(Outcome.FAILED), None, error)
