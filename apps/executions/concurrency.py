"""At most so many executions at once for each key: what a task declares, and the key that parameters give. Pure.

A key is a text with values of the parameters in it, such as `customer-{{ parameters.customer }}`. Tasks of one tenant
that come to the same key share its places.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from chronoweb.runtime.errors import InvalidInput, InvalidInputs

WHEN_FULL = ("queue", "cancel_oldest", "skip_newest")
"""queue: wait. cancel_oldest: those that began first make room. skip_newest: what comes is skipped. sql/dispatch.sql
names them.
"""

FIELDS = ("key", "limit", "when_full")
MOST_PLACES = 1000
TEMPLATE_CHARACTERS = 200
KEY_CHARACTERS = 200
_KEPT_CHARACTERS = 160  # of a longer key; the rest is the digest that tells it from others

_PLACEHOLDER = re.compile(r"\{\{\s*parameters((?:\.[A-Za-z0-9_-]+)+)\s*\}\}")
_BRACES = re.compile(r"\{\{.*?\}\}|\{\{|\}\}")
_LEGAL = "text with values such as {{ parameters.customer }}"
_SCALAR = "text, a number or a boolean"


def read_concurrency(data: Any) -> dict[str, Any]:
    """The canonical object, `when_full` filled in. Raises InvalidInputs, pointers relative."""
    if not isinstance(data, Mapping):
        raise InvalidInputs([InvalidInput("", data, "must be an object, or null for no limit", ", ".join(FIELDS))])
    errors = []
    for name in data:
        if name not in FIELDS:
            pointer = "/" + str(name).replace("~", "~0").replace("/", "~1")
            errors.append(InvalidInput(pointer, data[name], "is not a field of concurrency", ", ".join(FIELDS)))
    key, limit = data.get("key"), data.get("limit")
    when_full = "queue" if data.get("when_full") is None else data["when_full"]
    errors += _problems_of_template(key)
    if type(limit) is not int or not 1 <= limit <= MOST_PLACES:
        problem = "is required" if limit is None else "must be a whole number in its range"
        errors.append(InvalidInput("/limit", limit, problem, f"1 to {MOST_PLACES}"))
    if when_full not in WHEN_FULL:
        errors.append(InvalidInput("/when_full", when_full, "is not one of the choices", ", ".join(WHEN_FULL)))
    if errors:
        raise InvalidInputs(errors)
    return {"key": key, "limit": limit, "when_full": when_full}


def _problems_of_template(key: Any) -> list[InvalidInput]:
    if key is None:
        return [InvalidInput("/key", None, "is required", _LEGAL)]
    if not isinstance(key, str) or not key.strip():
        return [InvalidInput("/key", key, "must be a text that is not blank", _LEGAL)]
    if len(key) > TEMPLATE_CHARACTERS:
        legal = f"at most {TEMPLATE_CHARACTERS} characters"
        return [InvalidInput("/key", key, f"is {len(key)} characters long", legal)]
    if any(character < " " or character == "\x7f" for character in key):
        return [InvalidInput("/key", key, "contains a control character", _LEGAL)]
    for braces in _BRACES.findall(_PLACEHOLDER.sub("", key)):
        return [InvalidInput("/key", key, f"contains {braces!r}, which names no parameter", _LEGAL)]
    return []


def key_of(concurrency: Mapping[str, Any] | None, parameters: Mapping[str, Any], *, tenant_id: bytes) -> str | None:
    """The key under which an execution with these parameters takes a place, as `slots` has it; None: without limit.

    Raises InvalidInputs, pointers into the parameters, where a value that the key needs is missing or no plain value.
    """
    if concurrency is None:
        return None
    errors: list[InvalidInput] = []

    def value(match: re.Match[str]) -> str:
        return _text_at(match.group(1)[1:].split("."), parameters, errors)

    rendered = _PLACEHOLDER.sub(value, concurrency["key"])
    if errors:
        raise InvalidInputs(errors)
    return f"key:{tenant_id.hex()}:{_bounded(rendered)}"


def shown(key: str) -> str:
    """The key as people know it."""
    return key.split(":", 2)[2]


def waits_text(key: str, *, running: int, places: int) -> str:
    """Why an execution waits: `waits: 3 of 3 running for customer-42`."""
    return f"waits: {running} of {places} running for {shown(key)}"


def places_of(definition: Mapping[str, Any]) -> int:
    """How many places the key of an execution of this version has."""
    return (definition.get("concurrency") or {}).get("limit", 0)


def _text_at(path: list[str], parameters: Mapping[str, Any], errors: list[InvalidInput]) -> str:
    found: Any = parameters
    pointer = ""
    for name in path:
        pointer += f"/{name}"
        if not isinstance(found, Mapping) or name not in found:
            errors.append(InvalidInput(pointer, None, "is missing, and the concurrency key needs it", _SCALAR))
            return ""
        found = found[name]
    if isinstance(found, str):
        return found
    if isinstance(found, bool | int | float):
        return json.dumps(found)
    errors.append(InvalidInput(pointer, found, "is no plain value, and the concurrency key needs one", _SCALAR))
    return ""


def _bounded(key: str) -> str:
    if len(key) <= KEY_CHARACTERS:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:32]
    return f"{key[:_KEPT_CHARACTERS]}…{digest}"
