"""Log lines as they travel and are kept: JSON lines in batches, each batch of one attempt and without a gap inside.

An attempt is known by its fencing token: attempt numbers repeat when a drain gives work back, tokens never do, and they
grow. So (token, sequence number) orders all lines of an execution, and is what readers go on from.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from json.encoder import encode_basestring
from typing import NamedTuple

from apps.executions.ids import from_us

STDOUT, STDERR, LOG, SYSTEM, HTTP = 1, 2, 3, 4, 5
STREAMS = {STDOUT: "stdout", STDERR: "stderr", LOG: "log", SYSTEM: "system", HTTP: "http"}
"""system: what chronoweb itself says, such as how many lines it dropped. http: requests and answers of webhooks."""

_HEAD = struct.Struct(">16sqiqqqqB")


class Position(NamedTuple):
    """Behind which line to go on; (0, 0) is the beginning."""

    token: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.token}-{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Raises ValueError."""
        token, dash, sequence = text.partition("-")
        if not (dash and token.isdecimal() and sequence.isdecimal() and text.isascii() and len(text) < 40):
            raise ValueError(f"{text[:60]!r} is no position: a position reads TOKEN-SEQUENCE")
        found = cls(int(token), int(sequence))
        if found.token >= 1 << 63 or found.sequence >= 1 << 62:
            raise ValueError(f"{text[:60]!r} is no position: its numbers are too large")
        return found


BEGINNING = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines `first` to `last` of one attempt, as JSON lines. Instants are microseconds since the epoch, UTC.

    ended: nothing follows; such a batch may hold no line, and its `first` is then `last` + 1.
    """

    execution: bytes
    token: int
    attempt: int
    first: int
    last: int
    first_us: int
    last_us: int
    lines: bytes
    ended: bool = False

    @property
    def position(self) -> Position:
        return Position(self.token, self.last)

    def pack(self) -> bytes:
        head = (self.execution, self.token, self.attempt, self.first, self.last, self.first_us, self.last_us)
        return _HEAD.pack(*head, self.ended) + self.lines

    @classmethod
    def unpack(cls, data: bytes) -> "Batch":
        """Raises ValueError for what is none."""
        try:
            execution, token, attempt, first, last, first_us, last_us, ended = _HEAD.unpack_from(data)
        except struct.error as error:
            raise ValueError(f"no batch of log lines: {error}") from None
        return cls(execution, token, attempt, first, last, first_us, last_us, data[_HEAD.size :], bool(ended))

    def behind(self, position: Position) -> "Batch | None":
        """What of it comes after `position`; None if nothing does."""
        if self.token > position.token or (self.token == position.token and self.first > position.sequence):
            return self
        if self.token < position.token or self.last < position.sequence:
            return None
        if self.last == position.sequence:
            return self._without_lines() if self.ended else None
        lines = self.lines.split(b"\n", position.sequence - self.first + 1)[-1]
        first = position.sequence + 1
        return Batch(
            self.execution, self.token, self.attempt, first, self.last, self.first_us, self.last_us, lines, self.ended
        )

    def _without_lines(self) -> "Batch":
        return Batch(
            self.execution, self.token, self.attempt, self.last + 1, self.last, self.last_us, self.last_us, b"", True
        )

    def numbered(self) -> Iterator[tuple[Position, bytes]]:
        """Each line without its line feed, and its position."""
        for offset, line in enumerate(self.lines.split(b"\n")[:-1]):
            yield Position(self.token, self.first + offset), line


class Line(NamedTuple):
    """One line before it has a number."""

    time_us: int
    stream: int
    text: str
    extra: str = ""
    """JSON members that belong to it, each begun by a comma."""


def encode(attempt: int, sequence: int, line: Line) -> bytes:
    """The JSON line, its line feed included."""
    return (
        f'{{"attempt":{attempt},"seq":{sequence},"time":"{_instant(line.time_us)}",'
        f'"stream":"{STREAMS[line.stream]}","text":{encode_basestring(line.text)}{line.extra}}}\n'
    ).encode()


def joined(batches: Sequence[Batch]) -> Batch:
    """One batch of several that follow each other without a gap."""
    first, last = batches[0], batches[-1]
    return Batch(
        first.execution,
        first.token,
        first.attempt,
        first.first,
        last.last,
        first.first_us,
        last.last_us,
        b"".join(batch.lines for batch in batches),
        last.ended,
    )


def _instant(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{rest:06d}Z"


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return from_us(seconds * 1_000_000).strftime("%Y-%m-%dT%H:%M:%S")
