"""What handlers log: one JSON line each on standard error, with the ids of their attempt.

`write` is the one place where such a line leaves the process.
"""

import json
import sys
from typing import Any

from chronoweb.runtime.clock import SYSTEM_CLOCK

MESSAGE_CHARACTERS = 64 * 1024


def write(record: dict[str, Any]) -> None:
    """Put one record where the worker's own log goes."""
    # One call, so that lines of several threads do not run into each other.
    sys.stderr.write(json.dumps(record, default=str) + "\n")
    sys.stderr.flush()


class TaskLog:
    """`context.log("message", field=…)`, or by level: `context.log.warning("message")`. Fields are kept as given."""

    __slots__ = ("_ids",)

    def __init__(self, **ids: Any) -> None:
        self._ids = ids

    def __call__(self, message: str, **fields: Any) -> None:
        self._say("info", message, fields)

    def debug(self, message: str, **fields: Any) -> None:
        self._say("debug", message, fields)

    def info(self, message: str, **fields: Any) -> None:
        self._say("info", message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        self._say("warning", message, fields)

    def error(self, message: str, **fields: Any) -> None:
        self._say("error", message, fields)

    def _say(self, level: str, message: str, fields: dict[str, Any]) -> None:
        record = {
            "time": SYSTEM_CLOCK.now().isoformat(timespec="milliseconds"),
            "level": level,
            "logger": "handler",
            "message": str(message)[:MESSAGE_CHARACTERS],
            "action": "handler.log",
            **self._ids,
        }
        write({**record, "fields": fields} if fields else record)
