"""How an attempt and its worker speak while it runs; where the handler runs decides what such a line is made of."""

import asyncio
from typing import Any, NoReturn

from apps.worker.handlers.registry import LeaseLost

ENDED = "the attempt has ended: what it says now is not kept"


class Line:
    """One end of it, the handler's. seq: which of the attempts that share the line speaks. Threads may share it."""

    def progress(self, seq: int, done: float, total: float | None) -> None:
        """Say how far the attempt is; costs next to nothing, and the last word is what is kept."""
        raise NotImplementedError

    def keep(self, seq: int, text: bytes) -> None:
        """Have a checkpoint (JSON text) committed; returns when it is. Raises LeaseLost."""
        raise NotImplementedError

    async def keep_async(self, seq: int, text: bytes) -> None:
        """The same on an event loop."""
        await asyncio.to_thread(self.keep, seq, text)

    def asked(self, seq: int) -> bool:
        """Whether the attempt is asked to stop."""
        raise NotImplementedError

    def log(self, seq: int, record: dict[str, Any]) -> bool:
        """Put a line {"level", "message", "fields"} into the attempt's log; False where nobody keeps one."""
        return False


class NoLine(Line):
    """Of a context that nobody hears."""

    def progress(self, seq: int, done: float, total: float | None) -> None:
        return

    def keep(self, seq: int, text: bytes) -> NoReturn:
        raise LeaseLost(ENDED)

    def asked(self, seq: int) -> bool:
        return False


NO_LINE = NoLine()
