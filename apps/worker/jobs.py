"""What passes between the worker, the runner and whatever runs the work."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from apps.executions.states import Outcome


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


@dataclass(slots=True)
class RunResult:
    """How one assignment ended. Instants are microseconds by this host's clock.

    error: {"type", "message", "traceback", "permanent"} and what the handler type adds; None on success.
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
