"""Waiting for a condition instead of for a time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 90.0
"""How long something may take to come, however busy the machine is: it costs nothing where it comes sooner."""


def eventually(condition: Callable[[], T], *, seconds: float = PATIENCE_SECONDS, every: float = 0.02) -> T:
    """The first true value of condition(); fails the test when there is none within seconds.

    seconds: to be given only where more than patience is needed. A bound that a busy machine may miss proves nothing.
    """
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        pause.wait(every)
    return value
