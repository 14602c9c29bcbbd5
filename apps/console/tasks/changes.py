"""How two documents of a task differ, for people; and a task as text for other places. Pure."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from apps.definitions.dags.differences import values_between
from apps.definitions.dags.files import written
from apps.definitions.models import Task
from apps.definitions.validation import DEFAULTS
from apps.executions.retry import RetryPolicy

_DEFAULTS: dict[str, Any] = DEFAULTS | {"retry_policy": RetryPolicy.parse({}).to_json()}
_SCHEDULE_DEFAULTS = {"timezone": "UTC", "dst_gap": "shift", "dst_fold": "first"}


def lines(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(sign, words) of each difference, in the document's order; all of `after` where there was nothing before."""
    found = values_between({} if before is None else sparse(before), sparse(after))
    return [(text[0], text[2:]) for text in (one.line() for one in found)]


def sparse(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document as people write it: without what is default."""
    shown = {name: value for name, value in document.items() if name not in _DEFAULTS or value != _DEFAULTS[name]}
    if isinstance(shown.get("schedule"), Mapping):
        given = shown["schedule"]
        shown["schedule"] = {
            name: value for name, value in given.items() if value is not None and _SCHEDULE_DEFAULTS.get(name) != value
        }
    return shown


def as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(sparse(document), indent=2, ensure_ascii=False)


def as_yaml(document: Mapping[str, Any]) -> str:
    return written(sparse(document))


def run_as_curl(task: Task, origin: str) -> str:
    """Runs it now."""
    body = shlex.quote(json.dumps({"parameters": task.parameters}, ensure_ascii=False))
    return (
        f"curl -X POST {origin}/api/v1/tasks/{task.id}/trigger \\\n"
        '  -H "Authorization: Bearer $CHRONOWEB_API_KEY" -H "Content-Type: application/json" \\\n'
        f"  -d {body}"
    )


def make_as_curl(document: Mapping[str, Any], origin: str) -> str:
    """Makes one like it."""
    return (
        f"curl -X POST {origin}/api/v1/tasks \\\n"
        '  -H "Authorization: Bearer $CHRONOWEB_API_KEY" -H "Content-Type: application/json" \\\n'
        f"  -d {shlex.quote(as_json(document))}"
    )
