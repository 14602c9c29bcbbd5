"""What a Python handler is told about the attempt that it is, and what it may say of itself."""

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from apps.worker.handlers.line import NO_LINE, Line
from apps.worker.handlers.log import TaskLog

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CHECKPOINT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Handed to every Python handler as its first argument. All instants are aware, in UTC.

    idempotency_key is the same for every attempt of an execution; fencing_token grows with each dispatch. A
    side effect that stores the token and refuses smaller ones cannot be overtaken by an attempt that was lost.
    deadline is when the attempt will be stopped, by this host's clock. traceparent (W3C Trace Context) is that of the
    request which triggered the execution, or None: spans of the handler join that trace.
    """

    execution_id: UUID
    tenant: str
    task_name: str
    attempt: int
    max_attempts: int
    nominal_at: datetime | None
    scheduled_at: datetime
    idempotency_key: str
    fencing_token: int
    parameters: dict[str, Any]
    deadline: datetime
    _left: bytes | None = field(default=None, repr=False)
    _line: Line = field(default=NO_LINE, repr=False, compare=False)
    _seq: int = field(default=0, repr=False, compare=False)
    _run: bytes | None = field(default=None, repr=False)
    traceparent: str | None = None

    @property
    def checkpoint_data(self) -> Any:
        """The last checkpoint of an earlier attempt, wherever that ran; None if there is none."""
        return json.loads(self._left) if self._left else None

    @property
    def parents(self) -> dict[str, Any]:
        """In a DAG: the result of each node right before this one, by its id; None of one that has none.

        A mapped node's result is the list of its items' results. Empty outside a DAG.
        """
        return {name: parent["result"] for name, parent in self._of_run("parents", {}).items()}

    @property
    def parent_states(self) -> dict[str, str]:
        """In a DAG: how each node right before this one ended, such as `succeeded`, `failed` or `skipped`."""
        return {name: parent["status"] for name, parent in self._of_run("parents", {}).items()}

    @property
    def run(self) -> dict[str, Any] | None:
        """In a DAG: the run's `id`, `parameters` and `nominal_at` (ISO 8601, UTC, or None). None outside."""
        return self._of_run("run", None)

    @property
    def item(self) -> Any:
        """In a mapped node: what this execution is for."""
        return self._of_run("item", None)

    @property
    def index(self) -> int | None:
        """In a mapped node: the item's position in its list."""
        return self._of_run("index", None)

    def _of_run(self, name: str, otherwise: Any) -> Any:
        return json.loads(self._run)[name] if self._run else otherwise

    @property
    def cancelled(self) -> bool:
        """Whether a cancel, or the worker's own end, asks this attempt to stop: leave a checkpoint, raise Interrupted.

        What has begun to look here, or to tell its progress, has a grace before it is killed.
        """
        return self._line.asked(self._seq)

    @property
    def log(self) -> TaskLog:
        """`log("message", field=…)`, `log.warning(…)`: a line in this attempt's log."""
        ids = {"execution": str(self.execution_id), "tenant": self.tenant, "task": self.task_name}
        return TaskLog(self._line, self._seq, **ids, attempt=self.attempt)

    def progress(self, done: float, total: float | None = None) -> None:
        """Say how far it is: `progress(64, 100)`. Call it as often as you like; people see it twice a second at most.

        It also says that the attempt lives. Raises ValueError for what is not a finite number from 0 up.
        """
        for value in (done, 0.0 if total is None else total):
            if not 0 <= value < math.inf:
                raise ValueError(f"progress({done!r}, {total!r}): numbers from 0 up are needed")
        self._line.progress(self._seq, float(done), None if total is None else float(total))

    def checkpoint(self, data: Any) -> None:
        """Leave `data` (JSON, at most 256 KiB) for the next attempt, instead of what was left before.

        It is committed when this returns. Raises ValueError for what cannot be kept, LeaseLost when the execution is
        no longer this attempt's: then nothing was written, and the handler should stop.
        """
        self._line.keep(self._seq, encode_checkpoint(data))


class AsyncTaskContext(TaskContext):
    """What coroutine functions are handed: the same, with a checkpoint to be awaited."""

    __slots__ = ()

    async def checkpoint(self, data: Any) -> None:  # type: ignore[override] # a coroutine must not block its loop
        """As TaskContext.checkpoint."""
        await self._line.keep_async(self._seq, encode_checkpoint(data))


def encode_checkpoint(data: Any) -> bytes:
    """JSON text. Raises ValueError."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        raise ValueError("the checkpoint contains a lone surrogate, which is not text") from None
    except (TypeError, ValueError, RecursionError) as problem:
        raise ValueError(f"the checkpoint is not JSON: {problem}") from None
    if len(text) > CHECKPOINT_BYTES:
        raise ValueError(f"the checkpoint is too large: {len(text)} bytes of JSON, at most {CHECKPOINT_BYTES} are kept")
    return text


class Entry(NamedTuple):
    """One job as it crosses to a child: only what marshal can carry."""

    seq: int
    name: str
    parameters_json: bytes | None
    execution_id: bytes
    tenant: str
    task_name: str
    attempt: int
    max_attempts: int
    nominal_at_us: int | None
    scheduled_at_us: int
    idempotency_key: str
    token: int
    timeout_seconds: float
    checkpoint_json: bytes | None = None
    run_json: bytes | None = None
    traceparent: str | None = None


class BadParameters(ValueError):
    """The stored parameters are not a JSON object."""


def decode_parameters(text: bytes | None) -> dict[str, Any]:
    """The parameters as keyword arguments; None means none. Raises BadParameters."""
    if not text or text == b"{}":
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise BadParameters(f"the parameters are not JSON: {error}") from None
    if not isinstance(value, dict):
        raise BadParameters(f"the parameters must be a JSON object, not {type(value).__name__}")
    return value


def build_context(
    entry: Entry,
    parameters: dict[str, Any],
    started: float,
    line: Line,
    kind: type[TaskContext] = TaskContext,
) -> TaskContext:
    """The context of an attempt that started at `started` (seconds since the epoch)."""
    nominal = entry.nominal_at_us
    return kind(
        UUID(bytes=entry.execution_id),
        entry.tenant,
        entry.task_name,
        entry.attempt,
        entry.max_attempts,
        None if nominal is None else EPOCH + timedelta(microseconds=nominal),
        EPOCH + timedelta(microseconds=entry.scheduled_at_us),
        entry.idempotency_key,
        entry.token,
        parameters,
        EPOCH + timedelta(seconds=started + entry.timeout_seconds),
        entry.checkpoint_json,
        line,
        entry.seq,
        entry.run_json,
        entry.traceparent,
    )
