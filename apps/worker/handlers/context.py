"""What a Python handler is told about the attempt that it is."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Handed to every Python handler as its first argument. All instants are aware, in UTC.

    idempotency_key is the same for every attempt of an execution; fencing_token grows with each dispatch. A
    side effect that stores the token and refuses smaller ones cannot be overtaken by an attempt that was lost.
    deadline is when the attempt will be stopped, by this host's clock.
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


def build_context(entry: Entry, parameters: dict[str, Any], started: float) -> TaskContext:
    """The context of an attempt that started at `started` (seconds since the epoch)."""
    nominal = entry.nominal_at_us
    return TaskContext(
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
    )
