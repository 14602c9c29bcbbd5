"""How a runner comes to its end: who is asked to stop, and when; what is left is stopped and handed back."""

import threading
from collections.abc import Callable, Sequence

from apps.worker.jobs import Assignment, Job
from apps.worker.mailbox import Mailbox
from apps.worker.roster import Roster
from apps.worker.routing import Router
from chronoweb.runtime.clock import Clock

HAND_BACK_SECONDS = 16.0
"""Longer than anything that can be stopped takes to stop (inline.py)."""


class Drain:
    """`run` is for the thread that drains, all else for the runner's. running: (execution id, started_us) of what runs.

    long_seconds: what has run for longer when the drain begins is asked at once, as is whatever has left, or leaves, a
    checkpoint: the sooner it goes elsewhere, the better. last_words_seconds: between asking all others and the end.
    """

    def __init__(
        self,
        *,
        router: Router,
        roster: Roster,
        mailbox: Mailbox,
        running: Callable[[], list[tuple[bytes, int]]],
        long_seconds: float,
        last_words_seconds: float,
        clock: Clock,
    ) -> None:
        self._router = router
        self._roster = roster
        self._mailbox = mailbox
        self._running = running
        self._long_us = int(long_seconds * 1e6)
        self._last_words = last_words_seconds
        self._clock = clock
        self._begun = False

    def run(self, grace_seconds: float, *, hurry: threading.Event, take: Callable[[list[Assignment]], None]) -> None:
        """Wait for everything to end; what has not by then is stopped. take: is given what comes back unfinished."""
        self._mailbox.post(self._begin)
        last_words = min(self._last_words, grace_seconds / 2)
        if self._roster.wait_until_empty(grace_seconds - last_words, hurry, take):
            return
        self._mailbox.post(lambda: self._ask(self._roster.all()))
        if self._roster.wait_until_empty(last_words, hurry, take):
            return
        self._mailbox.post(self._stop_all)
        self._roster.wait_until_empty(HAND_BACK_SECONDS, threading.Event(), take)

    def tick(self) -> None:
        """Ask what has left a checkpoint meanwhile."""
        if self._begun:
            self._ask([job for job in self._roster.all() if job.checkpointed])

    def _begin(self) -> None:
        self._begun = True
        edge = int(self._clock.time() * 1e6) - self._long_us
        long = {identity for identity, started_us in self._running() if started_us < edge}
        self._ask([job for job in self._roster.all() if job.assignment.execution_id in long])

    def _stop_all(self) -> None:
        """It is over: nothing that has not ended is reported, all of it is handed back."""
        now = self._clock.monotonic()
        for job in self._roster.all():
            job.released = True
            self._router.stop(job, now)

    def _ask(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if job.asked is None and not job.done:
                self._router.ask(job, "drain")
