"""What the runner and a child say to each other, and the memory they share.

Runner → child, over a socket: frames of [4-byte length][marshal: list of entries].
Child → runner: records of [4-byte length][marshal: (seq, started_us, finished_us, outcome, result, error)].

A record is first written to a log in shared memory and the log is sent at the end of a batch or once 1 ms has
passed. So a child that dies in the middle of a batch takes no finished work with it: the runner reads what was
not sent from the log, and what it gets twice it knows by `seq`.
"""

import marshal
import mmap
import os
from collections.abc import Iterator, Sequence
from typing import Any

SIZE = 1 << 20
LOG_START = 64
# Words of 8 bytes at the start of the shared memory. A job is being run while BEGUN != FINISHED.
BEGUN = 0  # seq of the job begun last, written by the child
BEGUN_AT = 1  # when, in monotonic nanoseconds, written before BEGUN
FINISHED = 2  # seq of the job that ended last, written after its record
REVOKED_ABOVE = 3  # jobs with REVOKED_ABOVE < seq <= REVOKED_UPTO were taken back and must be passed over;
REVOKED_UPTO = 4  # written by the runner, and only while the child is stopped
LOG_LENGTH = 5  # bytes of records in the log, written after the records


class SharedMemory:
    """The mapped memory of one child. The runner makes it; the child maps the descriptor that it is handed."""

    def __init__(self, descriptor: int) -> None:
        self.map = mmap.mmap(descriptor, SIZE)
        self._bytes = memoryview(self.map)
        self.words = self._bytes[:LOG_START].cast("Q")

    @staticmethod
    def create() -> int:
        """Descriptor of new memory, all zero; pages are only taken when they are written."""
        descriptor = os.memfd_create("chronoweb-child", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, SIZE)
        return descriptor

    def current(self) -> int:
        """seq of the job being run, 0 if none. Exact only while the child is stopped or gone."""
        begun = self.words[BEGUN]
        return 0 if begun == self.words[FINISHED] else begun

    def unsent(self) -> bytes:
        """The records of the log. Whole only while the child is stopped or gone."""
        return self.map[LOG_START : LOG_START + self.words[LOG_LENGTH]]

    def revoke_after(self, current: int, upto: int) -> None:
        """Make the stopped child pass over every job above `current` that it holds, up to `upto`.

        `current` is the job begun last. If that one lies in a range revoked before, the child has announced it
        but will still pass over it: the range then keeps its lower end.
        """
        if not self.words[REVOKED_ABOVE] < current <= self.words[REVOKED_UPTO]:
            self.words[REVOKED_ABOVE] = current
        self.words[REVOKED_UPTO] = upto

    def close(self) -> None:
        self.words.release()
        self._bytes.release()
        self.map.close()


def frame(entries: Sequence[tuple[Any, ...]]) -> bytes:
    """The bytes that hand `entries` to a child."""
    body = marshal.dumps(list(entries))
    return len(body).to_bytes(4, "big") + body


def take_messages(buffer: bytearray) -> Iterator[Any]:
    """Decode and remove every whole message at the front of `buffer`."""
    position, end = 0, len(buffer)
    view = memoryview(buffer)
    try:
        while end - position >= 4:
            size = int.from_bytes(view[position : position + 4], "big")
            if end - position < 4 + size:
                break
            # Only the two ends of one installation speak here, and the child runs its code anyway.
            yield marshal.loads(view[position + 4 : position + 4 + size])  # noqa: S302
            position += 4 + size
    finally:
        view.release()
        del buffer[:position]
