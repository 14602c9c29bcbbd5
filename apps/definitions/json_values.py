"""What JSON may hold that PostgreSQL, other languages and people can all read back: checked once, for every document.

Python's parser takes more than that: NaN, integers of any size, lone surrogates; and jsonb refuses NUL characters.
"""

import json
import math
from collections.abc import Iterator
from typing import Any

from chronoweb.runtime.errors import InvalidInput

DEEPEST = 32
INT64 = (-(2**63), 2**63 - 1)


def problems(value: Any, pointer: str = "", depth: int = 0) -> Iterator[InvalidInput]:
    """Everything in a parsed JSON value that must not be stored, with its pointer; lazily, in document order."""
    if isinstance(value, dict | list):
        if depth >= DEEPEST:
            yield InvalidInput(pointer, None, f"is nested more than {DEEPEST} levels deep", f"{DEEPEST} levels")
            return
        children = value.items() if isinstance(value, dict) else enumerate(value)
        for key, child in children:
            if isinstance(key, str) and (problem := _text_problem(key)):
                yield InvalidInput(pointer, None, f"has a field whose name {problem}", "plain text")
            else:
                yield from problems(child, f"{pointer}/{escape(str(key))}", depth + 1)
    elif isinstance(value, str):
        if problem := _text_problem(value):
            yield InvalidInput(pointer, value, problem, "text without NUL characters and lone surrogates")
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield InvalidInput(pointer, str(value), "is not a finite number", "a finite number")
    elif isinstance(value, int) and not INT64[0] <= value <= INT64[1]:
        yield InvalidInput(pointer, None, "is an integer that 64 bits cannot hold", f"{INT64[0]} to {INT64[1]}")


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "contains a NUL character"
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return "contains a lone surrogate"
    return None


def escape(name: str) -> str:
    """A field's name as part of a JSON pointer (RFC 6901), cut when it is absurdly long."""
    return name[:80].encode("utf-8", "replace").decode().replace("~", "~0").replace("/", "~1")


def compact(value: Any) -> bytes:
    """The JSON text that is stored and measured."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def canonical(value: Any) -> bytes:
    """One text for equal values: what hashes are made of."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
