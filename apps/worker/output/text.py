"""What stands in for `sys.stdout` and `sys.stderr` where handlers run."""

import io
from collections.abc import Callable
from typing import Any

Write = Callable[[bytes], None]


class CapturedBytes(io.RawIOBase):
    """`sys.stdout.buffer`."""

    def __init__(self, write: Write, descriptor: int) -> None:
        self._write = write
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raw = bytes(data)
        self._write(raw)
        return len(raw)

    def fileno(self) -> int:
        return self._descriptor


class CapturedText(io.TextIOBase):
    """Text that becomes bytes at once: nothing waits here. descriptor: what programs inherit that write there."""

    def __init__(self, write: Write, descriptor: int, flush: Callable[[], None] = lambda: None) -> None:
        self._write = write
        self._flush = flush
        self._binary = CapturedBytes(write, descriptor)

    @property
    def buffer(self) -> Any:
        return self._binary

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8"

    @property
    def errors(self) -> str:  # type: ignore[override]
        return "replace"

    @property
    def line_buffering(self) -> bool:
        return True

    def reconfigure(self, **_: Any) -> None:
        """As on a text file; what it could change is fixed here."""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._write(text.encode("utf-8", "replace"))
        return len(text)

    def flush(self) -> None:
        self._flush()

    def fileno(self) -> int:
        return self._binary.fileno()

    def isatty(self) -> bool:
        return False
