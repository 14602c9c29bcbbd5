"""What runs inside the worker process: threads, coroutine functions, webhooks, and the programs that it watches.

None of it can be killed as a child can. A coroutine is cancelled; one that does not let itself be cancelled,
and any thread, is abandoned: its outcome is reported, and its slot stays taken until it ends (routing.py). A worker
with many abandoned threads should be restarted.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from apps.executions.failure import FATE_UNKNOWN
from apps.executions.states import Outcome
from apps.worker import limits
from apps.worker.containers.policy import ContainerPolicy
from apps.worker.containers.run import ContainerRunner
from apps.worker.distant_secrets import DistantSecrets
from apps.worker.handlers.command import CommandStarter
from apps.worker.handlers.command_policy import CommandPolicy
from apps.worker.handlers.python import call, call_async, entry_of
from apps.worker.handlers.registry import Handler
from apps.worker.handlers.report import make_error
from apps.worker.handlers.webhook import WebhookCaller
from apps.worker.inline_line import MakeLine
from apps.worker.jobs import Job, Report
from apps.worker.output.logs import JobLogs
from apps.worker.output.routed import speaking, uninstall
from chronoweb.runtime.clock import Clock

log = logging.getLogger(__name__)
GRACE_SECONDS = 2.0
"""After its timeout a coroutine has this long to let itself be cancelled."""
COMMAND_GRACE_SECONDS = 8.0
"""Killing a command's group and emptying its pipes takes longer on a loaded machine."""
CONTAINER_GRACE_SECONDS = 15.0
"""Removing a container takes several calls of its engine."""
CLOSE_SECONDS = 10.0
"""How long the end of a loop waits for what runs on it."""

Ended = Callable[[Job, Report], None]


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._tasks: dict[Job, asyncio.Task[None]] = {}
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def run(self, job: Job, make: Callable[[], Coroutine[Any, Any, Report]], ended: Ended) -> None:
        """Start the coroutine that `make` gives, under the job's timeout; `ended` is called on the loop."""

        def finished(task: asyncio.Task[None]) -> None:
            self._tasks.pop(job, None)
            if task.cancelled():  # before its first step: it had no say
                ended(job, cancelled_report(job))

        def start() -> None:
            task = self.loop.create_task(_limited(job, make, ended))
            self._tasks[job] = task
            task.add_done_callback(finished)

        self.loop.call_soon_threadsafe(start)

    def cancel(self, job: Job) -> None:
        def stop() -> None:
            task = self._tasks.get(job)
            if task is not None:
                task.cancel()

        self.loop.call_soon_threadsafe(stop)

    def close(self, cleanup: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Cancel what runs, clean up, end the thread; a loop that does not react is left behind."""

        async def wind_up() -> None:
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=CLOSE_SECONDS) if tasks else None
            if cleanup is not None:
                await cleanup()
            await self.loop.shutdown_default_executor()
            self.loop.stop()

        self.loop.call_soon_threadsafe(lambda: setattr(self, "_winding_up", self.loop.create_task(wind_up())))
        self._thread.join(2 * CLOSE_SECONDS)


async def _limited(job: Job, make: Callable[[], Coroutine[Any, Any, Report]], ended: Ended) -> None:
    limit = asyncio.timeout(job.assignment.timeout_seconds)
    try:
        async with limit:
            report = await make()
    except asyncio.CancelledError:
        report = cancelled_report(job)
    except TimeoutError:
        report = stopped_report(job, Outcome.TIMED_OUT)
    except Exception as problem:
        log.exception("running a handler failed in an unforeseen way", extra={"action": "worker.handler_error"})
        report = Report(int(Outcome.FAILED), None, make_error(type(problem).__name__, str(problem)))
    if limit.expired() and report.outcome != Outcome.SUCCEEDED:
        report = stopped_report(job, Outcome.TIMED_OUT)
    ended(job, report)


def cancelled_report(job: Job) -> Report:
    """The report of a coroutine that was cancelled: by somebody, or because it was silent for too long."""
    return stopped_report(job, Outcome.TIMED_OUT if job.stopped_silent else Outcome.CANCELLED)


def stopped_report(job: Job, outcome: Outcome, *, abandoned: bool = False) -> Report:
    """The report of a job that was stopped from outside, with what it had gathered until then."""
    end = "; it could not be stopped and was abandoned" if abandoned else " and was stopped"
    if outcome is Outcome.TIMED_OUT:
        limit = limits.silent if job.stopped_silent else limits.timed_out
        return Report(int(outcome), None, limit(job.assignment, end, **job.extra))
    more = {"fate": FATE_UNKNOWN, **job.extra}
    return Report(int(outcome), None, make_error("Cancelled", f"cancelled while it ran{end}", **more))


class InlineJobs:
    """Starts jobs that need no child. Used by the runner's thread; `ended` is called on other threads."""

    def __init__(
        self,
        *,
        ended: Ended,
        line: MakeLine,
        logs: JobLogs,
        clock: Clock,
        allowed_networks: tuple[str, ...],
        commands: CommandPolicy,
        containers: ContainerPolicy,
    ) -> None:
        self._ended = ended
        self._line = line
        self._logs = logs
        self._clock = clock
        self._distant = DistantSecrets(clock)
        self._webhooks = WebhookCaller(allowed_networks=allowed_networks, clock=clock)
        self._commands = CommandStarter(commands)
        self._container_policy = containers
        self._containers = ContainerRunner(containers, clock)
        self._own_loop: LoopThread | None = None
        self._handlers_loop: LoopThread | None = None
        self.abandoned = 0
        """Threads and coroutines that outlived their job, since the start."""

    def start(self) -> None:
        """Begin what goes on without a job: looking for a container engine, and for what crashed workers left."""
        if self._container_policy.candidates:
            loop = self._own().loop
            loop.call_soon_threadsafe(self._containers.start)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """What this worker can do and another may not. Safe from any thread."""
        return ("container",) if self._containers.engine is not None else ()

    def start_thread(self, job: Job, handler: Handler) -> None:
        """A daemon thread each: one that hangs holds up neither the others nor the end of the process."""
        self._begin(job, 0.0)

        def run() -> None:
            entry = entry_of(job.seq, job.assignment, job.name)
            with speaking(job.log, patient=True):
                report = call(handler.function, entry, job.started_us / 1e6, self._line(job))
            self._ended(job, report)

        threading.Thread(target=run, name=f"handler {job.name}", daemon=True).start()

    def start_async(self, job: Job, handler: Handler) -> None:
        """On the loop of the handlers, which is not the one that webhooks and commands use: it may block."""
        self._begin(job, GRACE_SECONDS)
        entry = entry_of(job.seq, job.assignment, job.name)
        if self._handlers_loop is None:
            self._handlers_loop = LoopThread("async handlers")
        job.holder = self._handlers_loop
        line = self._line(job)

        async def run() -> Report:
            with speaking(job.log, patient=False):
                return await call_async(handler, entry, job.started_us / 1e6, line)

        self._handlers_loop.run(job, run, self._ended)

    def start_webhook(self, job: Job) -> None:
        self._begin(job, GRACE_SECONDS)
        self._on_own_loop(job, lambda: self._webhooks.run(job.assignment, job.extra, job.log))

    def start_command(self, job: Job) -> None:
        self._begin(job, COMMAND_GRACE_SECONDS)
        self._on_own_loop(job, lambda: self._commands.run(job.assignment, job.extra, job.log))

    def start_container(self, job: Job) -> None:
        self._begin(job, CONTAINER_GRACE_SECONDS)
        self._on_own_loop(job, lambda: self._containers.run(job.assignment, job.extra, job.log))

    def cancel(self, job: Job) -> bool:
        """Ask a job to stop; False if nothing can stop it (a thread)."""
        if job.holder is None:
            return False
        job.holder.cancel(job)
        return True

    def abandon(self, job: Job) -> None:
        """Its outcome has been reported although it still runs."""
        self.abandoned += 1
        log.warning(
            "a handler could not be stopped and was abandoned (%s so far)",
            self.abandoned,
            extra={"action": "worker.abandoned", "execution": job.assignment.execution_id.hex()},
        )
        if job.holder is not None and job.holder is self._handlers_loop:
            # The loop may be blocked for good; what starts from now on gets a new one.
            self._handlers_loop = None

    def close(self) -> None:
        """Stop everything that can be stopped."""

        async def cleanup() -> None:
            await self._webhooks.close()
            self._commands.close()
            self._distant.close()
            await self._containers.close()

        if self._handlers_loop is not None:
            self._handlers_loop.close()
        if self._own_loop is not None:
            self._own_loop.close(cleanup)
        uninstall()

    def _begin(self, job: Job, grace: float) -> None:
        job.started_us = int(self._clock.time() * 1e6)
        job.grace = grace
        self._logs.of(job)
        job.give_up_at = self._clock.monotonic() + job.assignment.timeout_seconds + grace

    def _on_own_loop(self, job: Job, make: Callable[[], Coroutine[Any, Any, Report]]) -> None:
        async def run() -> Report:
            if job.assignment.distant and (problem := await self._distant.fetch(job.assignment)):
                return Report(int(Outcome.FAILED), None, problem)
            return await make()

        job.holder = self._own()
        self._own().run(job, run, self._ended)

    def _own(self) -> LoopThread:
        if self._own_loop is None:
            self._own_loop = LoopThread("webhooks and programs")
        return self._own_loop
