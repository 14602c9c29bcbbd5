"""The handler that the bench runs: it notes that it ran, and does nothing else."""

import os
import time
from functools import cache
from pathlib import Path
from uuid import UUID

from apps.worker.handlers import TaskContext, task_handler

RECORD_VARIABLE = "CHRONOWEB_BENCH_RECORD"
"""Environment variable that names the folder to note runs in."""


@task_handler("bench.record", listed=False)
def record(context: TaskContext) -> None:
    """Append the execution's id to this process's own file: one write, so a kill leaves whole ids."""
    os.write(_file(), _raw(context.execution_id))


@task_handler("bench.pause", listed=False)
def pause(context: TaskContext, *, milliseconds: int) -> None:
    """Wait, as a call to somebody else does."""
    time.sleep(milliseconds / 1000)  # noqa: TID251 - the wait is the work


@cache
def _file() -> int:
    folder = Path(os.environ[RECORD_VARIABLE])
    return os.open(folder / str(os.getpid()), os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)


def _raw(identity: UUID | bytes) -> bytes:
    return identity.bytes if isinstance(identity, UUID) else identity


def recorded(folder: Path) -> list[bytes]:
    """Every run that was noted, as execution ids."""
    runs: list[bytes] = []
    for file in folder.iterdir():
        blob = file.read_bytes()
        runs += [blob[n : n + 16] for n in range(0, len(blob), 16)]
    return runs
