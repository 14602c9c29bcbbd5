"""Starts claimed executions at run_at on this worker's own timer, never before it by the database's clock."""

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence

from apps.worker.class_slots import CLASSES
from apps.worker.jobs import Assignment
from chronoweb.runtime.database_clock import DatabaseClock

_SHORTEST_WAIT_SECONDS = 0.0001


class Starter:
    """Holds what is claimed and not due; hands it on when it is."""

    def __init__(self, submit: Callable[[Sequence[Assignment]], None], clock: DatabaseClock) -> None:
        self._submit = submit
        self._clock = clock
        self._waiting: list[tuple[int, int, Assignment]] = []
        self._order = itertools.count()
        self._of_class = [0] * CLASSES
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="starter", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        """False after a fault ended the thread: what is claimed would never start."""
        return self._thread.is_alive()

    def __len__(self) -> int:
        return len(self._waiting)

    def waiting(self, class_index: int) -> int:
        """How many of a class are held."""
        return self._of_class[class_index]

    def add(self, assignments: Sequence[tuple[int, Assignment]]) -> None:
        """Take (run_at in microseconds, assignment); those due already are handed on at once. Once it is closed nothing
        begins any more: the ledger knows what was claimed.
        """
        now = self._clock.now_us()
        due = [assignment for run_at, assignment in assignments if run_at <= now]
        later = [pair for pair in assignments if pair[0] > now]
        with self._changed:
            if self._closing:
                return
            if due:
                self._submit(due)
            for run_at, assignment in later:
                heapq.heappush(self._waiting, (run_at, next(self._order), assignment))
                self._of_class[assignment.class_index] += 1
            if later:
                self._changed.notify()

    def close(self) -> list[Assignment]:
        """Stop; what was not started is the caller's to give back. Nothing is handed on after this has returned."""
        with self._changed:
            self._closing = True
            left = [assignment for _, _, assignment in self._waiting]
            self._waiting.clear()
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()  # it may be about to hand on what has just come due
        return left

    def _run(self) -> None:
        while not self._closing:
            with self._changed:
                now = self._clock.now_us()
                due: list[Assignment] = []
                while self._waiting and self._waiting[0][0] <= now:
                    assignment = heapq.heappop(self._waiting)[2]
                    self._of_class[assignment.class_index] -= 1
                    due.append(assignment)
                if not due:
                    wait = (self._waiting[0][0] - now) / 1e6 if self._waiting else None
                    self._changed.wait(None if wait is None else max(_SHORTEST_WAIT_SECONDS, wait))
                    continue
            self._submit(due)
