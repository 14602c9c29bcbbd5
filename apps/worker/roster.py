"""What a runner has been given and has not ended: kept for every thread, and waited for by the one that drains."""

import itertools
import threading
from collections.abc import Callable, Sequence

from apps.worker.class_slots import CLASSES
from apps.worker.jobs import Assignment, Job
from chronoweb.runtime.clock import Clock

_SLICE_SECONDS = 0.1
"""Who waits looks this often whether it must hurry."""


class Roster:
    """Safe to use from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._by_id: dict[bytes, list[Job]] = {}
        self._numbers = itertools.count(1)
        self._handed_back: list[Assignment] = []
        self.count = 0
        """Jobs that have not ended."""
        self.of_class = [0] * CLASSES
        """The same, by class of work."""

    def add(self, assignments: Sequence[Assignment]) -> list[Job]:
        """A job for each, in order."""
        now = self._clock.monotonic()
        jobs = [Job(next(self._numbers), a, _python_name(a), now) for a in assignments]
        with self._lock:
            self.count += len(jobs)
            for job in jobs:
                self.of_class[job.assignment.class_index] += 1
                self._by_id.setdefault(job.assignment.execution_id, []).append(job)
        return jobs

    def hand_back(self, job: Job) -> None:
        """It goes back, unfinished: to who waits in `wait_until_empty`, or asks for it."""
        with self._lock:
            self._handed_back.append(job.assignment)

    def take_handed_back(self) -> list[Assignment]:
        """What has gone back unfinished and was not taken yet."""
        if not self._handed_back:
            return []
        with self._lock:
            handed_back, self._handed_back = self._handed_back, []
        return handed_back

    def remove(self, job: Job) -> None:
        """It has ended."""
        with self._lock:
            jobs = self._by_id[job.assignment.execution_id]
            jobs.remove(job)
            if not jobs:
                del self._by_id[job.assignment.execution_id]
            self.count -= 1
            self.of_class[job.assignment.class_index] -= 1
            if not self.count:
                self._changed.notify_all()

    def of(self, execution_id: bytes) -> list[Job]:
        """The jobs of an execution; mostly one or none."""
        with self._lock:
            return list(self._by_id.get(execution_id, ()))

    def all(self) -> list[Job]:
        """Every job."""
        with self._lock:
            return [job for several in self._by_id.values() for job in several]

    def wait_until_empty(
        self, seconds: float, hurry: threading.Event, take: Callable[[list[Assignment]], None]
    ) -> bool:
        """Until nothing is left, the time is over, or a hurry; what is handed back meanwhile is taken as it comes."""
        until = self._clock.monotonic() + seconds
        while True:
            with self._lock:
                left = until - self._clock.monotonic()
                self._changed.wait_for(
                    lambda: not self.count or self._handed_back, timeout=max(0.0, min(left, _SLICE_SECONDS))
                )
                handed_back, self._handed_back = self._handed_back, []
                ended = not self.count
            if handed_back:
                take(handed_back)
            if ended or left <= 0 or hurry.is_set():
                return ended


def _python_name(assignment: Assignment) -> str:
    handler = assignment.handler
    return str(handler.get("name", "")) if handler.get("type") == "python" else ""
