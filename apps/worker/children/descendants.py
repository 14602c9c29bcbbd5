"""The processes that a process started, directly or not, and their end."""

import os
import select
import signal
from collections import defaultdict
from collections.abc import Iterable

_PAUSE_SECONDS = 0.002


def descendants(pid: int) -> list[int]:
    """Living descendants of `pid`, nearest first; an orphan belongs to whoever adopted it."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdecimal() and (parent := _parent(name)):
            children[parent].append(int(name))
    found = list(children[pid])
    for one in found:  # grows while it is walked
        found.extend(children[one])
    return found


def kill_all(pids: Iterable[int]) -> None:
    """SIGKILL to each that still exists and that this process may kill."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def end_descendants(*, rounds: int) -> bool:
    """Kill and reap all descendants of this process, again until none is left; False after `rounds` in vain.

    This process must have adopted orphans (confinement.adopt_orphans), and must not wait for children elsewhere.
    """
    for _ in range(rounds):
        if not _reap():
            return True
        kill_all(descendants(os.getpid()))
        if not _reap():
            return True
        select.select([], [], [], _PAUSE_SECONDS)
    return False


def _reap() -> bool:
    """Whether children are left after those that ended were reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _parent(name: str) -> int | None:
    """The parent of a process; None if it has ended, or waits to be reaped."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
    except (OSError, ValueError):
        return None
    return None if state == b"Z" else int(parent)
