"""The runner's side of one child: its socket, its memory, and what it was handed."""

import math
import socket
from collections.abc import Callable, Iterator
from typing import Any

from apps.worker.children import framing
from apps.worker.children.estimates import SHORT_SECONDS, WINDOW_JOBS, WINDOW_SECONDS
from apps.worker.children.framing import SharedMemory
from apps.worker.children.zygote_client import ZygoteClient
from apps.worker.handlers.python import entry_of
from apps.worker.jobs import Job
from apps.worker.output.child_output import ChildOutput

READ_BYTES = 262144
WINDOW_BYTES = 131072
SOCKET_BYTES = 1 << 20


class ChildHandle:
    """One child, from the request to fork it to its reported end. Used by one thread."""

    def __init__(self, key: int, zygote: ZygoteClient, output: ChildOutput | None = None) -> None:
        self.key = key
        self.zygote = zygote
        self.socket, theirs = socket.socketpair()
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        descriptor = SharedMemory.create()
        self.memory = SharedMemory(descriptor)
        self.output = output
        zygote.ask("fork", key, [theirs.detach(), descriptor, *(output.descriptors if output else ())])
        self.held: dict[int, Job] = {}
        """What it was handed and has not reported, by ticket, in the order that it runs them.

        A ticket is a number that grows with each job handed to this child; a job's own number would not do:
        one that came back from another child is older than what is here already.
        """
        self.class_index = 0
        """Of what it holds: all of one class, whose slot it takes."""
        self.load = 0.0
        """Expected seconds of `held`."""
        self.bytes = 0
        self.long_jobs = 0
        """How many of `held` are not known to be short."""
        self.stuck = 0
        """Ticket of a job that was expected to be short and is not; nothing more is handed until it ends."""
        self.last_ticket = 0
        self.started = False
        self.retiring = False
        self.stopping = False
        self.victims: dict[int, str] = {}
        """ticket → why it is to be stopped ("timed_out", "cancelled")."""
        self.killed = False
        self.ended = False
        """Whether the socket is at its end; the zygote then says how the child ended."""
        self.idle_since = 0.0
        self.on_ready: Callable[[int], None]
        """What the selector calls; set by the pool."""
        self.said = 0
        """Count of the last word of its jobs that was heard."""
        self._batch: list[Job] = []
        self._unsent = b""
        self._received = bytearray()

    @property
    def open(self) -> bool:
        """Whether it may be handed more."""
        return not (self.retiring or self.stopping or self.killed or self.stuck)

    def takes(self, cost: float) -> bool:
        """Whether a job of `cost` expected seconds fits; a window is refilled once it is half empty."""
        if not self.open:
            return False
        if not self.held:
            return True
        part = 1.0 if self._batch else 0.5
        return (
            self.load + cost <= WINDOW_SECONDS * part
            and len(self.held) < WINDOW_JOBS * part
            and self.bytes < WINDOW_BYTES
        )

    def hand(self, job: Job, cost: float) -> None:
        """Add to the batch that `send` sends."""
        self.last_ticket += 1
        self.class_index = job.assignment.class_index
        job.holder, job.ticket, job.expected = self, self.last_ticket, cost
        self.held[self.last_ticket] = job
        self.load += cost
        self.long_jobs += cost >= SHORT_SECONDS
        self.bytes += _size(job)
        self._batch.append(job)

    def send(self) -> bool:
        """Send the batch; never blocks. False if some is left for when the socket takes it."""
        if self._batch:
            self._unsent += framing.frame([tuple(entry_of(j.ticket, j.assignment, j.name)) for j in self._batch])
            self._batch.clear()
        while self._unsent:
            try:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
            except BlockingIOError:
                return False
            except OSError:
                self._unsent = b""  # it is gone; the zygote says so presently
        return True

    def tell(self, message: tuple[Any, ...]) -> bool:
        """Send something beside jobs; as `send`."""
        self._unsent += framing.frame(message)
        return self.send()

    def heard(self) -> tuple[int, float, float | None] | None:
        """(ticket, done, total) of what a job of it said since the last call; None if nothing."""
        said = self.memory.said_since(self.said)
        if said is None:
            return None
        self.said, ticket, done, total = said
        return ticket, done, None if math.isnan(total) else total

    def receive(self) -> Iterator[tuple[Any, ...]]:
        """The records that arrived; ends quietly at end of file."""
        try:
            while data := self.socket.recv(READ_BYTES):
                self._received += data
                if len(data) < READ_BYTES:
                    break
            else:
                self.ended = True
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.ended = True
        return framing.take_messages(self._received)

    def unsent_records(self) -> Iterator[tuple[Any, ...]]:
        """The records that it wrote and did not send; only while it is stopped or gone."""
        return framing.take_messages(bytearray(self.memory.unsent()))

    def settle(self, ticket: int) -> Job | None:
        """Take a job off it; None if it was taken off before."""
        job = self.held.pop(ticket, None)
        if job is not None:
            job.holder = None
            self.load = self.load - job.expected if self.held else 0.0
            self.long_jobs -= job.expected >= SHORT_SECONDS
            self.bytes -= _size(job)
            self.victims.pop(ticket, None)
            if ticket == self.stuck:
                self.stuck = 0
        return job

    def elapsed(self, monotonic: float) -> tuple[int, float]:
        """Ticket of what it runs, for how many seconds; (0, 0) if nothing. A guess while it is not stopped."""
        ticket = self.memory.current()
        if not ticket:
            return 0, 0.0
        return ticket, max(0.0, monotonic - self.memory.words[framing.BEGUN_AT] / 1e9)

    def hang_up(self) -> None:
        """An idle child then ends by itself."""
        self.socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Let go of its socket and memory, once it has ended."""
        self.socket.close()
        self.memory.close()
        if self.output is not None:
            self.output.close()


def _size(job: Job) -> int:
    assignment = job.assignment
    return sum(
        len(part or b"") for part in (assignment.parameters_json, assignment.checkpoint_json, assignment.run_json)
    )
