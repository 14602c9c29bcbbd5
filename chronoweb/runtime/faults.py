"""Named points at which a test may have this process killed, to show that what heals the crash does.

Nothing happens unless CHRONOWEB_FAULT names the point: then the process kills itself there with SIGKILL, as a power
cut would, at the n-th passing ("dispatcher.popped" or "dispatcher.popped:3").
"""

import os
import signal

_point = ""
_left = 1


def aim(fault: str) -> None:
    """Take `fault` (as the environment has it) for the point to die at; empty: none."""
    global _point, _left
    _point, _, count = fault.partition(":")
    _left = int(count or 1)


def point(name: str) -> None:
    """Die here, if the environment says so."""
    global _left
    if _point and name == _point:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


aim(os.environ.get("CHRONOWEB_FAULT", ""))
