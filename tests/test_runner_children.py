"""Children: who is charged when one dies, what happens to the others, how much they carry."""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from apps.executions.states import Outcome
from apps.worker.children.estimates import FEWEST_SAMPLES, SHORT_SECONDS, Estimates
from apps.worker.children.handle import ChildHandle
from apps.worker.children.placement import should_grow
from apps.worker.children.zygote import Zygote
from apps.worker.class_slots import STANDARD
from apps.worker.jobs import Assignment, Job
from apps.worker.runner import OVERHEAD_SECONDS
from tests.runner_tools import SOURCES, WAIT_SECONDS, Watched, alive, assignment, lines, until, watched


def test_5000_short_jobs_are_each_reported_once() -> None:
    with watched(slots=16) as runner:
        runner.run(*(assignment("t.noop") for _ in range(200)))
        runner.results.clear()
        given = [assignment("t.noop", n=n) for n in range(5000)]
        for start in range(0, 5000, 250):
            runner.runner.submit(given[start : start + 250])
        results = runner.wait(5000)
        assert runner.runner.drain(WAIT_SECONDS) == []
        assert Counter(r.assignment.execution_id for r in results) == {a.execution_id: 1 for a in given}
        assert {r.outcome for r in results} == {Outcome.SUCCEEDED}
        assert runner.runner.free() == 16


def test_jobs_that_are_known_to_be_short_are_given_no_third_child() -> None:
    estimates, child = Estimates(), SimpleNamespace(started=True, held={1: None}, class_index=1, open=True, long_jobs=0)
    job = cast(Job, SimpleNamespace(name="short", submitted=0.0, assignment=SimpleNamespace(class_index=1)))
    two = cast("dict[int, ChildHandle]", {1: child, 2: child})
    grows = partial(should_grow, two, job, estimates, now=60.0, progress_at=0.0)
    assert grows(), "how long it takes is not known yet"
    for _ in range(FEWEST_SAMPLES):
        estimates.add("short", 1, SHORT_SECONDS / 10)
    assert not grows()
    child.long_jobs = 1
    assert grows(), "nothing short is put behind a long one"


def test_a_death_is_charged_to_what_ran_and_nothing_runs_twice(tmp_path: Path) -> None:
    path = tmp_path / "ran"
    with watched(slots=2) as runner:
        runner.run(*(assignment("t.note", path=str(tmp_path / "warm"), text="x") for _ in range(300)))
        given = []
        for n in range(600):
            dies = n % 100 == 50
            given.append(
                assignment("t.die", path=str(path)) if dies else assignment("t.note", path=str(path), text=str(n))
            )
        results = runner.run(*given)
    outcomes = Counter(result.outcome for result in results)
    assert outcomes == {Outcome.SUCCEEDED: 594, Outcome.CRASHED: 6}
    for result in results:
        if result.outcome is Outcome.CRASHED:
            assert result.error is not None
            assert result.error["message"] == "worker child lost: exit code 9"
    assert Counter(lines(path)) == {
        **{str(n): 1 for n in range(600) if n % 100 != 50},
        "died attempt 1": 6,
    }


def test_signals_are_named() -> None:
    with watched() as runner:
        (result,) = runner.run(assignment("t.crash"))
        assert result.outcome is Outcome.CRASHED
        assert result.error is not None
        assert result.error["message"] == "worker child lost: signal 11"


def test_short_jobs_do_not_wait_behind_ones_that_turned_out_long(tmp_path: Path) -> None:
    """Both children get a job that was short 400 times and is not now, with short ones behind it."""
    with watched(slots=3) as runner:
        runner.run(*(assignment("t.sleep", seconds=0) for _ in range(400)))
        runner.run(*(assignment("t.note", path=str(tmp_path / "known"), text="") for _ in range(100)))
        short = [assignment("t.note", path=str(tmp_path / "n"), text=str(n)) for n in range(100)]
        long = [assignment("t.sleep", seconds=600) for _ in range(2)]
        results = len(runner.results)
        runner.runner.submit([*long, *short])
        for one in short:
            assert runner.result_of(one).outcome is Outcome.SUCCEEDED
        assert len(runner.results) == results + 100, "the long ones still run"
        assert Counter(lines(tmp_path / "n")) == {str(n): 1 for n in range(100)}


def test_deaths_timeouts_and_cancels_in_a_crowd_begin_nothing_twice(tmp_path: Path) -> None:
    """2,000 jobs, most of them short, of which some die, hang or are cancelled at any moment."""
    path, draw = tmp_path / "begun", random.Random(20)  # noqa: S311 - the same crowd each time
    with watched(slots=6) as runner:
        given, cancelled = [], []
        for n in range(2000):
            kind = draw.choices(("short", "medium", "hangs", "dies"), (90, 6, 2, 2))[0]
            seconds = {"short": 0.0, "medium": 0.03}.get(kind, 600.0)
            extra = {"die": True} if kind == "dies" else {}
            one = assignment("t.mixed", timeout=0.1, path=str(path), name=str(n), seconds=seconds, **extra)
            given.append(one)
            if draw.random() < 0.05:
                cancelled.append(one)
        for start in range(0, 2000, 100):
            runner.runner.submit(given[start : start + 100])
        for one in cancelled:
            runner.runner.cancel(one.execution_id)
        results = runner.wait(2000)
        assert runner.runner.drain(WAIT_SECONDS) == []
        assert len(runner.results) == 2000
    assert Counter(result.assignment.execution_id for result in results) == {a.execution_id: 1 for a in given}
    begun = Counter(lines(path))
    assert max(begun.values()) == 1
    for result in results:
        wanted = json.loads(result.assignment.parameters_json or b"")
        if result.outcome is Outcome.SUCCEEDED:
            assert begun[wanted["name"]] == 1
            assert "die" not in wanted
            assert wanted["seconds"] < 1
        elif result.outcome is Outcome.CRASHED:
            assert "die" in wanted
        elif result.outcome is Outcome.CANCELLED:
            assert result.assignment in cancelled
        else:
            assert result.outcome is Outcome.TIMED_OUT


def test_a_stop_that_comes_after_the_end_costs_no_other_child() -> None:
    """The zygote is asked to stop a child that has ended and is not reaped yet: of that it will tell as of an end."""
    ours, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with ours, control:
        Zygote(control, None)._stop(1, pid)
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            ours.recv(1)
    os.waitpid(pid, 0)


def test_children_grow_to_the_slots_for_long_jobs_and_no_further(tmp_path: Path) -> None:
    with watched(slots=6) as runner:
        given = [assignment("t.until", path=str(tmp_path / "enough")) for _ in range(12)]
        runner.runner.submit(given)
        until(lambda: len(runner.runner.running()) == 6, "six at once")
        assert runner.runner.free() == 0
        assert runner.runner.pool.size() == 6
        (tmp_path / "enough").touch()
        results = runner.wait(12)
        assert len({result.result_json for result in results}) == 6


def test_cancel_running_and_queued() -> None:
    with watched(slots=1) as runner:
        running, queued, last = (assignment("t.sleep", seconds=s) for s in (600, 600, 0))
        runner.runner.submit([running, queued, last])
        until(lambda: [r[0] for r in runner.runner.running()] == [running.execution_id], "the first one's start")
        assert runner.runner.cancel(queued.execution_id)
        assert runner.result_of(queued).outcome is Outcome.CANCELLED
        assert runner.runner.cancel(running.execution_id)
        assert runner.result_of(running).outcome is Outcome.CANCELLED
        assert runner.result_of(last).outcome is Outcome.SUCCEEDED
        assert not runner.runner.cancel(running.execution_id)
        assert not runner.runner.cancel(b"\0" * 16)


def test_cancel_in_threads_and_loops(tmp_path: Path) -> None:
    with watched(slots=4) as runner:
        given = [
            assignment("t.async", seconds=600, path=str(tmp_path / "said")),
            assignment("t.thread", seconds=20),
            assignment({"type": "command", "argv": ["sleep", "600"]}),
        ]
        runner.runner.submit(given)
        until(lambda: len(runner.runner.running()) == 3, "three at once")
        until(lambda: lines(tmp_path / "said") == ["begun"], "the coroutine's first step")
        for one in given:
            runner.runner.cancel(one.execution_id)
        assert {runner.result_of(one).outcome for one in given} == {Outcome.CANCELLED}
        assert lines(tmp_path / "said") == ["begun", "cancelled"]


def test_a_coroutine_cancelled_before_its_first_step_is_not_abandoned(tmp_path: Path) -> None:
    """Its loop is busy with another: it counts as running, and has not begun."""
    with watched(slots=4) as runner:
        said = tmp_path / "said"
        busy, behind = assignment("t.async_busy", seconds=1, path=str(said)), assignment("t.async", seconds=600)
        runner.runner.submit([busy])
        until(lambda: lines(said), "the loop's being busy")
        runner.runner.submit([behind])
        until(lambda: len(runner.runner.running()) == 2, "two at once")
        runner.runner.cancel(behind.execution_id)
        cancelled = runner.result_of(behind)
        assert cancelled.outcome is Outcome.CANCELLED
        assert cancelled.error is not None
        assert "abandoned" not in cancelled.error["message"]
        assert runner.result_of(busy).outcome is Outcome.SUCCEEDED
        assert runner.runner.inline.abandoned == 0


def test_drain_waits_for_what_runs() -> None:
    with watched() as runner:
        runner.runner.submit([assignment("t.sleep", seconds=0.5)])
        assert runner.runner.drain(WAIT_SECONDS) == []
        assert [result.outcome for result in runner.results] == [Outcome.SUCCEEDED]


def test_drain_hands_back_what_does_not_end() -> None:
    with watched(slots=1) as runner:
        given = [assignment("t.sleep", seconds=600) for _ in range(3)]
        runner.runner.submit(given)
        until(runner.runner.running, "the first one's start")
        back = runner.runner.drain(0.2)
        assert {one.execution_id for one in back} == {one.execution_id for one in given}
        assert runner.results == []


def test_drain_tells_of_what_had_begun_and_may_not_begin_again() -> None:
    with watched(slots=1) as runner:
        begun, waiting = (replace(assignment("t.sleep", seconds=600), idempotent=False) for _ in range(2))
        runner.runner.submit([begun, waiting])
        until(runner.runner.running, "the first one's start")
        assert runner.runner.drain(0.2) == [waiting]
        [result] = runner.results
        assert (result.assignment, result.outcome) == (begun, Outcome.CRASHED)
        assert result.error is not None
        assert (result.error["type"], result.error["fate"]) == ("WorkerStopped", "unknown")


COMMAND = {"type": "command", "argv": ["sleep", "600"], "environment": {}}


def mean_of(runner: Watched) -> float:
    """Seconds that a job takes, as far as is known; on a busy machine that is longer than the job would need."""
    return max(runner.runner.mean_run_seconds(STANDARD) or 0.0, OVERHEAD_SECONDS)


def test_capacity_follows_the_measured_run_time() -> None:
    with watched(slots=8, floor=200) as runner:
        assert runner.runner.capacity_within(0.05) == 200
        runner.run(*(assignment("t.noop") for _ in range(500)))
        runner.runner.drain(WAIT_SECONDS)
        assert runner.runner.capacity_within(1000 * mean_of(runner)) >= 2000 - 1
    with watched(slots=8, floor=200) as runner:
        runner.run(*(assignment("t.sleep", seconds=0.5) for _ in range(4)))
        runner.runner.drain(WAIT_SECONDS)
        assert runner.runner.capacity_within(0.05) == 8
        runner.runner.submit([assignment("t.sleep", seconds=600) for _ in range(12)])
        assert until(lambda: runner.runner.free() == 0, "no free slot")
        assert runner.runner.capacity_within(0.05) == 0


def test_long_jobs_in_a_class_of_short_ones_do_not_keep_others_waiting() -> None:
    """The mean run time says that hundreds can start within moments; what runs now says that none can."""
    with watched(slots=2, floor=200, stranded_seconds=0.3) as runner:
        for _ in range(20):
            runner.run(*(assignment("t.noop") for _ in range(2)))
        before = mean_of(runner)
        assert runner.runner.capacity_within(100 * before) > 10
        given = [assignment("t.sleep", seconds=600) for _ in range(6)] + [assignment({**COMMAND}) for _ in range(2)]
        runner.runner.submit(given)
        back: list[Assignment] = []

        def six_are_back() -> bool:
            back.extend(runner.runner.take_stranded())
            return len(back) == 6

        until(six_are_back, "what has no slot")
        assert {one.execution_id for one in back} < {one.execution_id for one in given}
        assert len(runner.runner.running()) == 2
        until(lambda: runner.runner.capacity_within(100 * before) == 0, "no promise")
        until(lambda: mean_of(runner) > 2 * before, "a longer mean")
        assert len(runner.results) == 40, "nothing is reported of them"


def test_everything_dies_with_the_worker(open_dir: Path) -> None:
    """Killed with SIGKILL, so that nothing in it can clean up: child, grandchild, command and its child go too."""
    path = open_dir / "pids"
    path.touch()
    path.chmod(0o666)
    program = textwrap.dedent(
        """
        import sys, threading
        from tests.runner_tools import SOURCES, assignment, watched
        path = sys.argv[1]
        with watched(slots=4) as runner:
            shell = f'echo $$ >> {path}; sleep 600 & echo $! >> {path}; wait'
            runner.runner.submit([
                assignment("t.family", path=path),
                assignment("t.sleep", seconds=600, path=path),
                assignment({"type": "command", "argv": ["/bin/sh", "-c", shell]}),
            ])
            threading.Event().wait()
        """
    )
    worker = subprocess.Popen([sys.executable, "-c", program, str(path)])
    try:
        pids = until(lambda: [int(pid) for pid in lines(path)] if len(lines(path)) == 4 else None, "four processes")
        zygotes = [int(p) for p in Path(f"/proc/{worker.pid}/task/{worker.pid}/children").read_text().split()]
        assert all(alive(pid) for pid in pids)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    until(lambda: not any(alive(pid) for pid in [*pids, *zygotes]), "the end of all of them")


def test_close_leaves_no_process() -> None:
    with watched() as runner:
        (result,) = runner.run(assignment("t.sleep", seconds=0))
        runner.runner.submit([assignment("t.sleep", seconds=600)])
        until(runner.runner.running, "its start")
    until(lambda: not alive(int(result.result_json or b"0")), "the child's end")


def test_a_lost_zygote_is_replaced() -> None:
    with watched(slots=2) as runner:
        given = assignment("t.sleep", seconds=600)
        runner.runner.submit([given])
        until(runner.runner.running, "its start")
        zygote = runner.runner.pool.code.zygote
        assert zygote is not None
        os.kill(zygote.pid, signal.SIGKILL)
        assert runner.result_of(given).outcome is Outcome.CRASHED
        (result,) = runner.run(assignment("t.noop"))
        assert result.outcome is Outcome.SUCCEEDED


def test_handlers_that_cannot_be_loaded_at_all_fail_their_jobs_clearly() -> None:
    broken = type(SOURCES)(installed_apps=False, modules=("tests.runner_dying_module",))
    with watched(sources=broken) as runner:
        (result,) = runner.run(assignment("t.noop"))
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["permanent"] is False
        assert "could not be loaded" in result.error["message"]
