"""A task's time limits beside that of one attempt (timeout_seconds). Pure."""

from collections.abc import Mapping
from typing import Any

from chronoweb.runtime.errors import InvalidInput, InvalidInputs

LONGEST_SECONDS = {"queue_seconds": 7 * 86_400, "total_seconds": 7 * 86_400, "heartbeat_seconds": 86_400}
"""Field → its largest value.

queue_seconds: an execution not dispatched so long after run_at is a dead letter. total_seconds: from its first start
to its end, over all attempts. heartbeat_seconds: a handler that has told its progress or left a checkpoint, and is
silent for so long, has timed out.
"""


def read_timeouts(data: Any) -> dict[str, int]:
    """The limits that `data` sets; null and absent both mean none. Raises InvalidInputs, pointers relative."""
    fields = ", ".join(LONGEST_SECONDS)
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object", fields)])
    errors = []
    for name, value in data.items():
        if name not in LONGEST_SECONDS:
            pointer = "/" + str(name).replace("~", "~0").replace("/", "~1")
            errors.append(InvalidInput(pointer, value, "is not a time limit", fields))
        elif value is not None and (type(value) is not int or not 1 <= value <= LONGEST_SECONDS[name]):
            legal = f"1 to {LONGEST_SECONDS[name]}, or null for none"
            errors.append(InvalidInput(f"/{name}", value, "must be a whole number of seconds", legal))
    if errors:
        raise InvalidInputs(errors)
    return {name: data[name] for name in LONGEST_SECONDS if data.get(name) is not None}
