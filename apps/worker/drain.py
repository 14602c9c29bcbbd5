"""How a runner comes to its end: who is asked to stop, and when; what is left is stopped and handed back."""

from collections.abc import Callable, Sequence

from apps.worker.jobs import Job
from apps.worker.routing import Router
from chronoweb.runtime.clock import Clock


class Drain:
    """Used by the runner's thread. jobs: all that have not ended. running: (execution id, started_us) of what runs.

    long_seconds: what has run for longer when the drain begins is asked at once, as is whatever has left, or leaves, a
    checkpoint: the sooner it goes elsewhere, the better.
    """

    def __init__(
        self,
        *,
        router: Router,
        jobs: Callable[[], list[Job]],
        running: Callable[[], list[tuple[bytes, int]]],
        long_seconds: float,
        clock: Clock,
    ) -> None:
        self._router = router
        self._jobs = jobs
        self._running = running
        self._long_us = int(long_seconds * 1e6)
        self._clock = clock
        self._begun = False

    def begin(self) -> None:
        self._begun = True
        edge = int(self._clock.time() * 1e6) - self._long_us
        long = {identity for identity, started_us in self._running() if started_us < edge}
        self._ask([job for job in self._jobs() if job.assignment.execution_id in long])

    def tick(self) -> None:
        """Ask what has left a checkpoint meanwhile."""
        if self._begun:
            self._ask([job for job in self._jobs() if job.checkpointed])

    def ask_all(self) -> None:
        """The grace is nearly over."""
        self._ask(self._jobs())

    def stop_all(self) -> None:
        """It is over: nothing that has not ended is reported, all of it is handed back."""
        now = self._clock.monotonic()
        for job in self._jobs():
            job.released = True
            self._router.stop(job, now)

    def _ask(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.asked is None and not job.done:
                self._router.ask(job, "drain")
