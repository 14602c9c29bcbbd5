"""Waiting for a condition instead of for a time."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], *, seconds: float = 10.0, every: float = 0.02) -> T:
    """The first true value of condition(); fails the test when there is none within seconds."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {condition}"
        pause.wait(every)
    return value
