"""Named points at which a test may have this process killed, to show that what heals the crash does.

Nothing happens unless CHRONOWEB_FAULT names the point: then the process kills itself there with SIGKILL, as a power
cut would, at the n-th passing ("dispatcher.popped" or "dispatcher.popped:3").
"""

import os
import signal

_POINT, _, _COUNT = os.environ.get("CHRONOWEB_FAULT", "").partition(":")
_left = int(_COUNT or 1)


def point(name: str) -> None:
    """Die here, if the environment says so."""
    global _left
    if _POINT and name == _POINT:
        _left -= 1
        if _left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
