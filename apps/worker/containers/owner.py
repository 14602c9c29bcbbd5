"""Whose a container is: a mark that tells, on the same machine, whether the worker that started it still lives.

boot id / pid namespace / pid / start time of the process. A mark of another machine or another pid namespace says
nothing here; such a container is left alone until its deadline.
"""

import os
from functools import cache
from pathlib import Path


@cache
def own_mark() -> str:
    """The mark of this process."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_started(pid)}"


def is_gone(mark: str) -> bool:
    """Whether the process of `mark` lived where this one does, and lives no more."""
    place, _, process = mark.rpartition("/")[0].rpartition("/")
    started = mark.rpartition("/")[2]
    return place == _place() and process.isdecimal() and _started(int(process)) != started


@cache
def _place() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return "unknown/0"


def _started(pid: int) -> str:
    """Clock ticks since boot at which `pid` started; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
