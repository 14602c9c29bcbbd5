"""From what an attempt writes to numbered lines: whole, masked, and within its limits. Pure.

Lines that do not fit are counted, and a line in the log says how many are missing and why. Behind the limit of an
attempt the last lines are kept, too, for they mostly tell how it ended.
"""

import json
import math
from collections import deque
from dataclasses import dataclass
from typing import Any, NamedTuple

from apps.logs.masking import Masker
from apps.logs.records import LOG, SYSTEM, Line, encode

LAST_BYTES = 64 * 1024
"""Of what comes behind an attempt's limit, so much of its end is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """line_bytes: of one line's text. attempt_bytes: of all JSON lines of an attempt."""

    line_bytes: int
    attempt_bytes: int


class Numbered(NamedTuple):
    """A line that has its number."""

    sequence: int
    time_us: int
    data: bytes


@dataclass(slots=True)
class _Unfinished:
    """The beginning of a line. cut: bytes that were too many and are gone."""

    time_us: int
    data: bytearray
    cut: int = 0


class Assembler:
    """The lines of one attempt. `take` gives what has become of what was fed."""

    def __init__(self, attempt: int, masker: Masker, limits: Limits) -> None:
        self._attempt = attempt
        self._mask = masker
        self._limits = limits
        self._keep = limits.line_bytes + 4 * masker.longest
        self._unfinished: dict[int, _Unfinished] = {}
        self._out: list[Numbered] = []
        self._sequence = 0
        self._bytes = 0
        self._missing: dict[str, int] = {}
        self._full = False
        self._over = 0
        self._last: deque[tuple[Line, int]] = deque()
        self._last_bytes = 0
        self.dropped = 0
        """Lines that will never be seen."""

    def feed(self, stream: int, time_us: int, data: bytes) -> None:
        """Any piece of what was written to `stream`; a line has the time of its first piece."""
        if stream == LOG:
            self._record(time_us, data)
            return
        *whole, rest = data.split(b"\n")
        for piece in whole:
            beginning = self._unfinished.pop(stream, None)
            if beginning is None:
                self._line(stream, time_us, piece, 0)
            else:
                self._grow(beginning, piece)
                self._line(stream, beginning.time_us, bytes(beginning.data), beginning.cut)
        if rest:
            self._grow(self._unfinished.setdefault(stream, _Unfinished(time_us, bytearray())), rest)

    def missing(self, count: int, why: str) -> None:
        """Lines were dropped before they came here."""
        self._missing[why] = self._missing.get(why, 0) + count
        self.dropped += count

    def end(self, time_us: int) -> None:
        """Nothing follows: what has begun is a line, too, and what was dropped is told."""
        for stream, beginning in sorted(self._unfinished.items()):
            self._line(stream, beginning.time_us, bytes(beginning.data), beginning.cut)
        self._unfinished.clear()
        self._tell_missing(time_us)
        if self._over:
            limit = f"limit {self._limits.attempt_bytes / (1 << 20):g} MB"
            self._append_at_last(Line(time_us, SYSTEM, told(self._over, limit)))
            self.dropped += self._over
        for line, _ in self._last:
            self._append_at_last(line)
        self._last.clear()

    def take(self) -> list[Numbered]:
        """The lines since the last call."""
        out, self._out = self._out, []
        return out

    @property
    def last(self) -> int:
        """The number of the last line."""
        return self._sequence

    def _grow(self, beginning: _Unfinished, piece: bytes) -> None:
        room = self._keep - len(beginning.data)
        beginning.data += piece[:room] if room > 0 else b""
        beginning.cut += max(0, len(piece) - max(0, room))

    def _line(self, stream: int, time_us: int, data: bytes, cut: int) -> None:
        if data.endswith(b"\r"):
            data = data[:-1]
        if len(data) > self._keep:
            cut += len(data) - self._keep
            data = data[: self._keep]
        text = self._mask(data.decode("utf-8", "replace"))
        self._add(Line(time_us, stream, self._shortened(text, cut)))

    def _shortened(self, text: str, cut: int) -> str:
        """Cut only once it is masked: half a secret would pass."""
        most = self._limits.line_bytes
        if cut or len(text) > most // 4:
            raw = text.encode()
            if cut or len(raw) > most:
                kept = raw[:most].decode("utf-8", "ignore")
                cut += len(raw) - len(kept.encode())
                return f"{kept} … {cut:,} bytes were dropped here: limit {most // 1024} KiB"
        return text

    def _record(self, time_us: int, data: bytes) -> None:
        """A JSON object that `context.log` wrote: {"level", "message", "fields"}."""
        try:
            record = self._masked(json.loads(data))
        except RecursionError:
            record = {"level": "error", "message": "this line's fields were nested too deep to be kept"}
        extra = f',"level":{json.dumps(record["level"])}'
        fields = json.dumps(record["fields"], ensure_ascii=False) if record.get("fields") else ""
        if len(fields) > self._limits.line_bytes:
            fields = '{"…":"too large"}'
        if fields:
            extra += f',"fields":{fields}'
        self._add(Line(time_us, LOG, self._shortened(record["message"], 0), extra))

    def _masked(self, value: Any) -> Any:
        """Masked value by value: replaced in the JSON text, a number that is a secret would leave no JSON."""
        if isinstance(value, str):
            return self._mask(value)
        if isinstance(value, dict):
            return {self._mask(name): self._masked(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [self._masked(inner) for inner in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            shown = self._mask(text)
            return value if shown == text and math.isfinite(value) else shown
        return value

    def _add(self, line: Line) -> None:
        if self._missing:
            self._tell_missing(line.time_us)
        self._put(line)

    def _put(self, line: Line) -> None:
        if not self._full:
            data = encode(self._attempt, self._sequence + 1, line)
            self._full = self._bytes + len(data) > self._limits.attempt_bytes
            if not self._full:
                self._append(line, data)
                return
        size = len(line.text) + len(line.extra)
        self._last.append((line, size))
        self._last_bytes += size
        while self._last_bytes > LAST_BYTES and len(self._last) > 1:
            self._last_bytes -= self._last.popleft()[1]
            self._over += 1

    def _append(self, line: Line, data: bytes) -> None:
        self._sequence += 1
        self._bytes += len(data)
        self._out.append(Numbered(self._sequence, line.time_us, data))

    def _append_at_last(self, line: Line) -> None:
        self._append(line, encode(self._attempt, self._sequence + 1, line))

    def _tell_missing(self, time_us: int) -> None:
        missing, self._missing = self._missing, {}
        for why, count in missing.items():
            self._put(Line(time_us, SYSTEM, told(count, why)))


def told(count: int, why: str) -> str:
    """What stands where lines are missing."""
    return f"… {count:,} line{'s were' if count != 1 else ' was'} dropped here: {why}"
