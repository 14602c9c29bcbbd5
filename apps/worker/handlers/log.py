"""What handlers log: a line in their attempt's log; where nobody keeps one, a JSON line on standard error."""

import json
import sys
from typing import Any

from apps.worker.handlers.line import NO_LINE, Line
from chronoweb.runtime.clock import SYSTEM_CLOCK

MESSAGE_CHARACTERS = 64 * 1024


def write(record: dict[str, Any]) -> None:
    """Put one record where the worker's own log goes."""
    # One call, so that lines of several threads do not run into each other.
    sys.stderr.write(json.dumps(record, default=str) + "\n")
    sys.stderr.flush()


class TaskLog:
    """`context.log("message", field=…)`, or by level: `context.log.warning("message")`. Fields are kept as given."""

    __slots__ = ("_ids", "_line", "_seq")

    def __init__(self, line: Line = NO_LINE, seq: int = 0, **ids: Any) -> None:
        self._line = line
        self._seq = seq
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
        text = str(message)[:MESSAGE_CHARACTERS]
        if self._line.log(self._seq, {"level": level, "message": text, "fields": fields}):
            return
        record = {
            "time": SYSTEM_CLOCK.now().isoformat(timespec="milliseconds"),
            "level": level,
            "logger": "handler",
            "message": text,
            "action": "handler.log",
            **self._ids,
        }
        write({**record, "fields": fields} if fields else record)
