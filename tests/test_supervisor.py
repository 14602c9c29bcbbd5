"""The supervisor: what dies comes back, what must stop stops in time, nothing is left."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psutil
import pytest

from apps.quickstart.supervisor import ManagedProcess, Supervisor
from tests.waiting import PATIENCE_SECONDS, eventually

ROOT = Path(__file__).resolve().parent.parent
OBEDIENT = "import signal; print('ready', flush=True); signal.pause()"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + OBEDIENT
WITH_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]);" + OBEDIENT
SHORT_LIVED = "print('ready', flush=True)"
SUPERVISING = """
import sys
from pathlib import Path
from apps.quickstart.supervisor import ManagedProcess, Supervisor
Supervisor([
    ManagedProcess(name, (sys.executable, "-c", code), {}, Path(sys.argv[1]) / f"{name}.log")
    for name, code in zip(sys.argv[2::2], sys.argv[3::2])
]).run_until_signal()
"""


def managed(folder: Path, name: str, code: str, *, stop_group: int = 0, nice: int = 0) -> ManagedProcess:
    return ManagedProcess(name, (sys.executable, "-c", code), {}, folder / f"{name}.log", stop_group, nice)


def ready_count(folder: Path, name: str) -> int:
    path = folder / f"{name}.log"
    return path.read_text().count("ready") if path.exists() else 0


@pytest.fixture
def supervise() -> Iterator[Callable[..., Supervisor]]:
    """Starts supervisors and stops them afterwards, whatever the test did."""
    started: list[Supervisor] = []

    def start(*processes: ManagedProcess) -> Supervisor:
        supervisor = Supervisor(processes)
        started.append(supervisor)
        supervisor.start()
        for process in processes:
            eventually(partial(ready_count, process.log_path.parent, process.name))
        return supervisor

    yield start
    for supervisor in started:
        supervisor.stop(grace_seconds=0.1)


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_killed_child_is_restarted(tmp_path: Path, supervise: Callable[..., Supervisor]) -> None:
    supervisor = supervise(managed(tmp_path, "web", OBEDIENT, nice=2), managed(tmp_path, "worker", OBEDIENT))
    before = supervisor.pids()
    assert psutil.Process(before["web"]).nice() == psutil.Process(before["worker"]).nice() + 2
    os.kill(before["worker"], signal.SIGKILL)

    def restarted() -> bool:
        supervisor.check()
        return supervisor.pids().get("worker", before["worker"]) != before["worker"]

    eventually(restarted)
    assert supervisor.pids()["web"] == before["web"]
    eventually(lambda: ready_count(tmp_path, "worker") == 2)


def test_what_dies_again_and_again_waits_longer_each_time(
    tmp_path: Path, supervise: Callable[..., Supervisor], caplog: pytest.LogCaptureFixture
) -> None:
    supervisor = supervise(managed(tmp_path, "broken", SHORT_LIVED))
    for expected_seconds in (0.2, 0.4, 0.8):
        pause = eventually(supervisor.check)
        assert pause is not None
        assert pause <= expected_seconds
        assert f"died, restarting it in {expected_seconds} s" in caplog.messages[-1]
        eventually(lambda: supervisor.check() is None)


def test_groups_stop_one_after_the_other(
    tmp_path: Path, supervise: Callable[..., Supervisor], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="apps.quickstart.supervisor")
    supervisor = supervise(
        managed(tmp_path, "daemon", OBEDIENT, stop_group=1), managed(tmp_path, "web", OBEDIENT, stop_group=0)
    )
    pids = supervisor.pids()
    supervisor.stop(grace_seconds=PATIENCE_SECONDS)
    exits = [message for message in caplog.messages if "exited" in message]
    assert exits == [f"web exited, pid {pids['web']}, code -15", f"daemon exited, pid {pids['daemon']}, code -15"]


def test_what_ignores_sigterm_is_killed_when_grace_is_over(
    tmp_path: Path, supervise: Callable[..., Supervisor]
) -> None:
    supervisor = supervise(managed(tmp_path, "stubborn", STUBBORN), managed(tmp_path, "obedient", OBEDIENT))
    pids = list(supervisor.pids().values())
    supervisor.stop(grace_seconds=1.0)
    assert all(is_gone(pid) for pid in pids)
    assert supervisor.pids() == {}
    assert supervisor.check() is None  # nothing that was stopped is restarted


def test_what_a_process_leaves_in_its_group_goes_with_it(tmp_path: Path, supervise: Callable[..., Supervisor]) -> None:
    supervisor = supervise(managed(tmp_path, "parent", WITH_CHILD))
    eventually(lambda: ready_count(tmp_path, "parent") == 2)
    (child,) = psutil.Process(supervisor.pids()["parent"]).children()
    supervisor.stop()
    eventually(lambda: is_gone(child.pid))


@pytest.fixture
def supervising(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    """A supervisor in a process of its own, with one obedient and one stubborn child."""
    with supervising_process(tmp_path, obedient=OBEDIENT, stubborn=STUBBORN) as running:
        yield running


@contextmanager
def supervising_process(
    folder: Path, **children: str
) -> Iterator[tuple[subprocess.Popen[bytes], list[psutil.Process]]]:
    arguments = [text for name, code in children.items() for text in (name, code)]
    parent = subprocess.Popen([sys.executable, "-c", SUPERVISING, str(folder), *arguments], cwd=ROOT)
    try:
        for name in children:
            eventually(partial(ready_count, folder, name))
        yield parent, psutil.Process(parent.pid).children()
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_stops_all_and_ends_the_supervisor_well(tmp_path: Path, number: signal.Signals) -> None:
    with supervising_process(tmp_path, one=OBEDIENT, other=OBEDIENT) as (parent, children):
        parent.send_signal(number)
        assert parent.wait(PATIENCE_SECONDS) == 0
        assert [is_gone(child.pid) for child in children] == [True, True]


def test_even_a_stubborn_child_is_stopped(
    supervising: tuple[subprocess.Popen[bytes], list[psutil.Process]],
) -> None:
    parent, children = supervising
    parent.send_signal(signal.SIGTERM)
    assert parent.wait(PATIENCE_SECONDS) == 0
    assert [is_gone(child.pid) for child in children] == [True, True]


def test_kill_9_of_the_supervisor_leaves_nobody(
    supervising: tuple[subprocess.Popen[bytes], list[psutil.Process]],
) -> None:
    parent, children = supervising
    parent.kill()
    parent.wait()
    eventually(lambda: all(is_gone(child.pid) for child in children))


def test_run_until_signal_restarts_on_its_own(
    tmp_path: Path, supervising: tuple[subprocess.Popen[bytes], list[psutil.Process]]
) -> None:
    _, children = supervising
    for child in children:
        child.kill()
    eventually(lambda: ready_count(tmp_path, "obedient") == 2 and ready_count(tmp_path, "stubborn") == 2)
