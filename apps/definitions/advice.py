"""What is worth saying about a task's document although it is accepted."""

from collections.abc import Mapping
from typing import Any

from apps.executions import handler_signatures
from apps.executions.dags import references

LONG_SECONDS = 900
"""An attempt that may run longer should tell that it lives: else a fault late in it costs all of it."""

MOST_REFERENCES = 10
"""Told of: who has written one there has written them all by mistake."""
_GETS_PARAMETERS = {
    "python": "a Python handler takes them as its arguments",
    "command": "a command reads them as JSON from the variable CHRONOWEB_PARAMETERS",
    "container": "a container reads them as JSON from the variable CHRONOWEB_PARAMETERS",
    "webhook": "a webhook without a body of its own is sent them, under parameters",
}


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
    return [*found, *_unresolved(document)]


def _unresolved(document: Mapping[str, Any]) -> list[dict[str, str]]:
    """References where a task by itself has text. A node that runs it (`"task": NAME`) puts them in."""
    handler = document["handler"]
    places = {"handler": handler, "parameters": document["parameters"]}
    texts = sorted({pointer for pointer, _ in references.find(places)})
    detail = (
        "{{ … }} is put in as a value in nodes of DAGs only; in a run of this task by itself it stays as it stands: "
        + _GETS_PARAMETERS[handler["type"]]
    )
    return [{"pointer": pointer, "detail": detail} for pointer in texts[:MOST_REFERENCES]]
