"""Decides what runs next and where: the queues in front of children and of the worker's own loops.

Used by the runner's thread. Order is kept within each queue; a free slot goes to the older head, and work that
cannot run yet (no child has room) does not hold up the other kind.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from apps.executions.states import Outcome
from apps.worker import limits
from apps.worker.children.handle import ChildHandle
from apps.worker.children.pool import ProcessPool
from apps.worker.handlers.registry import REGISTRY, Handler, unknown_handler
from apps.worker.handlers.report import make_error
from apps.worker.handlers.sources import HandlerSources, load_all, load_playground
from apps.worker.inline import InlineJobs, stopped_report
from apps.worker.jobs import Asked, Job, Report

Refuse = Callable[[Job, Outcome, dict[str, Any]], None]


class Load(NamedTuple):
    """How busy the runner was at the end of its last round."""

    slots_used: int
    begun_or_handed: int


class Router:
    """Queues by where their jobs run: children, the worker itself, or not known yet."""

    def __init__(
        self, *, slots: int, sources: HandlerSources, pool: ProcessPool, inline: InlineJobs, refuse: Refuse
    ) -> None:
        self._slots = slots
        self._sources = sources
        self._pool = pool
        self._inline = inline
        self._refuse = refuse
        self._for_children: deque[Job] = deque()
        self._for_worker: deque[Job] = deque()
        self._unrouted: deque[Job] = deque()
        self._running: set[Job] = set()
        self._abandoned: set[Job] = set()
        self._loaded_generation = 0
        self.load = Load(0, 0)
        """Safe to read from any thread."""

    def queue(self, jobs: Sequence[Job]) -> None:
        """New jobs, behind those that wait."""
        self._unrouted.extend(jobs)

    def requeue(self, jobs: Sequence[Job]) -> None:
        """Jobs that children gave back, before those that wait."""
        self._for_children.extendleft(reversed(jobs))

    def pump(self, now: float) -> None:
        """Start whatever can start."""
        self._route()
        children_full = worker_full = False
        while not (children_full and worker_full):
            children = self._head(self._for_children)
            worker = self._head(self._for_worker)
            children_full = children_full or children is None
            worker_full = worker_full or worker is None
            slot_free = self._used() < self._slots
            if children is not None and not children_full and (worker_full or _older(children, worker)):
                if self._pool.place(children, now, slot_free=slot_free):
                    self._for_children.popleft()
                else:
                    children_full = True
            elif worker is not None and not worker_full:
                if slot_free:
                    self._for_worker.popleft()
                    self._start(worker)
                else:
                    worker_full = True
        self._pool.send()
        held = self._pool.held_count()
        self.load = Load(self._used(), held + len(self._running))

    def _used(self) -> int:
        """Slots in use: what was abandoned keeps its own until it ends, since it still takes the machine's time."""
        return self._pool.busy() + len(self._running) + len(self._abandoned)

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
                self._for_worker.append(job)
            elif isolations is None:
                waiting.append(job)
            elif (isolation := isolations.get(job.name)) is None:
                error = unknown_handler(job.name, list(isolations), self._pool.code.broken)
                self._refuse(job, Outcome.FAILED, error)
            else:
                (self._for_children if isolation == "process" else self._for_worker).append(job)
        self._unrouted = waiting

    def _refuse_python(self, reason: str) -> None:
        waiting = [job for job in self._unrouted if job.name] + list(self._for_children)
        self._for_children.clear()
        self._unrouted = deque(job for job in self._unrouted if not job.name)
        for job in waiting:
            self._refuse(job, Outcome.FAILED, make_error("HandlersNotLoaded", reason))

    def _start(self, job: Job) -> None:
        kind = job.assignment.handler.get("type")
        if kind == "webhook":
            self._running.add(job)
            self._inline.start_webhook(job)
        elif kind == "command":
            self._running.add(job)
            self._inline.start_command(job)
        elif kind == "container":
            self._running.add(job)
            self._inline.start_container(job)
        elif kind == "python":
            self._start_python(job)
        else:
            text = f"handler type {kind!r} is not one of python, webhook, command, container"
            self._refuse(job, Outcome.FAILED, make_error("UnknownHandlerType", text, permanent=True))

    def _start_python(self, job: Job) -> None:
        handler = self._handler(job.name)
        if handler is None:
            error = unknown_handler(job.name, list(REGISTRY.handlers), REGISTRY.broken)
            self._refuse(job, Outcome.FAILED, error)
            return
        self._running.add(job)
        if handler.isolation == "async":
            self._inline.start_async(job, handler)
        else:
            self._inline.start_thread(job, handler)

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
