"""How often what people look at is read anew: all hubs of a process together are given a part of one core.

A reading is paid for: after one that took 10 ms of the processor and was sent to few, a tenth of a core has to spare
for the next one 100 ms later. So one page that is open changes four times a second, and what hundreds look at, or what
takes long to read, more rarely; but never later than it can bear.
"""

import time

WINDOW_SECONDS = 0.25
"""Between two readings of the same hub, at least."""
BUDGET = 0.1
"""Of a core."""
SENDING_SECONDS = 0.000_15
"""Of the processor, for one message to one socket."""
MOST_DEBT_SECONDS = 2.0
"""So far ahead at most is time spoken for: what was not affordable is forgotten, not waited for."""


class Pace:
    """What the hubs of one process have spent. In one thread."""

    def __init__(self) -> None:
        self._paid_at = 0.0

    def spend(self, seconds: float) -> None:
        """So much of the processor was used, for one reading and for sending it."""
        now = time.monotonic()
        self._paid_at = min(max(now, self._paid_at) + seconds / BUDGET, now + MOST_DEBT_SECONDS)

    def wait_seconds(self, began: float, *, patience: float) -> float:
        """How long to wait for the next reading of what was read last at `began`; 0: it may begin.

        patience: seconds after which it is read whatever that costs.
        """
        at = max(began + WINDOW_SECONDS, min(self._paid_at, began + patience))
        return max(0.0, at - time.monotonic())
