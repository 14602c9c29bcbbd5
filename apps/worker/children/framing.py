"""What the runner and a child say to each other, and the memory they share.

Runner → child, over a socket: frames of [4-byte length][marshal], either a list of entries, or the answer to a
checkpoint: ("kept", number, None or why it was not).
Child → runner: records of [4-byte length][marshal: (seq, started_us, finished_us, outcome, result, error)], and,
while a job runs, ("checkpoint", seq, number, JSON text).

A record is first written to a log in shared memory and the log is sent at the end of a batch or once 1 ms has
passed. So a child that dies in the middle of a batch takes no finished work with it: the runner reads what was
not sent from the log, and what it gets twice it knows by `seq`.
"""

import marshal
import mmap
import os
from collections.abc import Iterator
from typing import Any

SIZE = 1 << 20
LOG_START = 128
# Words of 8 bytes at the start of the shared memory. A job is being run while BEGUN != FINISHED.
BEGUN = 0  # seq of the job begun last, written by the child
BEGUN_AT = 1  # when, in monotonic nanoseconds, written before BEGUN
FINISHED = 2  # seq of the job that ended last, written after its record
REVOKED_ABOVE = 3  # jobs with REVOKED_ABOVE < seq <= REVOKED_UPTO were taken back and must be passed over;
REVOKED_UPTO = 4  # written by the runner, and only while the child is stopped
LOG_LENGTH = 5  # bytes of records in the log, written after the records
ASKED = 6  # seq of a job that is asked to stop, written by the runner
LISTENING = 7  # seq of a job that has looked whether it is asked, or has said something, written by the child
SAID = 8  # what the job SAID_BY said last: a count that is odd while the three words after it are written
SAID_BY = 9
DONE = 10  # float64
TOTAL = 11  # float64; not a number: none


class SharedMemory:
    """The mapped memory of one child. The runner makes it; the child maps the descriptor that it is handed."""

    def __init__(self, descriptor: int) -> None:
        self.map = mmap.mmap(descriptor, SIZE)
        self._bytes = memoryview(self.map)
        self.words = self._bytes[:LOG_START].cast("Q")
        self._numbers = self._bytes[:LOG_START].cast("d")

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

    def say(self, seq: int, done: float, total: float) -> None:
        """Write how far a job is; one thread at a time, in the child."""
        count = self.words[SAID]
        self.words[SAID] = count | 1
        self.words[SAID_BY] = seq
        self._numbers[DONE] = done
        self._numbers[TOTAL] = total
        self.words[SAID] = (count | 1) + 1

    def said_since(self, count: int) -> tuple[int, int, float, float] | None:
        """(count, seq, done, total) of the last word after `count`; None when there is none, or it is being written."""
        now = self.words[SAID]
        if now == count or now & 1:
            return None
        said = now, self.words[SAID_BY], self._numbers[DONE], self._numbers[TOTAL]
        return said if self.words[SAID] == now else None

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
        self._numbers.release()
        self._bytes.release()
        self.map.close()


def frame(message: list[Any] | tuple[Any, ...]) -> bytes:
    """The bytes of one message: a list of entries for a child, or a tuple."""
    body = marshal.dumps(message)
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
