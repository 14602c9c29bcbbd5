"""Runs assignments and reports how they ended.

One thread owns the queues, the children and the bookkeeping; the methods of `Runner` may be called from any
thread and only hand it things to do. Results go to `on_results`, in batches, on that thread.
"""

import contextlib
import logging
import math
import selectors
import threading
from collections.abc import Callable, Sequence
from typing import Any

from apps.executions.states import Outcome
from apps.logs.desk import LogDesk
from apps.worker.children.estimates import SHORT_SECONDS
from apps.worker.children.placement import SHORT_CHILDREN
from apps.worker.children.pool import ProcessPool
from apps.worker.class_slots import CLASSES, STANDARD, ClassSlots, Lending
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.drain import HAND_BACK_SECONDS, Drain
from apps.worker.endings import Endings
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.report import make_error
from apps.worker.handlers.sources import HandlerSources
from apps.worker.inline import InlineJobs
from apps.worker.inline_line import InlineLine
from apps.worker.jobs import Assignment, Job, NoteTaker, Report, RunResult
from apps.worker.mailbox import Mailbox
from apps.worker.output.logs import JobLogs
from apps.worker.roster import Roster
from apps.worker.routing import Router
from apps.worker.sayings import Sayings
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["Assignment", "HandlerSources", "RunResult", "Runner"]

log = logging.getLogger(__name__)
TICK_SECONDS = 0.01
IDLE_SECONDS = 0.5
OVERHEAD_SECONDS = 1e-4
"""What a job costs besides its handler: no child runs more than about 10,000 a second."""


class Runner:
    """At most `slots` things run at once; a child with a window of short jobs counts as one.

    class_slots: how the classes share them; None: whoever comes first. lending: whether to bulk, too. floor: what
    `capacity_within` promises while no run time is known. stranded_seconds: what has waited for a slot so long, while
    there was none, is handed back, for another worker may have one. allowed_networks: CIDRs that webhooks may reach
    although they are private. commands, containers: who they run as, within what, by which engine. notes: who writes
    down what handlers say. cancel_grace_seconds: between asking a handler that looks out for it and killing it.
    long_seconds: what runs for longer is asked at once in a drain. desk: takes what handlers print; None: nobody does.
    """

    def __init__(
        self,
        *,
        slots: int,
        class_slots: ClassSlots | None = None,
        lending: Lending | None = None,
        on_results: Callable[[list[RunResult]], None],
        sources: HandlerSources | None = None,
        allowed_networks: Sequence[str] = (),
        commands: CommandPolicy | None = None,
        containers: ContainerPolicy | None = None,
        floor: int = 0,
        stranded_seconds: float = math.inf,
        notes: NoteTaker | None = None,
        cancel_grace_seconds: float = 0.0,
        long_seconds: float = 300.0,
        desk: LogDesk | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        sources = sources or HandlerSources()
        self.class_slots = class_slots or ClassSlots.shared(slots)
        self.lending = lending or Lending(0, clock)
        self._floor = floor
        self._stranded_seconds = stranded_seconds
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._mailbox = Mailbox(self._selector)
        self._roster = Roster(clock)
        self._endings = Endings(self._roster, on_results, clock)
        self._closing = False
        self._cancel_grace = cancel_grace_seconds
        self._sayings = Sayings(taker=notes, mailbox=self._mailbox, clock=clock)
        self._tick_at = 0.0
        self._lanes = [0.0] * CLASSES
        """Slots in use, by class, each as the part of one that it is worth; see `capacity_within`."""
        self._thread = threading.Thread(target=self._serve, name="runner", daemon=True)
        logs = JobLogs(desk)
        self.inline = InlineJobs(
            ended=self._inline_ended,
            line=lambda job: InlineLine(job, self._sayings, self._mailbox, clock),
            logs=logs,
            clock=clock,
            allowed_networks=tuple(allowed_networks),
            commands=commands or CommandPolicy(),
            containers=containers or ContainerPolicy(),
        )
        self.pool = ProcessPool(
            slots=slots, sources=sources, selector=self._selector, owner=self, clock=clock, logs=logs
        )
        self._router = Router(
            slots=self.class_slots,
            lending=self.lending,
            sources=sources,
            pool=self.pool,
            inline=self.inline,
            refuse=self._endings.refuse,
        )
        self._drain = Drain(
            router=self._router,
            roster=self._roster,
            mailbox=self._mailbox,
            running=self._all_running,
            long_seconds=long_seconds,
            last_words_seconds=cancel_grace_seconds,
            clock=clock,
        )

    # From any thread

    def start(self) -> None:
        """Begin to load the handlers; what is submitted meanwhile waits for them."""
        self._thread.start()

    def submit(self, assignments: Sequence[Assignment]) -> None:
        """Queue, in order; never blocks."""
        jobs = self._roster.add(assignments)
        self._mailbox.post(lambda: self._queue(jobs))

    @property
    def alive(self) -> bool:
        """Whether its thread runs; a worker whose runner has failed must end."""
        return self._thread.is_alive()

    def free(self, class_index: int = STANDARD) -> int:
        """Slots that work of a class may take and that are not spoken for by what is queued of it."""
        load = self._router.load
        queued = max(0, self._roster.of_class[class_index] - load.begun_or_handed[class_index])
        return max(0, self._room(load.slots_used, class_index) - queued)

    def capacity_within(self, seconds: float, class_index: int = STANDARD) -> int:
        """How many more of a class it can start within `seconds`, from its slots and the measured mean run time.

        A slot whose job has run for longer than the mean counts for less, the longer the less: others of the class may
        be as long.
        """
        outstanding = self._roster.of_class[class_index]
        mean = self.pool.estimates.by_class[class_index]
        if mean.count == 0:
            return max(self.free(class_index), self._floor - outstanding, 0)
        used = self.used()
        lanes = self._room(used, class_index) + min(used[class_index], self._lanes[class_index])
        lanes = min(lanes, SHORT_CHILDREN) if mean.value < SHORT_SECONDS else lanes
        can_run = int(lanes * seconds / max(mean.value, OVERHEAD_SECONDS))
        return max(self.free(class_index), can_run - outstanding, 0)

    def mean_run_seconds(self, class_index: int) -> float | None:
        """Of what it ran lately, for all slots that a class may use; longer while what runs now is longer. None: none
        has ended yet.
        """
        mean = self.pool.estimates.by_class[class_index]
        if mean.count == 0:
            return None
        used = self.used()
        slots, lanes = used[class_index], min(used[class_index], self._lanes[class_index])
        room = self._room(used, class_index)
        return max(mean.value, OVERHEAD_SECONDS) * (slots + room) / max(lanes + room, 1e-6) if slots else mean.value

    def take_stranded(self) -> list[Assignment]:
        """What it was given and will not begin: to be given back, so that it runs elsewhere."""
        return self._roster.take_handed_back()

    def used(self) -> tuple[int, ...]:
        """Slots in use, by class."""
        return self._router.load.slots_used

    def _room(self, used: Sequence[int], class_index: int) -> int:
        return self.class_slots.room(used, class_index, lends_to_bulk=self.lending.to_bulk)

    def cancel(self, execution_id: bytes) -> bool:
        """Stop it, or take it from the queue; its result follows. False if it is not here (any more).

        Repeating it changes nothing, neither does it cut the grace short.
        """
        jobs = self._roster.of(execution_id)
        if jobs:
            self._mailbox.post(lambda: self._stop(jobs, self._cancel_grace))
        return bool(jobs)

    def running(self) -> list[tuple[bytes, int]]:
        """(execution id, started_at_us) of what runs at this moment."""
        if not self.alive or self._closing:
            return []
        return self._mailbox.call(self._all_running, timeout_seconds=10)

    def drain(
        self,
        grace_seconds: float,
        *,
        hurry: threading.Event | None = None,
        give_back: Callable[[list[Assignment]], None] | None = None,
    ) -> list[Assignment]:
        """Wait for everything submitted to end. What has not by then is stopped and handed back.

        Long attempts, and those that have left a checkpoint, are asked to stop at once, all others shortly before the
        end. Handed back are assignments that never began, that let themselves be interrupted, or that were killed at
        the end; they are not reported through `on_results`, but to `give_back` on this thread as they come, or
        returned. But what was killed and is not idempotent is reported, as crashed. All that is reported has been when
        this returns. hurry: ends the grace.
        """
        back: list[Assignment] = []
        take = back.extend if give_back is None else give_back
        self._drain.run(grace_seconds, hurry=hurry or threading.Event(), take=take)
        # A runner that does not even answer has nothing to tell; the watchdog takes what it held.
        with contextlib.suppress(TimeoutError):
            if self.alive:
                self._mailbox.call(self._endings.deliver, timeout_seconds=HAND_BACK_SECONDS)
        return back

    def close(self) -> None:
        """Kill what runs, forget what is queued, end the threads. Nothing more is reported."""
        serves = self._thread.is_alive() and not self._closing
        self._closing = True
        if serves:
            self._mailbox.wake()
            self._thread.join()

    # On the runner's thread

    def ended(
        self, job: Job, outcome: int, started_us: int, finished_us: int, result: bytes | None, error: Any
    ) -> None:
        """A job has ended, one way or another; the first word counts."""
        self._endings.ended(job, outcome, started_us, finished_us, result, error)

    def progressed(self, job: Job) -> None:
        """A child's job has said how far it is."""
        self._sayings.said(job)

    def checkpointed(self, job: Job, number: int, text: bytes) -> None:
        """A child's job wants a checkpoint kept; it waits for the answer."""
        self._sayings.keep(job, text, lambda problem: self.pool.answer(job, number, problem))

    def returned(self, jobs: Sequence[Job]) -> None:
        """Jobs that a child did not begin."""
        self._router.requeue(jobs)

    def _serve(self) -> None:
        try:
            self.pool.code.start()
            self.inline.start()
            while not self._closing:
                self._round()
        except Exception:
            log.critical("the runner failed; this worker must end", exc_info=True, extra={"action": "runner.failed"})
            raise
        finally:
            self.inline.close()
            self.pool.close()
            self._selector.close()
            self._mailbox.close()

    def _round(self) -> None:
        timeout = TICK_SECONDS if self._roster.count else IDLE_SECONDS
        for key, mask in self._selector.select(timeout):
            key.data(mask)
        self._mailbox.read()
        now = self._clock.monotonic()
        if now >= self._tick_at:
            self._tick_at = now + TICK_SECONDS
            self.pool.tick(now)
            self._give_up(now)
            self._hand_back_stranded(now)
            self._weigh_slots(now)
            self._sayings.pass_on(now)
            self._drain.tick()
        self._router.pump(now)
        self._endings.deliver()

    def _queue(self, jobs: Sequence[Job]) -> None:
        self._router.queue([job for job in jobs if job.assignment.problem is None])
        for job in jobs:
            if job.assignment.problem is not None:
                self._endings.refuse(job, Outcome.FAILED, dict(job.assignment.problem))

    def _inline_ended(self, job: Job, report: Report) -> None:
        finished = int(self._clock.time() * 1e6)

        def finish() -> None:
            self._router.leave(job)
            self._endings.report(job, report, finished_us=finished)

        self._mailbox.post(finish)

    def _stop(self, jobs: Sequence[Job], grace_seconds: float) -> None:
        now = self._clock.monotonic()
        for job in jobs:
            if not job.done:
                self._router.stop(job, now, grace_seconds=grace_seconds)

    def _give_up(self, now: float) -> None:
        for job, report in self._router.overdue(now):
            self._endings.report(job, report, finished_us=int(self._clock.time() * 1e6))

    def _hand_back_stranded(self, now: float) -> None:
        for job in self._router.stranded(now - self._stranded_seconds):
            job.released = True
            self._endings.refuse(job, Outcome.CANCELLED, make_error("NoSlot", "no slot has become free"))

    def _weigh_slots(self, now: float) -> None:
        ages = self._router.ages(now, self._clock.time())
        means = self.pool.estimates.by_class
        self._lanes = [
            sum(min(1.0, max(mean.value, OVERHEAD_SECONDS) / age) if age > 0 else 1.0 for age in of_class)
            for mean, of_class in zip(means, ages, strict=True)
        ]

    def _all_running(self) -> list[tuple[bytes, int]]:
        return self.pool.running() + self._router.running_in_worker()
