"""Lines of logs."""

from typing import Any

from apps.api.openapi.shapes import COUNT, MOMENT, TEXT, UUID, Shape, extended, one_of, page
from apps.logs.records import STREAMS

_LINE: Shape = {
    "type": "object",
    "description": "A line; what a library logged has members of its own beside these.",
    "properties": {
        "id": {"type": "string", "pattern": "^[0-9]+-[0-9]+$", "description": "where to go on behind it"},
        "attempt": COUNT,
        "seq": COUNT,
        "time": MOMENT,
        "stream": one_of(STREAMS.values()),
        "text": TEXT,
    },
    "required": ["id", "attempt", "seq", "time", "stream", "text"],
}
_FOUND = extended(_LINE, {"execution_id": UUID})
del _FOUND["additionalProperties"]

SCHEMAS: dict[str, Shape] = {
    "LogLine": _LINE,
    "LogPage": page("LogLine"),
    "FoundLogLine": _FOUND,
    "FoundLogPage": page("FoundLogLine"),
}

_EXAMPLE = {
    "id": "1-120",
    "attempt": 1,
    "seq": 120,
    "time": "2026-03-02T01:00:00.250000Z",
    "stream": "stdout",
    "text": "120 rows read",
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "LogPage": {"one": {"items": [_EXAMPLE], "next_cursor": None}},
}
