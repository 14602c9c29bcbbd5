"""Memory that a child writes what its job prints into, and the runner reads from: no system call a line.

A ring of records, [length, ticket, microseconds, stream][bytes]. It outlasts the child: what was written before a kill
is read after it. The child alone moves HEAD, once a record is whole; the runner alone moves TAIL.
"""

import mmap
import os
import struct
from typing import NamedTuple

CAPACITY = 256 * 1024
MOST_BYTES = 64 * 1024
"""Of one record of a stream; longer pieces are several records."""
RESERVE = 4096
"""What is left free for the marks that lines were dropped."""
_START = 64
_RECORD = struct.Struct("<IQQB")

# Words of 8 bytes.
_HEAD = 0  # bytes written, ever
_TAIL = 1  # bytes read, ever
_READING = 2  # 1 while the runner looks whose bytes are in the raw pipes, and takes them
_PATIENCE_MS = 3  # how long the child waits for room


class Written(NamedTuple):
    """One record. size: what it takes in the ring."""

    ticket: int
    time_us: int
    stream: int
    data: bytes
    size: int


class Ring:
    """The runner makes it; the child maps the descriptor that it is handed."""

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, _START + CAPACITY)
        self._bytes = memoryview(self._map)
        self._words = self._bytes[:_START].cast("Q")
        self._data = self._bytes[_START:]

    @staticmethod
    def create() -> int:
        """Descriptor of a new one; pages are only taken when they are written."""
        descriptor = os.memfd_create("chronoweb-output", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _START + CAPACITY)
        return descriptor

    @property
    def patience_seconds(self) -> float:
        return self._words[_PATIENCE_MS] / 1000

    @patience_seconds.setter
    def patience_seconds(self, seconds: float) -> None:
        self._words[_PATIENCE_MS] = int(seconds * 1000)

    @property
    def reading(self) -> bool:
        return bool(self._words[_READING])

    @reading.setter
    def reading(self, now: bool) -> None:
        self._words[_READING] = now

    @property
    def has_news(self) -> bool:
        return self._words[_HEAD] != self._words[_TAIL]

    @property
    def room(self) -> int:
        """Bytes that are free."""
        return CAPACITY - (self._words[_HEAD] - self._words[_TAIL])

    def append(self, ticket: int, time_us: int, stream: int, data: bytes, *, reserve: int = RESERVE) -> bool:
        """Write a record; False unless `reserve` bytes stay free. One thread at a time, in the child."""
        record = _RECORD.pack(len(data), ticket, time_us, stream) + data
        head = self._words[_HEAD]
        if len(record) + reserve > self.room:
            return False
        at = head % CAPACITY
        first = min(len(record), CAPACITY - at)
        self._data[at : at + first] = record[:first]
        if first < len(record):
            self._data[: len(record) - first] = record[first:]
        self._words[_HEAD] = head + len(record)
        return True

    def peek(self) -> Written | None:
        """The oldest record; None if there is none. In the runner."""
        if not self.has_news:
            return None
        tail = self._words[_TAIL]
        length, ticket, time_us, stream = _RECORD.unpack(self._at(tail, _RECORD.size))
        return Written(ticket, time_us, stream, self._at(tail + _RECORD.size, length), _RECORD.size + length)

    def consume(self, written: Written) -> None:
        """Give its room back."""
        self._words[_TAIL] += written.size

    def _at(self, position: int, length: int) -> bytes:
        at = position % CAPACITY
        if at + length <= CAPACITY:
            return bytes(self._data[at : at + length])
        return bytes(self._data[at:]) + bytes(self._data[: length - (CAPACITY - at)])

    def close(self) -> None:
        self._words.release()
        self._data.release()
        self._bytes.release()
        self._map.close()
