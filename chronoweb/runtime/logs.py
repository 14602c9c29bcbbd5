"""JSON log lines on standard error: time, level, logger, message, and the ids that `extra` carried."""

import json
import logging
import re
from datetime import UTC, datetime

_KEY = re.compile(r"(cw_[A-Za-z0-9_-]{6})[A-Za-z0-9_-]{10,}")
"""An API key that came where none belongs, such as a URL: only its prefix is logged."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line; what `extra` adds (action, execution, tenant, trace, …) stands beside the message."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line.update({key: value for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_keys(json.dumps(line, default=str))


def without_keys(text: str) -> str:
    """`text` with no more than the prefix of each API key in it."""
    return _KEY.sub(r"\1…", text)
