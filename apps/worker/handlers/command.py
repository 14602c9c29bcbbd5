"""Commands: a program and its arguments, never a shell.

A keeper stands between the zygote and the program: when that ends, times out, is cancelled, or when the worker
dies, everything that it started ends, also what made a session of its own. It runs as its tenant's own user, within
limits, in a folder of its own that is removed afterwards, and finds nothing of the worker's environment.
"""

import asyncio
import errno
import os
import shutil
import signal
import tempfile
from typing import Any
from uuid import UUID

from apps.executions.secret_references import put_in
from apps.executions.states import Outcome
from apps.logs.attempt_log import AttemptLog
from apps.worker.children.zygote_client import death_words
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.command_uids import NoCommandUser
from apps.worker.handlers.programs import Program, Programs, Started
from apps.worker.handlers.report import make_error, report_texts
from apps.worker.jobs import Assignment, Report

HOPELESS = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.E2BIG, errno.ENOTDIR, errno.EISDIR})
_PATH = "/usr/local/bin:/usr/bin:/bin"
_LIMIT_SIGNALS = {
    -int(signal.SIGXCPU): ": it used up its limit cpu_seconds",
    -int(signal.SIGXFSZ): ": a file reached its limit file_size",
}


class CommandStarter:
    """Runs commands on one event loop."""

    def __init__(self, policy: CommandPolicy) -> None:
        self._policy = policy
        self._uids = policy.tenant_uids()
        self._programs = Programs()

    async def run(self, assignment: Assignment, extra: dict[str, Any], log: AttemptLog | None = None) -> Report:
        """One attempt. Exit code 0 succeeds. Cancelled, it kills everything and leaves the output in `extra`."""
        try:
            user = self._take_user(assignment)
        except NoCommandUser as problem:
            return _not_started(str(problem), permanent=not problem.passing)
        directory = tempfile.mkdtemp(prefix="chronoweb-command-")
        started = None
        try:
            if user is not None:
                try:
                    os.chown(directory, *user)
                except OSError as problem:
                    return _not_started(f"no folder of the user {user[0]} can be made: {problem}", permanent=False)
            started = self._programs.start(
                Program(
                    argv=list(assignment.handler["argv"]),
                    directory=directory,
                    environment=_environment(assignment, directory, own_user=user is None),
                    kept=True,
                    user=user,
                    limits=self._policy.limits(assignment.handler.get("limits") or {}, user),
                    stdin=assignment.handler.get("stdin"),
                ),
                log,
            )
            try:
                status = await self._programs.end_of(started)
            except asyncio.CancelledError:
                await self._programs.kill(started)
                extra.update(started.outputs())
                raise
            if started.refused is not None:
                started.outputs()
                return _refused_report(assignment, started.refused)
            return _report(status, started)
        finally:
            # What would not end keeps the tenant's number from others, as long as this worker lives.
            if self._uids is not None and (started is None or started.ended.done()):
                self._uids.release(assignment.tenant)
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def _take_user(self, assignment: Assignment) -> tuple[int, int] | None:
        if self._uids is None:
            return self._policy.user()
        try:
            number = self._uids.take(assignment.tenant)
        except OSError as problem:
            raise NoCommandUser(f"no number for the tenant's commands can be held: {problem}", passing=True) from None
        return number, number

    def close(self) -> None:
        """End the zygote; what it started is killed."""
        self._programs.close()


def attempt_variables(assignment: Assignment) -> dict[str, str]:
    """What every program is told about the attempt that it is."""
    traced = {"TRACEPARENT": assignment.traceparent} if assignment.traceparent else {}
    return {
        "CHRONOWEB_PARAMETERS": (assignment.parameters_json or b"{}").decode(),
        "CHRONOWEB_EXECUTION_ID": str(UUID(bytes=assignment.execution_id)),
        "CHRONOWEB_ATTEMPT": str(assignment.attempt),
        "CHRONOWEB_IDEMPOTENCY_KEY": assignment.idempotency_key,
        "CHRONOWEB_FENCING_TOKEN": str(assignment.token),
        **traced,
    }


def _environment(assignment: Assignment, directory: str, *, own_user: bool) -> dict[str, str]:
    """What the program finds: a base, what its handler names, and what the attempt is.

    own_user: whether it runs as the worker's; another may not be able to enter the folders of the worker's PATH.
    """
    return {
        "PATH": os.environ.get("PATH", _PATH) if own_user else _PATH,
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "HOME": directory,
        "TMPDIR": directory,
        **put_in(assignment.handler.get("environment"), assignment.secrets, assignment.secret_mark),
        **attempt_variables(assignment),
    }


def _report(status: int, started: Started) -> Report:
    outputs = started.outputs()
    if status == 0:
        return report_texts({"exit_code": 0}, outputs)
    code = status if status > 0 else 128 - status
    error = make_error(
        "CommandFailed", f"the command ended with {death_words(status)}{_LIMIT_SIGNALS.get(status, '')}", exit_code=code
    )
    return Report(int(Outcome.FAILED), None, {**error, **outputs})


def _refused_report(assignment: Assignment, problem: OSError) -> Report:
    program = assignment.handler["argv"][0]
    if problem.errno == errno.E2BIG:
        text = "parameters, arguments and environment are too large for a program (128 KiB each)"
    else:
        text = f"{program!r} cannot be started: {problem.strerror or problem}"
        if " " in program and problem.errno == errno.ENOENT:
            text += (
                "; it counts as one program's name: its arguments are items of their own, and a shell line is run by "
            )
            text += '["/bin/sh", "-c", "the line"]'
    return _not_started(text, permanent=problem.errno in HOPELESS or problem.errno == 0)


def _not_started(text: str, *, permanent: bool) -> Report:
    return Report(int(Outcome.FAILED), None, make_error("CommandNotStarted", text, permanent=permanent))
