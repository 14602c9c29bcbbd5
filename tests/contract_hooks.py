"""What schemathesis cannot know of this API. Loaded by it (SCHEMATHESIS_HOOKS) and by the short form of the drill."""

import secrets
from typing import Any

import schemathesis
from schemathesis import GenerationMode

KEY = "Idempotency-Key"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Makes a generated request one that may come now."""
    headers = case.headers if case.headers is not None else {}
    # Keys are good for one request each; generators like to take the same ones again.
    if isinstance(headers.get(KEY), str) and headers[KEY].isprintable() and len(headers[KEY]) < 200:
        headers[KEY] += secrets.token_hex(8)
    # Nobody can make up a cursor: they are sealed. What is no cursor stays in the cases that are to be refused.
    if isinstance(case.query, dict) and _is_to_be_taken(case):
        case.query.pop("cursor", None)
        # Instants end where ids and zones do; no format says so.
        for name in {"since", "until"} & set(case.query):
            case.query[name] = _in_range(case.query[name])
    # A followed log has no end.
    if case.operation.path.endswith("/logs"):
        headers["Accept"] = "application/json"
    case.headers = headers


def _in_range(moment: Any) -> Any:
    year = str(moment)[:4]
    return moment if year.isdecimal() and 1970 <= int(year) < 9000 else f"2024{str(moment)[4:]}"


def _is_to_be_taken(case: Any) -> bool:
    return case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE
