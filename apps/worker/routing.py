"""Decides what runs next and where: the queues in front of children and of the worker's own loops.

Used by the runner's thread. Critical work goes first, each class within the slots that it may use. Order is kept within
each queue; a free slot goes to the older head, and work that cannot run yet (no child has room) does not hold up the
other kind.
"""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from apps.executions.states import Outcome
from apps.worker import limits
from apps.worker.children.handle import ChildHandle
from apps.worker.children.pool import ProcessPool
from apps.worker.class_slots import CLASSES, CRITICAL, ClassSlots, Lending
from apps.worker.handlers.registry import REGISTRY, Handler, unknown_handler
from apps.worker.handlers.report import make_error
from apps.worker.handlers.sources import HandlerSources, load_all, load_playground
from apps.worker.inline import InlineJobs, stopped_report
from apps.worker.jobs import Asked, Job, Report

Refuse = Callable[[Job, Outcome, dict[str, Any]], None]


class Load(NamedTuple):
    """How busy the runner was at the end of its last round, by class."""

    slots_used: tuple[int, ...]
    begun_or_handed: tuple[int, ...]


class Router:
    """Queues by where their jobs run: children, the worker itself, or not known yet."""

    def __init__(
        self,
        *,
        slots: ClassSlots,
        lending: Lending,
        sources: HandlerSources,
        pool: ProcessPool,
        inline: InlineJobs,
        refuse: Refuse,
    ) -> None:
        self._slots = slots
        self._lending = lending
        self._sources = sources
        self._pool = pool
        self._inline = inline
        self._refuse = refuse
        self._for_children: tuple[deque[Job], ...] = tuple(deque() for _ in range(CLASSES))
        self._for_worker: tuple[deque[Job], ...] = tuple(deque() for _ in range(CLASSES))
        self._unrouted: deque[Job] = deque()
        self._running: set[Job] = set()
        self._abandoned: set[Job] = set()
        self._loaded_generation = 0
        self.load = Load((0,) * CLASSES, (0,) * CLASSES)
        """Safe to read from any thread."""

    def queue(self, jobs: Sequence[Job]) -> None:
        """New jobs, behind those that wait."""
        self._unrouted.extend(jobs)

    def requeue(self, jobs: Sequence[Job]) -> None:
        """Jobs that children gave back, before those that wait."""
        for job in reversed(jobs):
            self._for_children[job.assignment.class_index].appendleft(job)

    def pump(self, now: float) -> None:
        """Start whatever can start."""
        self._route()
        used = self._used()
        for class_index in range(CLASSES):
            if self._for_children[class_index] or self._for_worker[class_index]:
                self._pump_class(class_index, used, now)
        self._pool.send()
        held = self._pool.held_count()
        for job in self._running:
            held[job.assignment.class_index] += 1
        self.load = Load(tuple(used), tuple(held))

    def _used(self) -> list[int]:
        """Slots in use by class: what was abandoned keeps its own until it ends, since it still takes the machine's
        time.
        """
        used = self._pool.busy()
        for job in (*self._running, *self._abandoned):
            used[job.assignment.class_index] += 1
        return used

    def _pump_class(self, class_index: int, used: list[int], now: float) -> None:
        """Start what can of one class; counts the slots that this takes in `used`."""
        for_children, for_worker = self._for_children[class_index], self._for_worker[class_index]
        lends = self._lending.to_bulk
        children_full = worker_full = False
        while not (children_full and worker_full):
            child_job, worker_job = self._head(for_children), self._head(for_worker)
            children_full = children_full or child_job is None
            worker_full = worker_full or worker_job is None
            slot_free = self._slots.room(used, class_index, lends_to_bulk=lends) > 0
            if child_job is not None and not children_full and (worker_full or _older(child_job, worker_job)):
                child = self._pool.place(child_job, now, slot_free=slot_free)
                if child is None:
                    children_full = True
                else:
                    used[class_index] += len(child.held) == 1
                    for_children.popleft()
            elif worker_job is not None and not worker_full:
                if slot_free:
                    for_worker.popleft()
                    used[class_index] += self._start(worker_job)
                else:
                    worker_full = True
        if class_index == CRITICAL and (for_children or for_worker):
            self._lending.critical_seen()

    def ages(self, now: float, wall: float) -> list[list[float]]:
        """By class: for how many seconds each slot in use has been busy with the same job. wall: the host's clock."""
        found = self._pool.ages(now)
        for job in (*self._running, *self._abandoned):
            found[job.assignment.class_index].append(max(0.0, wall - job.started_us / 1e6))
        return found

    def stranded(self, before: float) -> list[Job]:
        """Jobs that were submitted before then (monotonic seconds), have not begun, and have no slot to begin in."""
        used = self._used()
        found: list[Job] = []
        for class_index in range(CLASSES):
            if self._slots.room(used, class_index, lends_to_bulk=self._lending.to_bulk) > 0:
                continue
            for queue in (self._for_children[class_index], self._for_worker[class_index]):
                waiting = itertools.takewhile(lambda job: job.submitted < before, queue)
                found += [job for job in waiting if not job.done]
        return found

    def ask(self, job: Job, why: Asked) -> bool:
        """Let a running handler know that it should stop; whether it looks out for that."""
        if isinstance(job.holder, ChildHandle):
            begun, listening = self._pool.ask(job)
        else:
            begun, listening = job in self._running, job.listening
        job.asked = why if begun else None
        return begun and listening

    def stop(self, job: Job, now: float, *, grace_seconds: float = 0.0) -> None:
        """Cancel a job wherever it is. grace_seconds: for a handler that looks out for being asked to stop."""
        if self.ask(job, "cancel") and grace_seconds:
            job.stop_at = now + grace_seconds if job.stop_at is None else job.stop_at
        elif isinstance(job.holder, ChildHandle):
            self._pool.cancel(job)
        elif job not in self._running:
            self._refuse(job, Outcome.CANCELLED, make_error("Cancelled", "cancelled before it began"))
        else:
            job.cancelled = True
            self._end_inline(job, now)

    def overdue(self, now: float) -> list[tuple[Job, Report]]:
        """What runs in the worker itself and will not end in time: abandoned here, reported by the caller."""
        for job in self._running:
            if job.stop_at is not None and now >= job.stop_at and not job.cancelled:
                job.cancelled = True
                self._end_inline(job, now)
            elif not job.stopped_silent and job.silent(now):
                job.stopped_silent = True
                self._end_inline(job, now)
        found = []
        for job in [job for job in self._running if now >= job.give_up_at]:
            self._running.discard(job)
            self._abandoned.add(job)
            self._inline.abandon(job)
            outcome = Outcome.CANCELLED if job.cancelled else Outcome.TIMED_OUT
            found.append((job, stopped_report(job, outcome, abandoned=True)))
        return found

    def _end_inline(self, job: Job, now: float) -> None:
        job.give_up_at = min(job.give_up_at, now + job.grace if self._inline.cancel(job) else now)

    def leave(self, job: Job) -> None:
        """A job that ran in the worker has ended, or what was abandoned has."""
        self._running.discard(job)
        self._abandoned.discard(job)

    def running_in_worker(self) -> list[tuple[bytes, int]]:
        """(execution id, started_us)."""
        return [(job.assignment.execution_id, job.started_us) for job in self._running]

    def _route(self) -> None:
        isolations = self._pool.code.isolations
        if isolations is None and self._pool.code.failure:
            self._refuse_python(self._pool.code.failure)
        waiting: deque[Job] = deque()
        while self._unrouted:
            job = self._unrouted.popleft()
            if job.assignment.timeout_seconds <= 0:
                self._refuse(job, Outcome.TIMED_OUT, limits.no_time_left(job.assignment))
            elif job.assignment.handler.get("type") != "python":
                self._for_worker[job.assignment.class_index].append(job)
            elif isolations is None:
                waiting.append(job)
            elif (isolation := isolations.get(job.name)) is None:
                error = unknown_handler(job.name, list(isolations), self._pool.code.broken)
                self._refuse(job, Outcome.FAILED, error)
            else:
                queues = self._for_children if isolation == "process" else self._for_worker
                queues[job.assignment.class_index].append(job)
        self._unrouted = waiting

    def _refuse_python(self, reason: str) -> None:
        waiting = [job for job in self._unrouted if job.name]
        for queue in self._for_children:
            waiting += queue
            queue.clear()
        self._unrouted = deque(job for job in self._unrouted if not job.name)
        for job in waiting:
            self._refuse(job, Outcome.FAILED, make_error("HandlersNotLoaded", reason))

    def _start(self, job: Job) -> bool:
        """Start a job in the worker itself; whether it has begun."""
        kind = job.assignment.handler.get("type")
        if kind == "webhook":
            start = self._inline.start_webhook
        elif kind == "command":
            start = self._inline.start_command
        elif kind == "container":
            start = self._inline.start_container
        elif kind == "python":
            return self._start_python(job)
        else:
            text = f"handler type {kind!r} is not one of python, webhook, command, container"
            self._refuse(job, Outcome.FAILED, make_error("UnknownHandlerType", text, permanent=True))
            return False
        self._running.add(job)
        start(job)
        return True

    def _start_python(self, job: Job) -> bool:
        handler = self._handler(job.name)
        if handler is None:
            error = unknown_handler(job.name, list(REGISTRY.handlers), REGISTRY.broken)
            self._refuse(job, Outcome.FAILED, error)
            return False
        self._running.add(job)
        if handler.isolation == "async":
            self._inline.start_async(job, handler)
        else:
            self._inline.start_thread(job, handler)
        return True

    def _handler(self, name: str) -> Handler | None:
        """The function in this process; loaded only once something must run here, and anew with new code."""
        generation = self._pool.code.generation
        if self._loaded_generation == 0:
            load_all(self._sources)
        elif self._loaded_generation != generation:
            load_playground(self._sources)
        self._loaded_generation = generation
        return REGISTRY.handlers.get(name)

    @staticmethod
    def _head(queue: deque[Job]) -> Job | None:
        while queue and queue[0].done:
            queue.popleft()
        return queue[0] if queue else None


def _older(job: Job, other: Job | None) -> bool:
    return other is None or job.seq < other.seq
