"""What is worth saying about a task's document although it is accepted."""

from collections.abc import Mapping
from typing import Any

from apps.executions import handler_signatures

LONG_SECONDS = 900
"""An attempt that may run longer should tell that it lives: else a fault late in it costs all of it."""


def warnings_of(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """Objects of `pointer` (into the document) and `detail`; empty when there is nothing to say."""
    found = []
    limit = document["timeout_seconds"]
    if limit > LONG_SECONDS and "heartbeat_seconds" not in document["timeouts"]:
        detail = (
            f"an attempt may run for {limit} s and need not tell that it lives: set heartbeat_seconds and let the "
            "handler leave checkpoints, or split the work"
        )
        found.append({"pointer": "/timeouts/heartbeat_seconds", "detail": detail})
    handler = document["handler"]
    if handler["type"] == "python" and handler_signatures.signature_of(handler["name"]) is None:
        detail = (
            f"the handler {handler['name']!r} is not known here, so the parameters were not checked: workers that know "
            "it run it, others fail it"
        )
        found.append({"pointer": "/handler/name", "detail": detail})
    return found
