"""JSON log lines on standard error: time, level, logger, message, and the ids that `extra` carried."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

from chronoweb.runtime import request_id

_KEY = re.compile(r"(cw_[A-Za-z0-9_-]{6})[A-Za-z0-9_-]{10,}")
"""An API key that came where none belongs, such as a URL: only its prefix is logged."""

_LOGIN_LINK = re.compile(r"(/login/)[^\s\"'?/\\]{8,}")
"""Whoever has the address of a login link gets in."""

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
        if number := request_id.current():
            line["request_id"] = number
        line.update({key: _plain(value) for key, value in vars(record).items() if key not in _STANDARD})
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return without_secrets(json.dumps(line, default=str))


def without_secrets(text: str) -> str:
    """`text` with no more than the prefix of each API key in it, and without the tokens of login links."""
    return _LOGIN_LINK.sub(r"\1…", _KEY.sub(r"\1…", text))


def _plain(value: Any) -> Any:
    """Django names a request with its query, which may hold secrets."""
    return f"{value.method} {value.path}" if isinstance(value, HttpRequest) else value
