"""What JSON may hold that PostgreSQL, other languages and people can all read back: checked once, for every document.

Python's parser takes more than that: NaN, integers of any size, lone surrogates; and jsonb refuses NUL characters.
"""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from chronoweb.runtime.errors import InvalidInput

DEEPEST = 32
INT64 = (-(2**63), 2**63 - 1)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def problems(value: Any) -> Iterator[InvalidInput]:
    """Everything in a parsed JSON value that must not be stored, with its pointer; lazily, in document order.

    A body may hold millions of values, so a pointer is made only where something is wrong.
    """
    path: list[Any] = []  # from the document to what is walked
    walks: list[Iterator[tuple[Any, Any]]] = [iter([("", value)])]
    while walks:
        for key, child in walks[-1]:
            if isinstance(key, str) and (problem := _text_problem(key)):
                yield InvalidInput(_pointer(path), None, f"has a field whose name {problem}", "plain text")
            elif not isinstance(child, dict | list):
                if wrong := _leaf_problem(child):
                    yield InvalidInput(_pointer([*path, key]), *wrong)
            elif len(path) >= DEEPEST:
                problem = f"is nested more than {DEEPEST} levels deep"
                yield InvalidInput(_pointer([*path, key]), None, problem, f"{DEEPEST} levels")
            elif child:
                path.append(key)
                walks.append(iter(child.items() if isinstance(child, dict) else enumerate(child)))
                break
        else:
            walks.pop()
            del path[-1:]


def _pointer(path: list[Any]) -> str:
    """The first element stands for the document."""
    return "".join(f"/{escape(str(key))}" for key in path[1:])


def _leaf_problem(value: Any) -> tuple[Any, str, str] | None:
    """What may be shown of a value that must not be stored, what is wrong, what is right."""
    if isinstance(value, str):
        if problem := _text_problem(value):
            return value, problem, "text without NUL characters and lone surrogates"
    elif isinstance(value, float):
        if not math.isfinite(value):
            return str(value), "is not a finite number", "a finite number"
    elif isinstance(value, int) and not INT64[0] <= value <= INT64[1]:
        return None, "is an integer that 64 bits cannot hold", f"{INT64[0]} to {INT64[1]}"
    return None


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "contains a NUL character"
    if not text.isascii() and _LONE_SURROGATE.search(text):
        return "contains a lone surrogate"
    return None


def escape(name: str) -> str:
    """A field's name as part of a JSON pointer (RFC 6901), cut when it is absurdly long."""
    return name[:80].encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")


def unescape(step: str) -> str:
    """The field's name that a step of a JSON pointer stands for."""
    return step.replace("~1", "/").replace("~0", "~")


def compact(value: Any) -> bytes:
    """The JSON text that is stored and measured."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def canonical(value: Any) -> bytes:
    """One text for equal values: what hashes are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
