"""What passes between the worker, the runner and whatever runs the work."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from apps.executions.states import Outcome
from apps.logs.attempt_log import AttemptLog

Asked = Literal["cancel", "drain"]
Answer = Callable[[str | None], None]
"""None: it is kept. Text: why it is not."""


@dataclass(frozen=True, slots=True)
class Distant:
    """A secret that lies in Vault. path: below the mount, the tenant's prefix included. where: who refers to it.

    part: the member of the handler that takes it.
    """

    name: str
    path: str
    key: str
    part: str
    where: str


@dataclass(slots=True)
class Assignment:
    """What a claimed execution needs to run. Instants are microseconds since the epoch, UTC."""

    execution_id: bytes
    token: int
    attempt: int
    max_attempts: int
    handler: Mapping[str, Any]
    parameters_json: bytes | None
    timeout_seconds: float
    tenant: str
    task_name: str
    nominal_at_us: int | None
    scheduled_at_us: int
    idempotency_key: str
    checkpoint_json: bytes | None = None
    """What the last attempt left."""
    heartbeat_seconds: float | None = None
    total_seconds: float | None = None
    first_start_us: int | None = None
    """Of an execution with total_seconds: when its first attempt began, by the database's clock; None: not yet."""
    total_is_nearer: bool = False
    """Whether timeout_seconds is what is left of total_seconds, and not the limit of one attempt."""
    idempotent: bool = True
    class_index: int = 1
    traceparent: str | None = None
    """W3C; of the request that triggered it, if that was traced."""
    webhook_secrets: tuple[str, ...] = field(default=(), repr=False)
    run_json: bytes | None = None
    """Of a node of a run: what the handler's context tells of the run, the parents and the item."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the references of its handler stand for, by name. Never passed on but to the handler itself."""
    secret_mark: str = ""
    """What the references of its handler carry, so that none is taken for one that came with a result."""
    distant: "tuple[Distant, ...]" = ()
    """Secrets that are read elsewhere when it begins; then they are among `secrets`."""
    problem: dict[str, Any] | None = None
    """Why it cannot run at all: it fails with this error."""


@dataclass(slots=True)
class RunResult:
    """How one assignment ended. Instants are microseconds by this host's clock.

    error: {"type", "message", "traceback", "permanent"} and what the handler type adds, such as "class" where it knows
    better than failure.classify, and "fate": "unknown" where it may have been done; None on success.
    """

    assignment: Assignment
    outcome: Outcome
    started_at_us: int
    finished_at_us: int
    result_json: bytes | None
    error: dict[str, Any] | None


class Report(NamedTuple):
    """What running a handler came to, before anybody knows whose it was."""

    outcome: int
    result_json: bytes | None
    error: dict[str, Any] | None


@dataclass(slots=True, eq=False)
class Job:
    """One assignment inside the runner. `seq` orders jobs as they were submitted and is never used twice."""

    seq: int
    assignment: Assignment
    name: str
    """The Python handler's name; empty for other handler types."""
    submitted: float
    """Monotonic seconds."""
    started_us: int = 0
    """Host clock; 0 until it runs. Jobs in children are started by the child, which says so in shared memory."""
    give_up_at: float = 0.0
    """Monotonic seconds at which what runs it outside a child is abandoned."""
    grace: float = 0.0
    """Seconds that stopping it may take, once it runs outside a child."""
    lost: int = 0
    """How often a child died before this job's turn came."""
    cancelled: bool = False
    done: bool = False
    released: bool = False
    """Whether it goes back to the worker unfinished instead of being reported."""
    holder: Any = None
    """The child that it was handed to, and under which ticket."""
    ticket: int = 0
    expected: float = 0.0
    """Seconds that it was expected to take when it was handed to a child."""
    extra: dict[str, Any] = field(default_factory=dict)
    """What a command or webhook had gathered when it was stopped; goes into the error."""
    asked: Asked | None = None
    """Why the handler was asked to stop."""
    listening: bool = False
    """Whether a handler outside children has looked if it is asked, or has said something."""
    stop_at: float | None = None
    """Monotonic seconds at which a job that was asked is stopped."""
    said: tuple[float, float | None] | None = None
    """(done, total) that was said last."""
    heard_at: float | None = None
    """Monotonic seconds of its last word; None while it has said nothing."""
    passed_on_at: float = 0.0
    """Monotonic seconds at which its progress was last passed on."""
    stopped_silent: bool = False
    """Whether it is being stopped because it has been silent for too long."""
    unkept: int = 0
    """Checkpoints that are being written."""
    checkpointed: bool = False
    log: AttemptLog | None = None
    """What it has printed; None while that is nothing, or nobody keeps it."""

    def silent(self, now: float) -> bool:
        """Whether a handler that used to say something has been silent for too long; waiting for us is not silence."""
        limit = self.assignment.heartbeat_seconds
        return limit is not None and self.heard_at is not None and not self.unkept and now - self.heard_at > limit


class NoteTaker(Protocol):
    """Who writes down what running attempts say. Called by the runner's thread; must not block."""

    def progressed(self, said: list[tuple[Assignment, float, float | None]]) -> None:
        """(attempt, done, total); the last word of each counts."""

    def keep(self, assignment: Assignment, text: bytes, answer: Answer) -> None:
        """Commit a checkpoint, then call `answer`, on whatever thread."""
