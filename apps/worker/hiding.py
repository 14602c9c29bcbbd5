"""Secrets do not come back: their values are found in what an attempt returned or raised, and replaced. Pure.

Found are a value as it is, line by line, in JSON, in a URL and in Base64, and what a cut has left of it at either end
of a text. Values of few characters are not looked for (apps/logs/masking.py).
"""

import json
import re
from functools import lru_cache
from typing import Any

from apps.logs.masking import LEAST_CHARACTERS, MASK, forms

_LEAST_AT_EDGE = 6
_LONGEST_AT_EDGE = 4096


def hide(values: tuple[str, ...], result_json: bytes | None, error: Any) -> tuple[bytes | None, Any]:
    """(result, error) of an attempt without the values."""
    if result_json is not None:
        found = json.loads(result_json)
        masked = _without(values, found)
        result_json = result_json if masked == found else json.dumps(masked, ensure_ascii=False).encode()
    return result_json, _without(values, error)


def _without(values: tuple[str, ...], value: Any) -> Any:
    if isinstance(value, str):
        return _text(values, value)
    if isinstance(value, list):
        return [_without(values, item) for item in value]
    if isinstance(value, dict):
        return {_text(values, str(key)): _without(values, item) for key, item in value.items()}
    return value


def _text(values: tuple[str, ...], text: str) -> str:
    pattern = _pattern(values)
    if pattern is None:
        return text
    text = pattern.sub(MASK, text)
    for value in values:
        for n in range(min(len(value) - 1, len(text), _LONGEST_AT_EDGE), _LEAST_AT_EDGE - 1, -1):
            if text.startswith(value[-n:], text.startswith("…")):
                text = MASK + text[n + text.startswith("…") :]
            if text.removesuffix("…").endswith(value[:n]):
                text = text.removesuffix("…")[:-n] + MASK
    return text


@lru_cache(maxsize=512)
def _pattern(values: tuple[str, ...]) -> re.Pattern[str] | None:
    known = {form for value in values for form in forms(value) if len(form) >= LEAST_CHARACTERS}
    ordered = sorted(known, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(re.escape, ordered))) if ordered else None
