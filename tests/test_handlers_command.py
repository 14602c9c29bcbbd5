"""Commands: arguments stay literal, output is kept, the whole process group ends."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
import pytest

from apps.executions.states import Outcome
from apps.worker.runner import Assignment
from tests.runner_tools import PYTHON, Watched, alive, assignment, lines, timed_out, until, watched

SHOW = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]))"
NASTY = ["; id", "$(id)", "`id`", "line\nbreak", "-rf", "*", "a b", "'", '"', "ü", ""]


def command(
    *argv: str, timeout: float = 30.0, environment: dict[str, str] | None = None, **parameters: Any
) -> Assignment:
    spec = {"type": "command", "argv": list(argv), "environment": environment or {}}
    return assignment(spec, timeout=timeout, **parameters)


@pytest.fixture(scope="module")
def runner() -> Iterator[Watched]:
    with watched(slots=8) as one:
        yield one


def test_success(runner: Watched) -> None:
    (result,) = runner.run(command("/bin/sh", "-c", "echo out; echo err >&2"))
    assert result.outcome is Outcome.SUCCEEDED
    assert json.loads(result.result_json or b"") == {"exit_code": 0, "stdout": "out\n", "stderr": "err\n"}


def test_standard_input(runner: Watched) -> None:
    cat = {"type": "command", "argv": ["cat"], "environment": {}}
    for given in (None, "", "two\nlines $(id)\n", "x" * 65_000):
        (result,) = runner.run(assignment({**cat, "stdin": given}, timeout=30.0))
        assert json.loads(result.result_json or b"")["stdout"] == (given or "")


def test_arguments_and_parameters_stay_literal(runner: Watched) -> None:
    given = command(PYTHON, "-c", SHOW, *NASTY, environment={"GIVEN": "$HOME; id"}, p="$(id)\n; id")
    (result,) = runner.run(given)
    arguments, environment, directory = json.loads(json.loads(result.result_json or b"")["stdout"])
    assert arguments == NASTY
    assert json.loads(environment["CHRONOWEB_PARAMETERS"]) == {"p": "$(id)\n; id"}
    assert environment["GIVEN"] == "$HOME; id"
    assert environment["CHRONOWEB_EXECUTION_ID"] == str(UUID(bytes=given.execution_id))
    assert environment["CHRONOWEB_ATTEMPT"] == "1"
    assert environment["CHRONOWEB_IDEMPOTENCY_KEY"] == given.idempotency_key
    assert environment["CHRONOWEB_FENCING_TOKEN"] == str(given.token)
    assert environment["HOME"] == directory
    until(lambda: not Path(directory).exists(), "the removal of the working folder")


def test_the_workers_environment_is_not_handed_on(runner: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    (result,) = runner.run(command(PYTHON, "-c", SHOW))
    _, environment, _ = json.loads(json.loads(result.result_json or b"")["stdout"])
    given = {name for name in environment if not name.startswith("CHRONOWEB_")} - {"LC_CTYPE"}
    assert given == {"PATH", "LANG", "HOME", "TMPDIR"}


def test_the_parent_of_a_command_is_a_closed_book(runner: Watched) -> None:
    """Whether a command runs as another user or as the worker's own. What the parent knows has a test of its own."""
    (result,) = runner.run(command("/bin/sh", "-c", "cat /proc/$PPID/environ"))
    assert result.error is not None
    assert "Permission denied" in result.error["stderr"]


def test_failure_keeps_the_output(runner: Watched) -> None:
    (result,) = runner.run(command("/bin/sh", "-c", "echo half; printf 'n\\0ul' >&2; exit 7"))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["message"] == "the command ended with exit code 7"
    assert (result.error["exit_code"], result.error["permanent"]) == (7, False)
    assert (result.error["stdout"], result.error["stderr"]) == ("half\n", "n\N{REPLACEMENT CHARACTER}ul")


def test_a_signal_is_named(runner: Watched) -> None:
    (result,) = runner.run(command("/bin/sh", "-c", "kill -SEGV $$"))
    assert result.error is not None
    assert "signal 11" in result.error["message"]


@pytest.mark.parametrize("program", ["no-such-program-here", "/no/such/program", "/etc/passwd", "/"])
def test_what_cannot_be_started_fails_for_good(runner: Watched, program: str) -> None:
    (result,) = runner.run(command(program))
    assert result.outcome is Outcome.FAILED
    assert result.error is not None
    assert result.error["permanent"] is True
    assert repr(program) in result.error["message"]


def test_parameters_too_large_for_an_environment_fail_for_good(runner: Watched) -> None:
    (result,) = runner.run(command("true", big="x" * 200_000))
    assert result.error is not None
    assert result.error["permanent"] is True
    assert "too large" in result.error["message"]


@pytest.mark.parametrize("byte", ["y", "\x1b", "\0"])
def test_the_last_64_kib_of_output_are_kept(runner: Watched, byte: str) -> None:
    program = f"import sys; sys.stdout.write({byte!r} * 3_000_000 + 'end'); sys.stderr.write('e' * 200_000)"
    (result,) = runner.run(command(PYTHON, "-c", program))
    assert result.outcome is Outcome.SUCCEEDED
    kept = json.loads(result.result_json or b"")
    assert kept["stdout"].endswith("end")
    assert len(kept["stdout"]) <= 65537
    assert len(result.result_json or b"") <= 256 * 1024


def test_timeout_kills_the_group_and_keeps_the_output(runner: Watched, open_dir: Path) -> None:
    script = f"echo before; sleep 600 & echo $! > {open_dir}/pid; trap '' TERM; wait"

    def group(timeout: float) -> Assignment:
        return command("/bin/sh", "-c", script, timeout=timeout)

    result = timed_out(runner, group, seconds=0.5, begun=lambda: lines(open_dir / "pid"))
    assert result.error is not None
    assert result.error["stdout"] == "before\n"
    (pid,) = lines(open_dir / "pid")
    until(lambda: not alive(int(pid)), "the grandchild's end")


def test_what_a_command_leaves_behind_in_its_group_is_killed(runner: Watched, open_dir: Path) -> None:
    script = f"sleep 600 & echo $! > {open_dir}/pid"
    (result,) = runner.run(command("/bin/sh", "-c", script))
    assert result.outcome is Outcome.SUCCEEDED
    (pid,) = lines(open_dir / "pid")
    until(lambda: not alive(int(pid)), "the grandchild's end")


DAEMON = """
import os, signal, sys, time
path, stay = sys.argv[1:]
for number in range(40):
    signal.signal(number, signal.SIG_IGN) if number not in (0, 9, 19, 32, 33) else None
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        os.closerange(0, 3)
        open(path, "w").write(str(os.getpid()))
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {})
    os._exit(0)
while not os.path.exists(path) or not open(path).read():
    time.sleep(0.01)
time.sleep(float(stay))
"""
"""Leaves a process in a session of its own, without parent, marks or pipes."""


def test_a_daemon_ends_with_its_command(runner: Watched, open_dir: Path) -> None:
    (result,) = runner.run(command(PYTHON, "-c", DAEMON, str(open_dir / "pid"), "0"))
    assert result.outcome is Outcome.SUCCEEDED
    assert not alive(int((open_dir / "pid").read_text()))


@pytest.mark.parametrize("how", ["timeout", "cancel"])
def test_a_daemon_ends_with_a_command_that_is_stopped(runner: Watched, open_dir: Path, how: str) -> None:
    def daemon(timeout: float) -> Assignment:
        return command(PYTHON, "-c", DAEMON, str(open_dir / "pid"), "600", timeout=timeout)

    if how == "timeout":
        timed_out(runner, daemon, seconds=1.5, begun=lambda: lines(open_dir / "pid"))
    else:
        given = daemon(600.0)
        runner.runner.submit([given])
        until(lambda: lines(open_dir / "pid"), "the daemon's start")
        assert runner.runner.cancel(given.execution_id)
        assert runner.result_of(given).outcome is Outcome.CANCELLED
    (pid,) = lines(open_dir / "pid")
    assert not alive(int(pid))


def test_a_keeper_that_is_killed_leaves_nothing(runner: Watched, open_dir: Path) -> None:
    given = command(PYTHON, "-c", DAEMON, str(open_dir / "pid"), "600")
    runner.runner.submit([given])
    (pid,) = until(lambda: lines(open_dir / "pid"), "the daemon's start")

    def keeper() -> int | None:
        """Who has adopted the daemon, once the process that it was forked from has ended."""
        parent = psutil.Process(int(pid)).parent()
        with suppress(psutil.NoSuchProcess):
            return parent.pid if parent and "apps.worker.children.zygote" in parent.cmdline() else None
        return None

    os.kill(until(keeper, "its adoption"), signal.SIGKILL)
    assert runner.result_of(given).outcome is Outcome.FAILED
    until(lambda: not alive(int(pid)), "the daemon's end")


def test_descriptors_do_not_leak(runner: Watched) -> None:
    runner.run(*(command("true") for _ in range(5)))
    until(lambda: not runner.runner.running(), "the end of all")
    before = len(os.listdir("/proc/self/fd"))
    results = runner.run(*(command("true") for _ in range(40)), *(command("no-such-program") for _ in range(10)))
    assert {result.outcome for result in results} == {Outcome.SUCCEEDED, Outcome.FAILED}
    # Other threads of this process may have opened some meanwhile.
    until(lambda: len(os.listdir("/proc/self/fd")) < before + 20, "the return of all descriptors")
