"""Waiting for a condition instead of for a time."""

import os
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE_SECONDS = 20.0
"""How long something may take to come, however busy the machine is. What promises a time measures it."""


def busy() -> float:
    """How much longer things may take: twice as long where twice as much is ready to run as there are cores."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def eventually(condition: Callable[[], T], *, seconds: float = 10.0, every: float = 0.02) -> T:
    """The first true value of condition(); fails the test when there is none within seconds (longer when `busy`)."""
    began = time.monotonic()
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < began + seconds * busy(), f"not within {seconds:g} s: {condition}"
        pause.wait(every)
    return value
