"""Runs assignments and reports how they ended.

One thread owns the queues, the children and the bookkeeping; the methods of `Runner` may be called from any
thread and only hand it things to do. Results go to `on_results`, in batches, on that thread.
"""

import contextlib
import itertools
import logging
import selectors
import threading
from collections.abc import Callable, Sequence
from typing import Any

from apps.executions.failure import FATE_UNKNOWN
from apps.executions.states import Outcome
from apps.worker.children.estimates import SHORT_SECONDS
from apps.worker.children.placement import SHORT_CHILDREN
from apps.worker.children.pool import ProcessPool
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.drain import Drain
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.sources import HandlerSources
from apps.worker.inline import InlineJobs
from apps.worker.inline_line import InlineLine
from apps.worker.jobs import Assignment, Job, NoteTaker, Report, RunResult
from apps.worker.mailbox import Mailbox
from apps.worker.routing import Router
from apps.worker.sayings import Sayings
from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

__all__ = ["Assignment", "HandlerSources", "RunResult", "Runner"]

log = logging.getLogger(__name__)
TICK_SECONDS = 0.01
IDLE_SECONDS = 0.5
OVERHEAD_SECONDS = 1e-4
"""What a job costs besides its handler: no child runs more than about 10,000 a second."""
HAND_BACK_SECONDS = 16.0
"""Longer than anything that can be stopped takes to stop (inline.py)."""
SLICE_SECONDS = 0.1
"""A drain looks this often whether it must hurry."""
_STOPPED = "its worker was stopped while it ran"


class Runner:
    """At most `slots` things run at once; a child with a window of short jobs counts as one.

    floor: what `capacity_within` promises while no run time is known. allowed_networks: CIDRs that webhooks may
    reach although they are private. commands, containers: who they run as, within what, by which engine. notes: who
    writes down what handlers say. cancel_grace_seconds: between asking a handler that looks out for it and killing it.
    long_seconds: what runs for longer is asked at once in a drain.
    """

    def __init__(
        self,
        *,
        slots: int,
        on_results: Callable[[list[RunResult]], None],
        sources: HandlerSources | None = None,
        allowed_networks: Sequence[str] = (),
        commands: CommandPolicy | None = None,
        containers: ContainerPolicy | None = None,
        floor: int = 0,
        notes: NoteTaker | None = None,
        cancel_grace_seconds: float = 0.0,
        long_seconds: float = 300.0,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.slots = slots
        self._on_results = on_results
        self._floor = floor
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._mailbox = Mailbox(self._selector)
        self._lock = threading.Lock()
        self._by_id: dict[bytes, list[Job]] = {}
        self._outstanding = 0
        self._all_ended = threading.Condition(self._lock)
        self._numbers = itertools.count(1)
        self._results: list[RunResult] = []
        self._handed_back: list[Assignment] = []
        self._closing = False
        self._cancel_grace = cancel_grace_seconds
        self._sayings = Sayings(taker=notes, mailbox=self._mailbox, clock=clock)
        self._tick_at = 0.0
        self._thread = threading.Thread(target=self._serve, name="runner", daemon=True)
        self.inline = InlineJobs(
            ended=self._inline_ended,
            line=lambda job: InlineLine(job, self._sayings, self._mailbox, clock),
            clock=clock,
            allowed_networks=tuple(allowed_networks),
            commands=commands or CommandPolicy(),
            containers=containers or ContainerPolicy(),
        )
        self.pool = ProcessPool(
            slots=slots, sources=sources or HandlerSources(), selector=self._selector, owner=self, clock=clock
        )
        self._router = Router(
            slots=slots, sources=sources or HandlerSources(), pool=self.pool, inline=self.inline, refuse=self._refuse
        )
        self._drain = Drain(
            router=self._router, jobs=self._all_jobs, running=self._all_running, long_seconds=long_seconds, clock=clock
        )

    # From any thread

    def start(self) -> None:
        """Begin to load the handlers; what is submitted meanwhile waits for them."""
        self._thread.start()

    def submit(self, assignments: Sequence[Assignment]) -> None:
        """Queue, in order; never blocks."""
        now = self._clock.monotonic()
        jobs = [Job(next(self._numbers), a, _python_name(a), now) for a in assignments]
        with self._lock:
            self._outstanding += len(jobs)
            for job in jobs:
                self._by_id.setdefault(job.assignment.execution_id, []).append(job)
        self._mailbox.post(lambda: self._router.queue(jobs))

    @property
    def alive(self) -> bool:
        """Whether its thread runs; a worker whose runner has failed must end."""
        return self._thread.is_alive()

    def free(self) -> int:
        """Slots that neither run nor are spoken for by what is queued."""
        load = self._router.load
        queued = max(0, self._outstanding - load.begun_or_handed)
        return max(0, self.slots - load.slots_used - queued)

    def capacity_within(self, seconds: float) -> int:
        """How many more it can start within `seconds`, from the free slots and the measured mean run time."""
        with self._lock:
            outstanding = self._outstanding
        mean = self.pool.estimates.overall
        if mean.count == 0:
            return max(self.free(), self._floor - outstanding, 0)
        lanes = min(self.slots, SHORT_CHILDREN) if mean.value < SHORT_SECONDS else self.slots
        can_run = int(lanes * seconds / max(mean.value, OVERHEAD_SECONDS))
        return max(self.free(), can_run - outstanding, 0)

    def cancel(self, execution_id: bytes) -> bool:
        """Stop it, or take it from the queue; its result follows. False if it is not here (any more).

        Repeating it changes nothing, neither does it cut the grace short.
        """
        with self._lock:
            jobs = list(self._by_id.get(execution_id, ()))
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
        hurry = hurry or threading.Event()
        self._mailbox.post(self._drain.begin)
        last_words = min(self._cancel_grace, grace_seconds / 2)
        if not self._wait_all(grace_seconds - last_words, hurry, take):
            self._mailbox.post(self._drain.ask_all)
            if not self._wait_all(last_words, hurry, take):
                self._mailbox.post(self._drain.stop_all)
                self._wait_all(HAND_BACK_SECONDS, threading.Event(), take)
        # A runner that does not even answer has nothing to tell; the watchdog takes what it held.
        with contextlib.suppress(TimeoutError):
            if self.alive:
                self._mailbox.call(self._deliver, timeout_seconds=HAND_BACK_SECONDS)
        return back

    def close(self) -> None:
        """Kill what runs, forget what is queued, end the threads. Nothing more is reported."""
        if self._closing or not self._thread.is_alive():
            self._closing = True
            return
        self._closing = True
        self._mailbox.wake()
        self._thread.join()

    # On the runner's thread

    def ended(
        self, job: Job, outcome: int, started_us: int, finished_us: int, result: bytes | None, error: Any
    ) -> None:
        """A job has ended, one way or another; the first word counts."""
        if job.done:
            return
        job.done = True
        if outcome == Outcome.RELEASED:
            outcome, error = self._interrupted(job, error)
        if job.released and outcome != Outcome.SUCCEEDED and not _is_for_a_person(job, error):
            with self._lock:
                self._handed_back.append(job.assignment)
        else:
            if job.released and outcome == Outcome.CANCELLED:
                outcome, error = Outcome.CRASHED, {**error, "type": "WorkerStopped", "message": _STOPPED}
            self._results.append(RunResult(job.assignment, Outcome(outcome), started_us, finished_us, result, error))
        self._forget(job)

    def _interrupted(self, job: Job, error: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """What it means that a handler has let itself be interrupted."""
        if job.asked == "drain":
            job.released = True
        if job.asked == "cancel":
            return int(Outcome.CANCELLED), {**error, "type": "Cancelled"}
        return int(Outcome.FAILED), {**error, "message": f"{error['message']} (nobody had asked it to stop)"}

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
        timeout = TICK_SECONDS if self._outstanding else IDLE_SECONDS
        for key, mask in self._selector.select(timeout):
            key.data(mask)
        self._mailbox.read()
        now = self._clock.monotonic()
        if now >= self._tick_at:
            self._tick_at = now + TICK_SECONDS
            self.pool.tick(now)
            self._give_up(now)
            self._sayings.pass_on(now)
            self._drain.tick()
        self._router.pump(now)
        self._deliver()

    def _deliver(self) -> None:
        if not self._results:
            return
        results, self._results = self._results, []
        try:
            self._on_results(results)
        except Exception:
            log.exception("%s results were refused", len(results), extra={"action": "runner.results_refused"})

    def _forget(self, job: Job) -> None:
        with self._lock:
            jobs = self._by_id[job.assignment.execution_id]
            jobs.remove(job)
            if not jobs:
                del self._by_id[job.assignment.execution_id]
            self._outstanding -= 1
            if not self._outstanding:
                self._all_ended.notify_all()

    def _refuse(self, job: Job, outcome: Outcome, error: dict[str, Any]) -> None:
        now = int(self._clock.time() * 1e6)
        self.ended(job, int(outcome), now, now, None, error)

    def _inline_ended(self, job: Job, report: Report) -> None:
        finished = int(self._clock.time() * 1e6)

        def finish() -> None:
            self._router.leave(job)
            self.ended(job, report.outcome, job.started_us, finished, report.result_json, report.error)

        self._mailbox.post(finish)

    def _stop(self, jobs: Sequence[Job], grace_seconds: float) -> None:
        now = self._clock.monotonic()
        for job in jobs:
            if not job.done:
                self._router.stop(job, now, grace_seconds=grace_seconds)

    def _give_up(self, now: float) -> None:
        for job, report in self._router.overdue(now):
            finished = int(self._clock.time() * 1e6)
            self.ended(job, report.outcome, job.started_us, finished, None, report.error)

    def _all_running(self) -> list[tuple[bytes, int]]:
        return self.pool.running() + self._router.running_in_worker()

    def _all_jobs(self) -> list[Job]:
        with self._lock:
            return [job for several in self._by_id.values() for job in several]

    def _wait_all(self, seconds: float, hurry: threading.Event, take: Callable[[list[Assignment]], None]) -> bool:
        """Until nothing is left, the time is over, or a hurry; what is handed back meanwhile is taken as it comes."""
        until = self._clock.monotonic() + seconds
        while True:
            with self._lock:
                left = until - self._clock.monotonic()
                self._all_ended.wait_for(
                    lambda: not self._outstanding or self._handed_back, timeout=max(0.0, min(left, SLICE_SECONDS))
                )
                handed_back, self._handed_back = self._handed_back, []
                ended = not self._outstanding
            if handed_back:
                take(handed_back)
            if ended or left <= 0 or hurry.is_set():
                return ended


def _is_for_a_person(job: Job, error: Any) -> bool:
    """Whether it had begun and may not begin again."""
    return not job.assignment.idempotent and bool(error) and error.get("fate") == FATE_UNKNOWN


def _python_name(assignment: Assignment) -> str:
    handler = assignment.handler
    return str(handler.get("name", "")) if handler.get("type") == "python" else ""
