"""A bar for people who wait; a line each tenth where nobody sees it move."""

from collections.abc import Callable
from typing import TextIO

from chronoweb.runtime.clock import SYSTEM_CLOCK, Clock

_WIDTH = 28
_REDRAW_SECONDS = 0.2


class Bar:
    """One bar after another on a stream."""

    def __init__(self, stream: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self._stream = stream
        self._clock = clock
        self._moves = stream.isatty()

    def begin(self, what: str, total: int) -> Callable[[int], None]:
        """Begin a bar; the answer is told how many more are done. The last one ends its line."""
        began = self._clock.monotonic()
        state = {"done": 0, "drawn": 0.0, "tenth": 0}

        def done(more: int) -> None:
            state["done"] = min(total, int(state["done"]) + more)
            share = state["done"] / total if total else 1.0
            now = self._clock.monotonic()
            finished = state["done"] >= total
            if self._moves and (finished or now - state["drawn"] >= _REDRAW_SECONDS):
                state["drawn"] = now
                self._draw(what, int(state["done"]), total, now - began, end="\n" if finished else "")
            elif not self._moves and (finished or int(share * 10) > state["tenth"]):
                state["tenth"] = int(share * 10)
                self._stream.write(f"{what}: {int(state['done']):,} of {total:,} ({now - began:.0f} s)\n")
                self._stream.flush()

        return done

    def _draw(self, what: str, done: int, total: int, seconds: float, *, end: str) -> None:
        share = done / total if total else 1.0
        full = int(share * _WIDTH)
        left = f"{seconds * (1 - share) / share:.0f} s left" if share > 0 and not end else f"{seconds:.0f} s"
        bar = "█" * full + "░" * (_WIDTH - full)
        self._stream.write(f"\r{what:<12} {bar} {share:>4.0%}  {done:,} of {total:,}  {left}   {end}")
        self._stream.flush()
