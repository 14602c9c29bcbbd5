"""What chaos runs: handlers whose effects are records in files outside all services, on the disk before they return.

A record is the execution's id (16 bytes), the fencing token (int64) and the attempt (int32), big-endian. Each process
appends to a file of its own, one write a record: a kill leaves whole records.
"""

import os
import struct
import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

from apps.worker.handlers import RateLimitedError, TaskContext, task_handler

EFFECTS_VARIABLE = "CHRONOWEB_CHAOS_EFFECTS"
"""Environment variable that names the folder of the effects."""

_RECORD = struct.Struct(">16sqi")


class Effect(NamedTuple):
    """One run of a handler that got as far as its effect."""

    execution_id: bytes
    token: int
    attempt: int


@task_handler("chaos.effect", listed=False)
def effect(context: TaskContext, *, failures: int = 0, work_ms: int = 0, serial: int = -1) -> None:
    """Fail on the first `failures` attempts; then work for so long, and leave one record.

    serial: the number of the trigger that asked for it; only the audit reads it.
    """
    if context.attempt <= failures:
        raise ConnectionError(f"attempt {context.attempt} of {failures} that are to fail")
    if work_ms:
        threading.Event().wait(work_ms / 1000)
    file = _file()
    os.write(file, _RECORD.pack(context.execution_id.bytes, context.fencing_token, context.attempt))
    os.fdatasync(file)


@task_handler("chaos.hopeless", listed=False)
def hopeless(context: TaskContext, *, serial: int = -1) -> None:
    """Fail always: what it runs for must end as a dead letter.

    A plea for patience says nothing to its circuit, which would else keep the last attempts back for an hour.
    """
    raise RateLimitedError("this upstream never has time", retry_after_seconds=0.5)


@cache
def _file() -> int:
    path = Path(os.environ[EFFECTS_VARIABLE]) / f"{os.getpid()}-{os.urandom(4).hex()}"
    return os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)


def read_effects(folder: Path) -> list[Effect]:
    """Every effect that was left."""
    found: list[Effect] = []
    for file in folder.iterdir():
        found += [Effect(*fields) for fields in _RECORD.iter_unpack(file.read_bytes())]
    return found
