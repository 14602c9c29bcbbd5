"""Dying with the parent: Linux's parent-death signal."""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def prctl(option: int, value: int) -> None:
    """Linux's prctl(option, value); nothing elsewhere. Raises OSError."""
    if _libc is not None and _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent(parent: int, death_signal: int = signal.SIGKILL) -> None:
    """Have the kernel send `death_signal` to this process when the thread that made it ends.

    Ends the process at once if `parent` (a pid) is no longer its parent. Elsewhere than on Linux only that.
    """
    prctl(PR_SET_PDEATHSIG, int(death_signal))
    if os.getppid() != parent:
        os._exit(71)
