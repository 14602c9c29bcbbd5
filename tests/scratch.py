"""Where tests put what is thrown away with them: in memory, where there is room.

A cloned database is hundreds of files. On a disk making them takes most of a second, in memory a fortieth of one.
"""

import os
from pathlib import Path

import psutil

MEMORY = Path("/dev/shm")  # noqa: S108 # folders in it are made by mkdtemp, under names of their own
ROOM_BYTES = 6 * 1024**3
"""A run of the suite keeps up to 2 GiB there; the rest is for the processes beside it."""


def folder() -> str | None:
    """The `dir` for tempfile's functions; None is their own default."""
    if not os.access(MEMORY, os.W_OK):
        return None
    size = os.statvfs(MEMORY)
    room = min(size.f_bavail * size.f_frsize, psutil.virtual_memory().available)
    return str(MEMORY) if room >= ROOM_BYTES else None
