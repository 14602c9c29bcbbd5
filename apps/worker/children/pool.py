"""Children that run Python handlers: places jobs on them, stops what must stop, takes over from the dead.

Used by one thread, the runner's, which also lends its selector. Nothing here blocks.
"""

import selectors
from collections.abc import Sequence
from typing import Any, Protocol

from apps.logs.attempt_log import AttemptLog
from apps.worker.children import deaths
from apps.worker.children.code import LoadedCode
from apps.worker.children.estimates import Estimates
from apps.worker.children.framing import ASKED, BEGUN, LISTENING
from apps.worker.children.handle import ChildHandle
from apps.worker.children.placement import SHORT_CHILDREN, choose, should_grow
from apps.worker.children.zygote_client import ZygoteClient, death_words
from apps.worker.class_slots import CLASSES
from apps.worker.handlers.sources import HandlerSources
from apps.worker.jobs import Job
from apps.worker.output.child_output import ChildOutput
from apps.worker.output.logs import JobLogs
from chronoweb.runtime.clock import Clock

OVERDUE_SECONDS = 0.02
"""A job that holds up others behind it this long has them taken back."""
IDLE_SECONDS = 60.0
LONG_SECONDS = 0.005
"""What prints for longer is listened to before it ends."""


class Listener(Protocol):
    """What the pool tells its owner."""

    def ended(
        self, job: Job, outcome: int, started_us: int, finished_us: int, result: bytes | None, error: Any
    ) -> None: ...

    def returned(self, jobs: Sequence[Job]) -> None:
        """Jobs that never began; they go to the front of the queue, in this order."""

    def progressed(self, job: Job) -> None:
        """`job.said` is new."""

    def checkpointed(self, job: Job, number: int, text: bytes) -> None:
        """A running job wants a checkpoint kept; `answer` it."""


class ProcessPool:
    """At most `slots` children."""

    def __init__(
        self,
        *,
        slots: int,
        sources: HandlerSources,
        selector: selectors.BaseSelector,
        owner: Listener,
        clock: Clock,
        logs: JobLogs | None = None,
    ) -> None:
        self._slots = slots
        self._selector = selector
        self._owner = owner
        self._clock = clock
        self._logs = logs or JobLogs(None)
        self._children: dict[int, ChildHandle] = {}
        self._last_key = 0
        self._to_send: set[ChildHandle] = set()
        self._progress_at = [0.0] * CLASSES
        self.estimates = Estimates()
        self.code = LoadedCode(sources, selector, clock, on_event=self._heard, on_lost=self._zygote_lost)

    # Placing

    def busy(self) -> list[int]:
        """Children that hold work, by its class: each takes a slot of it."""
        used = [0] * CLASSES
        for child in self._children.values():
            if child.held:
                used[child.class_index] += 1
        return used

    def place(self, job: Job, now: float, *, slot_free: bool) -> ChildHandle | None:
        """Hand the job to a child, if one can take it now. slot_free: whether an idle child may become busy with it.

        The child has taken a slot if it holds nothing else.
        """
        cost = self.estimates.expected(job.name)
        child = choose(self._children, cost, job.assignment.class_index, slot_free=slot_free)
        child = child or self._grow(job, now, slot_free)
        if child is not None:
            child.hand(job, cost)
            self._to_send.add(child)
        return child

    def send(self) -> None:
        """Send what was placed."""
        for child in self._to_send:
            if not child.send():
                self._selector.modify(child.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, child.on_ready)
        self._to_send.clear()

    def _grow(self, job: Job, now: float, slot_free: bool) -> ChildHandle | None:
        zygote = self.code.zygote
        if zygote is None or not slot_free or len(self._children) >= self._slots:
            return None
        progress_at = self._progress_at[job.assignment.class_index]
        if not should_grow(self._children, job, self.estimates, now=now, progress_at=progress_at):
            return None
        return self._fork(zygote)

    def _fork(self, zygote: ZygoteClient) -> ChildHandle:
        self._last_key += 1
        output = ChildOutput(patience_seconds=self._logs.patience_seconds) if self._logs.kept else None
        child = ChildHandle(self._last_key, zygote, output)
        child.on_ready = lambda mask: self._ready(child, mask)
        child.idle_since = self._clock.monotonic()
        self._children[child.key] = child
        self._selector.register(child.socket, selectors.EVENT_READ, child.on_ready)
        return child

    # Hearing from children

    def _ready(self, child: ChildHandle, mask: int) -> None:
        if child.ended or child.key not in self._children:
            return  # something before this in the same round of events saw to it
        if mask & selectors.EVENT_WRITE and child.send():
            self._selector.modify(child.socket, selectors.EVENT_READ, child.on_ready)
        if mask & selectors.EVENT_READ:
            self._receive(child)
            if not child.held and not child.ended:
                self._now_idle(child)

    def _receive(self, child: ChildHandle) -> None:
        if not child.ended:
            self._settle(child, child.receive())
            if child.ended:
                self._selector.unregister(child.socket)

    def _settle(self, child: ChildHandle, records: Any) -> None:
        if child.output is not None and child.output.has_news:
            child.output.pass_on(lambda ticket: self._log_of(child, ticket), forced=True)
        for record in records:
            if record[0] == "checkpoint":
                self._heard_checkpoint(child, *record[1:])
                continue
            ticket, started_us, finished_us, outcome, result, error = record
            job = child.settle(ticket)
            if job is not None:
                self._progress_at[job.assignment.class_index] = self._clock.monotonic()
                self.estimates.add(job.name, job.assignment.class_index, (finished_us - started_us) * 1e-6)
                self._owner.ended(job, outcome, started_us, finished_us, result, error)

    def _log_of(self, child: ChildHandle, ticket: int) -> AttemptLog | None:
        job = child.held.get(ticket)
        return None if job is None else self._logs.of(job)

    def _hear_output(self, child: ChildHandle, output: ChildOutput) -> None:
        """What a job that takes long has printed so far."""
        if output.has_news:
            output.pass_on(lambda ticket: self._log_of(child, ticket))
        self._hear_raw(child, output)

    def _hear_raw(self, child: ChildHandle, output: ChildOutput, *, forced: bool = False) -> None:
        now_us = int(self._clock.time() * 1e6)
        output.pass_on_raw(child.memory.current, lambda t: self._log_of(child, t), now_us, forced=forced)

    def _heard_checkpoint(self, child: ChildHandle, ticket: int, number: int, text: bytes) -> None:
        job = child.held.get(ticket)
        if job is not None:
            self._owner.checkpointed(job, number, text)

    def answer(self, job: Job, number: int, problem: str | None) -> None:
        """Tell a child what became of its job's checkpoint."""
        child = job.holder
        if isinstance(child, ChildHandle) and not child.ended and not child.tell(("kept", number, problem)):
            self._selector.modify(child.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, child.on_ready)

    def _now_idle(self, child: ChildHandle) -> None:
        child.idle_since = self._clock.monotonic()
        if child.retiring:
            child.hang_up()

    def _heard(self, message: tuple[Any, ...]) -> None:
        if message[0] == "ready":
            self._retire_old()
            return
        child = self._children.get(message[1])
        if child is None:
            return
        if message[0] == "started":
            child.started = True
        elif message[0] == "stopped":
            self._examine(child)
        elif message[0] == "exited":
            self._gone(child, death_words(message[2]))
        elif message[0] == "refused":
            self._gone(child, f"it could not be started: {message[3]}")

    # Stopping

    def cancel(self, job: Job) -> None:
        """Stop a job that a child holds; the outcome follows."""
        self._stop(job.holder, job.ticket, "cancelled")

    def ask(self, job: Job) -> tuple[bool, bool]:
        """Let a job that a child runs know that it should stop: (whether it has begun, whether it looks out for it)."""
        memory = job.holder.memory
        if memory.current() != job.ticket:
            return False, False
        memory.words[ASKED] = job.ticket
        return True, memory.words[LISTENING] == job.ticket

    def tick(self, now: float) -> None:
        """Look for jobs past their timeout, for jobs that hold others up, and for idle children."""
        idle, slow = 0, False
        for child in list(self._children.values()):
            if child.held:
                self._watch(child, now)
                slow = slow or child.elapsed(now)[1] > OVERDUE_SECONDS
            elif child.open:
                idle += 1
                if idle > 1 and now - child.idle_since > IDLE_SECONDS and len(self._children) > SHORT_CHILDREN:
                    self._retire(child)
        if slow and not idle:
            self._keep_one_idle()
        self.code.tick(now)
        self.code.end_unused({child.zygote for child in self._children.values()})

    def _keep_one_idle(self) -> None:
        """What comes while the others are busy for long finds a child that runs: urgent work waits for no fork."""
        room = SHORT_CHILDREN <= len(self._children) < self._slots
        if room and self.code.zygote and all(child.started for child in self._children.values()):
            self._fork(self.code.zygote)

    def _retire_old(self) -> None:
        """New code is ready: children of older code finish what they hold and end."""
        for child in list(self._children.values()):
            if child.zygote is not self.code.zygote and not child.retiring:
                self._retire(child)

    def _watch(self, child: ChildHandle, now: float) -> None:
        ticket, seconds = child.elapsed(now)
        job = child.held.get(ticket)
        if job is None or child.killed:
            return
        if child.output is not None and seconds > LONG_SECONDS:
            self._hear_output(child, child.output)
        said = child.heard()
        if said is not None and said[0] == ticket:
            job.heard_at, job.said = now, said[1:]
            self._owner.progressed(job)
        if seconds > job.assignment.timeout_seconds:
            self._stop(child, ticket, "timed_out")
        elif job.silent(now):
            self._stop(child, ticket, "silent")
        elif job.stop_at is not None and now >= job.stop_at:
            self._stop(child, ticket, "cancelled")
        elif seconds > OVERDUE_SECONDS and ticket != child.stuck:
            child.stuck = ticket
            if len(child.held) > 1:
                self._stop(child, 0, "")

    def _stop(self, child: ChildHandle, ticket: int, reason: str) -> None:
        if ticket:
            child.victims.setdefault(ticket, reason)
        if not child.stopping and not child.killed:
            child.stopping = True
            child.zygote.ask("stop", child.key)

    def _examine(self, child: ChildHandle) -> None:
        """The child stands still: kill it if it runs a victim; else take back all that it has not begun."""
        child.stopping = False
        self._receive(child)
        self._settle(child, child.unsent_records())
        current = child.memory.current()
        if current in child.victims:
            child.killed = True
            child.zygote.ask("kill", child.key)
            return
        child.memory.revoke_after(child.memory.words[BEGUN], child.last_ticket)
        self._take_back(child, except_ticket=current)
        child.zygote.ask("continue", child.key)
        if not child.held and not child.ended:
            self._now_idle(child)

    def _take_back(self, child: ChildHandle, *, except_ticket: int = 0) -> None:
        back = []
        for ticket in [ticket for ticket in child.held if ticket != except_ticket]:
            cancelled = ticket in child.victims
            job = child.settle(ticket)
            assert job is not None
            verdict = deaths.before_its_turn(job, cancelled=cancelled)
            if verdict is not None:
                self._end(job, verdict, 0.0)
            else:
                back.append(job)
        self._owner.returned(back)

    def _retire(self, child: ChildHandle) -> None:
        child.retiring = True
        if not child.held and not child.ended:
            child.hang_up()

    # Deaths

    def _gone(self, child: ChildHandle, how: str) -> None:
        """The child has ended: only what it was running is charged; what it had not begun goes back."""
        self._receive(child)
        if not child.ended:  # something that the child started may hold the other end of its socket
            self._selector.unregister(child.socket)
            child.ended = True
        self._settle(child, child.unsent_records())
        if child.output is not None:
            self._hear_raw(child, child.output, forced=True)
        ticket, seconds = child.elapsed(self._clock.monotonic())
        reason = child.victims.get(ticket)
        job = child.settle(ticket) if ticket else None
        if job is not None:
            self._end(job, deaths.while_running(job, reason, how), seconds)
        for waiting in child.held.values():
            waiting.lost += 1
        self._take_back(child)
        del self._children[child.key]
        self._to_send.discard(child)
        child.close()

    def _end(self, job: Job, verdict: deaths.Verdict, seconds: float) -> None:
        finished = int(self._clock.time() * 1e6)
        outcome, error = verdict
        self._owner.ended(job, int(outcome), finished - int(seconds * 1e6), finished, None, error)

    def _zygote_lost(self, zygote: ZygoteClient) -> None:
        for child in [child for child in self._children.values() if child.zygote is zygote]:
            self._gone(child, "signal 9, with the process that it was forked from")

    # For the owner

    def running(self) -> list[tuple[bytes, int]]:
        """(execution id, started_us) of what children run now."""
        now, wall = self._clock.monotonic(), self._clock.time()
        found = []
        for child in self._children.values():
            ticket, seconds = child.elapsed(now)
            job = child.held.get(ticket)
            if job is not None:
                found.append((job.assignment.execution_id, int((wall - seconds) * 1e6)))
        return found

    def ages(self, now: float) -> list[list[float]]:
        """By class: how long each child that holds work has been at what it runs, in seconds."""
        found: list[list[float]] = [[] for _ in range(CLASSES)]
        for child in self._children.values():
            if child.held:
                ticket, seconds = child.elapsed(now)
                found[child.class_index].append(seconds if ticket in child.held else 0.0)
        return found

    def held_count(self) -> list[int]:
        """How many jobs of each class children hold, begun or not."""
        held = [0] * CLASSES
        for child in self._children.values():
            held[child.class_index] += len(child.held)
        return held

    def size(self) -> int:
        """How many children there are."""
        return len(self._children)

    def close(self) -> None:
        """Kill everything at once; nothing more is reported."""
        self.code.close()
        for child in self._children.values():
            child.close()
        self._children.clear()
