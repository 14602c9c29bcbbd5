"""A runner whose results can be waited for, and assignments for it."""

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from apps.executions.states import Outcome
from apps.worker.runner import Assignment, HandlerSources, Runner, RunResult
from tests.waiting import PATIENCE_SECONDS

SOURCES = HandlerSources(installed_apps=False, modules=("tests.runner_handlers",))
WAIT_SECONDS = PATIENCE_SECONDS
PYTHON = (
    sys.executable
    if os.geteuid()
    else next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if os.path.exists(path)), sys.executable)
)
"""A Python for commands. Those of root's tests run as nobody, who may not enter the folder of the tests' own."""
_numbers = itertools.count(1)


def assignment(
    handler: str | dict[str, Any], *, timeout: float = 30.0, attempt: int = 1, **parameters: Any
) -> Assignment:
    """An assignment with an id of its own; a text names a Python handler."""
    number = next(_numbers)
    return Assignment(
        execution_id=os.urandom(16),
        token=(7 << 32) + number,
        attempt=attempt,
        max_attempts=4,
        handler={"type": "python", "name": handler} if isinstance(handler, str) else handler,
        parameters_json=json.dumps(parameters).encode() if parameters else None,
        timeout_seconds=timeout,
        tenant="acme",
        task_name="a task",
        nominal_at_us=1_800_000_000_000_000,
        scheduled_at_us=1_800_000_000_123_456,
        idempotency_key=f"key-{number}",
    )


class Watched:
    """A runner and everything that it reported."""

    def __init__(self, **options: Any) -> None:
        self.results: list[RunResult] = []
        self._changed = threading.Condition()
        self.runner = Runner(**{"slots": 4, "sources": SOURCES, **options, "on_results": self._heard})
        self.runner.start()

    def _heard(self, results: list[RunResult]) -> None:
        with self._changed:
            self.results.extend(results)
            self._changed.notify_all()

    def wait(self, count: int, seconds: float = WAIT_SECONDS) -> list[RunResult]:
        """The results, once there are `count`."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.results) >= count, seconds), (
                f"{len(self.results)} of {count} results after {seconds} s: {self.results[:5]}"
            )
            return list(self.results)

    def run(self, *assignments: Assignment, seconds: float = WAIT_SECONDS) -> list[RunResult]:
        """Submit; the results of exactly these, in the order given. None may have been submitted before."""
        self.runner.submit(assignments)
        return [self.result_of(one, seconds) for one in assignments]

    def has_ended(self, one: Assignment) -> bool:
        """Whether its result is there."""
        return any(result.assignment is one for result in list(self.results))

    def result_of(self, one: Assignment, seconds: float = WAIT_SECONDS) -> RunResult:
        def found() -> RunResult | None:
            return next((r for r in self.results if r.assignment is one), None)

        with self._changed:
            result = self._changed.wait_for(found, seconds)
        assert result is not None, f"no result of {one} after {seconds} s"
        return result


def timed_out(
    runner: Watched, make: Callable[[float], Assignment], *, seconds: float, begun: Callable[[], Any]
) -> RunResult:
    """The result of one that had begun when its timeout came; make: an assignment with that timeout.

    On a busy machine a short timeout ends before the first step: a longer one is tried then.
    """
    for timeout in (seconds, 10 * seconds, WAIT_SECONDS - 10):
        [result] = runner.run(make(timeout))
        assert result.outcome is Outcome.TIMED_OUT, result
        if begun():
            return result
    raise AssertionError("it has not begun within its timeout")


@contextmanager
def watched(**options: Any) -> Iterator[Watched]:
    """A started runner, closed at the end."""
    one = Watched(**options)
    try:
        yield one
    finally:
        one.runner.close()


def until(condition: Callable[[], Any], what: str, seconds: float = WAIT_SECONDS) -> Any:
    """Poll until the condition holds; its value."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come about within {seconds} s"
        pause.wait(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def lines(path: Any) -> Sequence[str]:
    return path.read_text().splitlines() if path.exists() else []
