"""Imported by Python itself when this folder is on PYTHONPATH: the host's clock is wrong by CHAOS_CLOCK_OFFSET seconds.

In the environment and not patched into one process, so that the children of a worker live on the same wrong host.
"""

import os
import time

_OFFSET = float(os.environ.get("CHAOS_CLOCK_OFFSET", "0"))
_right = time.time  # noqa: TID251 - what Clock itself reads is made wrong here


def _wrong() -> float:
    return _right() + _OFFSET


time.time = _wrong  # noqa: TID251 - as above
