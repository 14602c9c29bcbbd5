"""What schemathesis cannot know of this API. Loaded by it (SCHEMATHESIS_HOOKS) and by the short form of the drill."""

import secrets
from typing import Any

import schemathesis
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation

KEY = "Idempotency-Key"


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Makes a generated request one that may come now."""
    headers = case.headers if case.headers is not None else {}
    # Keys are good for one request each; generators like to take the same ones again.
    if isinstance(headers.get(KEY), str) and headers[KEY].isprintable() and len(headers[KEY]) < 200:
        headers[KEY] += secrets.token_hex(8)
    if isinstance(case.query, dict) and _is_right(case, ParameterLocation.QUERY):
        _mend(case.query)
    # A followed log has no end.
    if case.operation.path.endswith("/logs"):
        headers["Accept"] = "application/json"
    case.headers = headers


def _mend(query: dict[str, Any]) -> None:
    """What no schema says of a query that fits it."""
    query.pop("cursor", None)  # nobody can make one up: they are sealed
    for name in {"since", "until"} & set(query):
        year = str(query[name])[:4]
        if not (year.isdecimal() and 1970 <= int(year) < 9000):  # where ids and zones end
            query[name] = f"2024{str(query[name])[4:]}"
    if "search" in query:
        query["search"] = f"a {query['search']}"[:200]  # a search of logs needs a word


def _is_right(case: Any, place: ParameterLocation) -> bool:
    """Whether this part of the case was made to fit its schema; a case is wrong when any part of it is."""
    if case.meta is None:
        return True
    part = case.meta.components.get(place)
    return part is None or part.mode == GenerationMode.POSITIVE
